package store_test

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// full is a store with every ability. It notes the keys that it is asked for.
type full struct {
	*memstore.Store
	asked []string
}

func (f *full) ask(what, key string) { f.asked = append(f.asked, what+" "+key) }

func (f *full) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	f.ask("get", key)
	return f.Store.Get(ctx, key)
}

func (f *full) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	f.ask("put-unsynced", key)
	return f.Put(ctx, key, prev, value)
}

func (f *full) Watch(_ context.Context, key string, seen store.Version) error {
	f.ask("watch", key+" "+string(seen))
	return nil
}

func (f *full) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	f.ask("list", prefix)
	return f.Store.List(ctx, prefix)
}

func (f *full) ListTags(_ context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	f.ask("list-tags", prefix)
	return func(yield func(store.Tagged, error) bool) { yield(store.Tagged{Key: prefix + "/job", Tag: "10"}, nil) }
}

func (f *full) ListCost() store.ListCost { return store.ListCost{Gets: 13, Keys: 17} }

func (f *full) GetAge(_ context.Context, key string) ([]byte, store.Version, time.Duration, error) {
	f.ask("get-age", key)
	return []byte("aged"), "7", time.Minute, nil
}

func (f *full) GetIfChanged(_ context.Context, key string, seen store.Version) ([]byte, store.Version, bool, error) {
	f.ask("get-if-changed", key+" "+string(seen))
	return []byte("changed"), "8", true, nil
}

func (f *full) GetUncommitted(_ context.Context, key string) ([]byte, store.Version, error) {
	f.ask("get-uncommitted", key)
	return []byte("peeked"), "9", nil
}

func (f *full) HighestToken(_ context.Context, key string) (uint64, error) {
	f.ask("highest-token", key)
	return 41, nil
}

func (f *full) Resolve(_ context.Context, key string, prev store.Version, writes ...store.Version) (store.ResolveResult, error) {
	f.ask("resolve", key+" "+string(prev))
	return store.ResolveResult{Resolution: store.ResolutionSuperseded, Write: writes[0], Current: store.Entry{Key: key}}, nil
}

func (f *full) Announce(context.Context) (string, error) { return "me", nil }

func (f *full) Liveness(context.Context, string) store.Liveness { return store.Alive }

func (f *full) WaitLiveness(context.Context, string) error { return nil }

func (f *full) ExpectWake(context.Context, string, func()) (func(), error) { return func() {}, nil }

func (f *full) Wake(context.Context, string) {}

// Extra is an ability that package store does not know.
func (f *full) Extra() string { return "extra" }

type extra interface{ Extra() string }

var (
	_ store.Watcher           = (*full)(nil)
	_ store.Lister            = (*full)(nil)
	_ store.UnsyncedPutter    = (*full)(nil)
	_ store.AgeReader         = (*full)(nil)
	_ store.ConditionalGetter = (*full)(nil)
	_ store.UncommittedReader = (*full)(nil)
	_ store.Presence          = (*full)(nil)
	_ store.TagLister         = (*full)(nil)
	_ store.Waker             = (*full)(nil)
)

func newFull() *full { return &full{Store: memstore.New()} }

// wrapper is a decorator that may be passed over.
type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

// hider is a decorator without Unwrap: it shows what it has itself and no more.
type hider struct{ plain }

func TestAs(t *testing.T) {
	f := newFull()
	pass := func(ctx context.Context, op *store.Op, next store.Handler) error { return next(ctx, op) }
	prefixed, err := store.Prefix(f, "p")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{
		"the store": f, "in a wrapper": wrapper{f}, "in two wrappers": wrapper{wrapper{f}}, "intercepted": store.Intercept(f, pass),
		"under a prefix": prefixed, "in all of them": wrapper{store.Intercept(wrapper{prefixed}, pass)},
	} {
		if got := store.Abilities(s); !slices.Equal(got, store.AbilityNames()) {
			t.Errorf("%s: shows %q, want all of %q", name, got, store.AbilityNames())
		}
		if store.TraitsOf(s).Name != "memory" {
			t.Errorf("%s: no traits", name)
		}
	}
	for name, s := range map[string]store.Store{
		"hidden": hider{plain{f}}, "hidden, then intercepted": store.Intercept(hider{plain{f}}, pass), "nothing to unwrap": wrapper{},
	} {
		if got := store.Abilities(s); len(got) > 0 {
			t.Errorf("%s: shows %q", name, got)
		}
		if got := store.TraitsOf(s); got != (store.Traits{}) {
			t.Errorf("%s: traits %+v", name, got)
		}
	}
	if _, ok := store.As[store.Watcher](nil); ok {
		t.Error("a nil store can watch")
	}
}

// TestAsPastADecorator shows that a decorator hands out nothing by which a call gets
// past it, and that one with Unwrap says that callers may.
func TestAsPastADecorator(t *testing.T) {
	f := newFull()
	failure := errors.New("refused")
	refusing := store.Intercept(f, func(context.Context, *store.Op, store.Handler) error { return failure })
	prefixed, err := store.Prefix(f, "p")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]store.Store{"intercepted": refusing, "under a prefix": prefixed, "both, in a wrapper": wrapper{store.Intercept(prefixed, nil)}} {
		if got, ok := store.As[*full](s); ok {
			t.Errorf("%s: hands out the concrete store %v", name, got)
		}
		if _, ok := store.As[extra](s); ok {
			t.Errorf("%s: hands out an interface that it does not know", name)
		}
		if got, ok := store.As[store.Store](s); !ok || got != s {
			t.Errorf("%s: as a store it is %v, want itself", name, got)
		}
		if _, ok := store.As[interface {
			store.Store
			store.Watcher
		}](s); ok {
			t.Errorf("%s: hands out a store that watches", name)
		}
		if p, ok := store.As[store.Presence](s); ok {
			if _, ok := p.(store.Store); ok {
				t.Errorf("%s: its presence is the store below", name)
			}
		}
		if d, ok := store.As[store.Describer](s); ok {
			if _, ok := d.(store.Store); ok {
				t.Errorf("%s: its describer is the store below", name)
			}
		}
	}
	if got, ok := store.As[*full](wrapper{f}); !ok || got != f {
		t.Error("a decorator with Unwrap hides the store below")
	}
	if got, ok := store.As[extra](wrapper{f}); !ok || got.Extra() != "extra" {
		t.Error("a decorator with Unwrap hides an interface of the store below")
	}
}

// everything uses the store and every ability of it once, and returns the results.
func everything(t *testing.T, s store.Store) []any {
	t.Helper()
	ctx := t.Context()
	v, err := s.Put(ctx, "a/job", "", []byte("one"))
	results := []any{err}
	v, err = store.PutUnsynced(ctx, s, "a/job", v, []byte("two"))
	results = append(results, err)
	value, w, err := s.Get(ctx, "a/job")
	results = append(results, string(value), w == v, err)
	watcher, _ := store.As[store.Watcher](s)
	results = append(results, watcher.Watch(ctx, "a/job", "seen"))
	for _, prefix := range []string{"", "a", "b"} {
		for key, err := range store.List(ctx, s, prefix) {
			results = append(results, key, err)
		}
	}
	tags, _ := store.As[store.TagLister](s)
	for tag, err := range tags.ListTags(ctx, "a") {
		results = append(results, tag, err)
	}
	results = append(results, tags.ListCost())
	ager, _ := store.As[store.AgeReader](s)
	value, w, age, err := ager.GetAge(ctx, "a/job")
	results = append(results, string(value), w, age, err)
	value, w, changed, err := store.GetIfChanged(ctx, s, "a/job", "seen")
	results = append(results, string(value), w, changed, err)
	value, w, err = store.GetUncommitted(ctx, s, "a/job")
	results = append(results, string(value), w, err)
	mark, err := store.HighestToken(ctx, s, "a/job")
	results = append(results, mark, err)
	settled, err := store.Resolve(ctx, s, "a/job", "seen", "sent")
	results = append(results, settled.Resolution, settled.Write, settled.Current.Key, err)
	return append(results, s.Delete(ctx, "a/job", v))
}

func TestInterceptPassesEverything(t *testing.T) {
	plain, f := newFull(), newFull()
	var kinds []store.Kind
	s := store.Intercept(f, func(ctx context.Context, op *store.Op, next store.Handler) error {
		kinds = append(kinds, op.Kind)
		return next(ctx, op)
	})
	want := everything(t, plain)
	if got := everything(t, s); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !slices.Equal(f.asked, plain.asked) {
		t.Errorf("the store below was asked %q, want %q", f.asked, plain.asked)
	}
	wantKinds := []store.Kind{
		store.OpPut, store.OpPutUnsynced, store.OpGet, store.OpWatch, store.OpList, store.OpList, store.OpList,
		store.OpListTags, store.OpGetAge, store.OpGetIfChanged, store.OpGetUncommitted, store.OpHighestToken, store.OpResolve, store.OpDelete,
	}
	if !slices.Equal(kinds, wantKinds) {
		t.Errorf("the handler saw %q, want %q", kinds, wantKinds)
	}
	writes := slices.DeleteFunc(kinds, func(k store.Kind) bool { return !k.Write() })
	if !slices.Equal(writes, []store.Kind{store.OpPut, store.OpPutUnsynced, store.OpDelete}) {
		t.Errorf("writes are %q", writes)
	}
}

// TestInterceptChanges checks that a handler can change arguments and results, and
// answer without the store.
func TestInterceptChanges(t *testing.T) {
	m := memstore.New()
	denied := errors.New("denied")
	s := store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
		switch {
		case op.Key == "denied":
			return denied
		case op.Kind == store.OpPut:
			op.Value = append([]byte("<"), op.Value...)
			return next(ctx, op)
		case op.Kind == store.OpGet:
			err := next(ctx, op)
			op.Value, op.Version = append(op.Value, '>'), "mine"
			return err
		}
		return next(ctx, op)
	})
	value := []byte("one")
	if _, err := s.Put(t.Context(), "job", "", value); err != nil || string(value) != "one" {
		t.Fatal(err, value)
	}
	want(t, m, "job", "<one")
	if got, v, err := s.Get(t.Context(), "job"); err != nil || string(got) != "<one>" || v != "mine" {
		t.Errorf("got %q version %q, %v", got, v, err)
	}
	if _, _, err := s.Get(t.Context(), "denied"); !errors.Is(err, denied) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Put(t.Context(), "denied", "", nil); !errors.Is(err, denied) {
		t.Errorf("put: %v", err)
	}
	n := 0
	for key, err := range store.List(t.Context(), s, "denied") {
		if n++; key != "" || !errors.Is(err, denied) {
			t.Errorf("list: %q, %v", key, err)
		}
	}
	if n != 1 {
		t.Errorf("a denied list yields %d times", n)
	}
}

func TestFallbacks(t *testing.T) {
	ctx := t.Context()
	s := plain{memstore.New()}
	v, err := store.PutUnsynced(ctx, s, "job", "", []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	if value, w, err := store.GetUncommitted(ctx, s, "job"); err != nil || w != v || string(value) != "one" {
		t.Errorf("peek: got %q version %q, %v", value, w, err)
	}
	for _, c := range []struct {
		key, value string
		seen, v    store.Version
		changed    bool
		err        error
	}{
		{"job", "", v, v, false, nil},
		{"job", "one", "", v, true, nil},
		{"job", "one", "older", v, true, nil},
		{"absent", "", "", "", true, store.ErrNotFound},
		{"absent", "", v, "", true, store.ErrNotFound},
	} {
		value, w, changed, err := store.GetIfChanged(ctx, s, c.key, c.seen)
		if string(value) != c.value || w != c.v || changed != c.changed || !errors.Is(err, c.err) {
			t.Errorf("%s, seen %q: got %q version %q, changed %v, %v", c.key, c.seen, value, w, changed, err)
		}
	}
	n := 0
	for key, err := range store.List(ctx, s, "") {
		if n++; key != "" || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("list: %q, %v", key, err)
		}
	}
	if n != 1 {
		t.Errorf("list yields %d times, want one error", n)
	}
}

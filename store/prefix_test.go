package store_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func prefix(t *testing.T, s store.Store, prefix string) store.Store {
	t.Helper()
	p, err := store.Prefix(s, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrefix(t *testing.T) {
	f := newFull()
	if got := prefix(t, f, ""); got != store.Store(f) {
		t.Error("an empty prefix changes the store")
	}
	want := everything(t, newFull())
	if got := everything(t, prefix(t, f, "p/q")); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	wantAsked := []string{
		"put-unsynced p/q/a/job", "get p/q/a/job", "watch p/q/a/job seen", "list p/q", "list p/q/a", "list p/q/b", "list-tags p/q/a",
		"get-age p/q/a/job", "get-if-changed p/q/a/job seen", "get-uncommitted p/q/a/job", "highest-token p/q/a/job", "resolve p/q/a/job seen",
	}
	if !slices.Equal(f.asked, wantAsked) {
		t.Errorf("the store below was asked\n%q, want\n%q", f.asked, wantAsked)
	}
}

func TestPrefixInvalid(t *testing.T) {
	for _, bad := range []string{"/", "p/", "/p", "p//q", ".", "..", "p/..", "\xff", strings.Repeat("x", store.MaxKey+1)} {
		if s, err := store.Prefix(memstore.New(), bad); !errors.Is(err, store.ErrKey) || s != nil {
			t.Errorf("Prefix(%.20q): got %v, %v, want ErrKey", bad, s, err)
		}
	}
}

// TestPrefixKeepsIn checks that no key of a prefixed store reaches beyond the prefix.
func TestPrefixKeepsIn(t *testing.T) {
	m := memstore.New()
	for _, key := range []string{"x", "p", "p-2/x", "q/x"} {
		put(t, m, key, "", "outside")
	}
	s := prefix(t, m, "p")
	for _, key := range []string{"", "..", "../x", "../q/x", "/x", "../p-2/x", "."} {
		if _, _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrKey) {
			t.Errorf("get %q: %v", key, err)
		}
		w, _ := store.As[store.Watcher](s)
		if err := w.Watch(t.Context(), key, "x"); !errors.Is(err, store.ErrKey) {
			t.Errorf("watch %q: %v", key, err)
		}
		for got, err := range store.List(t.Context(), s, key) {
			if key == "" || !errors.Is(err, store.ErrKey) {
				t.Errorf("list %q: %q, %v", key, got, err)
			}
		}
	}
}

func TestPrefixNested(t *testing.T) {
	m := memstore.New()
	s := prefix(t, prefix(t, m, "a"), "b/c")
	v := put(t, s, "job", "", "one")
	want(t, m, "a/b/c/job", "one")
	put(t, s, "job", v, "two")
	var keys []string
	for key, err := range store.List(t.Context(), s, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if !slices.Equal(keys, []string{"job"}) {
		t.Errorf("list: %q", keys)
	}
}

func TestPrefixLongest(t *testing.T) {
	s := prefix(t, memstore.New(), "pre")
	longest := strings.Repeat("x", store.MaxKey-len("pre/"))
	put(t, s, longest, "", "one")
	_, err := s.Put(t.Context(), longest+"x", "", nil)
	if !errors.Is(err, store.ErrKey) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a key too long together with its prefix: %v", err)
	}
}

// The traits of part of a store name the part, however it was made.
func TestPrefixTraits(t *testing.T) {
	m := memstore.New()
	whole, deep := store.TraitsOf(m), store.TraitsOf(prefix(t, prefix(t, m, "a"), "b/c"))
	if whole.Prefix != "" || deep.Prefix != "a/b/c/" || deep != store.TraitsOf(prefix(t, m, "a/b/c")) {
		t.Errorf("the whole is %+v, the part %+v", whole, deep)
	}
	if other := store.TraitsOf(memstore.New()); whole.ID == "" || other.ID == whole.ID {
		t.Errorf("two stores are %q and %q", whole.ID, other.ID)
	}
	if got := store.TraitsOf(prefix(t, called{m}, "a")); got.ID != "by its name" || got.Prefix != "a/" {
		t.Errorf("a store with no more than a name: %+v", got)
	}
}

type called struct{ store.Store }

func (called) Traits() store.Traits { return store.Traits{Name: "by its name"} }

// The errors below a prefix name the key as the caller gave it, once.
func TestPrefixErrors(t *testing.T) {
	unknown := func(key string) error {
		return &store.OpError{Op: store.OpPut, Key: key, Err: &store.InDoubtError{Version: "v", Err: store.ErrUnavailable}}
	}
	for _, c := range []struct {
		name string
		err  func(key string) error
		want string
	}{
		{"an OpError", unknown, "put job: store unavailable"},
		{"a conflict", func(key string) error { return &store.ConflictError{Key: key} }, `another writer changed "job"`},
		{"a conflict in an OpError", func(key string) error {
			return &store.OpError{Op: store.OpPut, Key: key, Err: &store.ConflictError{Key: key, HasCurrent: true}}
		}, `put job: "job" does not exist`},
		{"marked", func(key string) error { return store.MarkNotApplied(unknown(key)) }, "put job: store unavailable"},
		{"of another store", func(key string) error { return errors.New("no route") }, "no route"},
	} {
		inner := store.Intercept(memstore.New(), func(_ context.Context, op *store.Op, _ store.Handler) error { return c.err(op.Key) })
		_, err := prefix(t, prefix(t, inner, "a"), "b/c").Put(t.Context(), "job", "", nil)
		want := c.err("a/b/c/job")
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
		if store.OutcomeOf(err) != store.OutcomeOf(want) || errors.Is(err, store.ErrConflict) != errors.Is(want, store.ErrConflict) || store.AttemptedVersion(err) != store.AttemptedVersion(want) {
			t.Errorf("%s: %v means something else", c.name, err)
		}
	}
	inner := store.Intercept(memstore.New(), func(_ context.Context, op *store.Op, _ store.Handler) error {
		return &store.OpError{Op: op.Kind, Key: op.Key, Err: store.ErrUnavailable}
	})
	for key, want := range map[string]string{"": "list : store unavailable", "x": "list x: store unavailable"} {
		for _, err := range store.List(t.Context(), prefix(t, inner, "a/b"), key) {
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

// A key that leads out of the prefix never reaches the store below, which may be one
// that does not check.
func TestPrefixChecksFirst(t *testing.T) {
	lax := store.Intercept(memstore.New(), func(_ context.Context, op *store.Op, _ store.Handler) error {
		t.Errorf("%s of %q reached the store below", op.Kind, op.Key)
		return nil
	})
	p := prefix(t, lax, "a/b")
	for _, key := range []string{"", "/x", "../x", "x/../../y", "x/"} {
		if _, err := p.Put(t.Context(), key, "", nil); !errors.Is(err, store.ErrKey) {
			t.Errorf("put %q: got %v, want ErrKey", key, err)
		}
	}
}

package object_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// lacking is a bucket that knows what it lacks, and fails a test that asks it all the same.
type lacking struct {
	*membucket.Bucket
	t     *testing.T
	lacks []object.Ability
	puts  []object.PutOptions
}

func (b *lacking) Verify(_ context.Context, abilities ...object.Ability) error {
	for _, a := range abilities {
		if slices.Contains(b.lacks, a) {
			return &object.UnsupportedError{Ability: a}
		}
	}
	return nil
}

func (b *lacking) needs(given bool, a object.Ability) {
	if given && slices.Contains(b.lacks, a) {
		b.t.Errorf("a request uses %s, which the store lacks", a)
	}
}

func (b *lacking) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	b.puts = append(b.puts, *opts)
	absent, match := object.PutIfAbsent, object.PutIfMatch
	if opts.Parts {
		absent, match = object.PartsIfAbsent, object.PartsIfMatch
	}
	b.needs(opts.IfAbsent, absent)
	b.needs(opts.IfMatch != "", match)
	return b.Bucket.Put(ctx, key, body, opts)
}

func (b *lacking) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	if opts != nil && opts.IfMatch != "" {
		b.needs(!opts.OrAbsent, object.DeleteIfMatch)
		b.needs(opts.OrAbsent, object.DeleteOrAbsent)
	}
	return b.Bucket.Delete(ctx, key, opts)
}

func (b *lacking) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	b.needs(true, object.PlainCopy)
	b.needs(opts.SourceIfMatch != "", object.CopySource)
	b.needs(opts.IfAbsent, object.CopyIfAbsent)
	b.needs(opts.IfMatch != "", object.CopyIfMatch)
	return b.Bucket.Copy(ctx, source, destination, opts)
}

// TestStrategies: each write goes by the best rung that the store has, sends no condition that
// the store ignores, and is refused before anything is sent where no rung is left.
func TestStrategies(t *testing.T) {
	ctx := t.Context()
	all := []object.Ability{object.PutIfAbsent, object.PutIfMatch, object.DeleteIfMatch, object.CopyIfAbsent, object.CopyIfMatch}
	notParts := append(slices.Clone(all), object.DeleteOrAbsent)
	conditions := append(slices.Clone(notParts), object.PartsIfAbsent, object.PartsIfMatch)
	rungs := func(of ...object.Strategy) []object.Strategy { return of }
	for _, c := range []struct {
		name    string
		lacks   []object.Ability
		reserve bool
		want    []object.Strategy // of all
	}{
		{"everything", nil, false, rungs("native", "native", "native", "native", "native")},
		{"everything, with a reserver", nil, true, rungs("reservation", "reservation", "reservation", "reservation", "reservation")},
		{"no condition on deletes", []object.Ability{object.DeleteIfMatch, object.DeleteOrAbsent}, false, rungs("native", "native", "none", "native", "native")},
		{"no condition on puts", []object.Ability{object.PutIfAbsent, object.PutIfMatch}, false, rungs("parts", "parts", "native", "native", "native")},
		{"no condition on copies", []object.Ability{object.CopyIfAbsent, object.CopyIfMatch}, false, rungs("native", "native", "native", "upload", "upload")},
		{"no condition but on parts", notParts, false, rungs("parts", "parts", "none", "parts", "parts")},
		{"no copies", []object.Ability{object.PlainCopy}, false, rungs("native", "native", "native", "upload", "upload")},
		{"no condition on the source", []object.Ability{object.CopySource}, false, rungs("native", "native", "native", "upload", "upload")},
		{"nothing", conditions, false, rungs("none", "none", "none", "none", "none")},
		{"nothing, with a reserver", conditions, true, rungs("reservation", "reservation", "reservation", "reservation", "reservation")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &lacking{Bucket: &membucket.Bucket{Hashed: true}, t: t, lacks: c.lacks}
			opts := &object.Options{}
			if c.reserve {
				opts.Reserver = free{}
			}
			client := newClient(t, b, opts)
			steps, err := client.Strategies(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range steps {
				if s.Ability != all[i] || s.Strategy != c.want[i] || (s.Strategy == object.StrategyNone) != errors.Is(s.Err, errors.ErrUnsupported) {
					t.Errorf("%s: got %s (%v), want %s", all[i], s.Strategy, s.Err, c.want[i])
				}
			}
			for _, key := range []string{"source", "other"} {
				if _, err := client.Put(ctx, key, body("x"), nil); err != nil {
					t.Fatal(err)
				}
			}
			do := []func() error{
				func() error {
					_, err := client.Put(ctx, "a", body("1"), &object.WriteOptions{IfAbsent: true})
					return err
				},
				func() error {
					base, err := client.Stat(ctx, "source")
					if err == nil {
						_, err = client.Put(ctx, "source", body("2"), &object.WriteOptions{Base: &base})
					}
					return err
				},
				func() error { _, err := client.Rename(ctx, "source", "b", nil); return err },
				func() error {
					_, err := client.Copy(ctx, "other", "c", &object.WriteOptions{IfAbsent: true})
					return err
				},
				func() error {
					base, err := client.Put(ctx, "d", body("y"), nil)
					if err == nil {
						_, err = client.Copy(ctx, "other", "d", &object.WriteOptions{Base: &base})
					}
					return err
				},
			}
			for i, f := range do {
				err := f()
				switch {
				case c.want[i] == object.StrategyNone && (!errors.Is(err, errors.ErrUnsupported) || store.OutcomeOf(err) != store.NotApplied):
					t.Errorf("%s: got %v, want a refusal", all[i], err)
				case c.want[i] != object.StrategyNone && err != nil:
					t.Errorf("%s: %v", all[i], err)
				}
			}
			if c.want[2] == object.StrategyNone && content(t, client, "b") != "absent" {
				t.Error("a rename that cannot delete has copied")
			}
		})
	}
}

// TestProbedOnce: a store that is not known is tried once for each ability, and what is
// given is not tried.
func TestProbedOnce(t *testing.T) {
	b := objecttest.NewFaulty(conditionless{membucket.New()}, nil)
	c := newClient(t, b, nil)
	var first int
	for range 3 {
		_, err := c.Put(t.Context(), "a", body("x"), &object.WriteOptions{IfAbsent: true})
		if !errors.Is(err, errors.ErrUnsupported) || store.OutcomeOf(err) != store.NotApplied {
			t.Fatalf("got %v", err)
		}
		if first == 0 {
			first = len(b.Calls())
		}
	}
	if n := len(b.Calls()); n != first || first == 0 {
		t.Errorf("%d requests for the first refusal, %d for three", first, n)
	}
	for info, err := range b.List(t.Context(), "", nil) {
		t.Errorf("left %q, %v", info.Key, err)
	}
	b = objecttest.NewFaulty(conditionless{&membucket.Bucket{Hashed: true}}, nil)
	c = newClient(t, b, &object.Options{Abilities: map[object.Ability]bool{object.PutIfAbsent: true, object.PutIfMatch: false, object.PartsIfMatch: false}})
	if _, err := c.Put(t.Context(), "a", body("x"), &object.WriteOptions{IfAbsent: true}); err != nil || len(b.Calls()) != 1 {
		t.Errorf("an ability that is given: %v, %d requests", err, len(b.Calls()))
	}
	if _, err := c.Put(t.Context(), "a", body("x"), &object.WriteOptions{IfMatch: "v"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an ability that is known to be missing: %v", err)
	}
}

// exclusive is a Reserver of one process.
type exclusive struct {
	mu   sync.Mutex
	held map[string]chan struct{}
}

func (r *exclusive) Do(ctx context.Context, key string, v object.Version, check func(context.Context) error, operate func(context.Context) error) error {
	row := key + "\x00" + string(v)
	for {
		if err := check(ctx); err != nil {
			return store.MarkNotApplied(err)
		}
		r.mu.Lock()
		other, taken := r.held[row]
		if !taken {
			r.held[row] = make(chan struct{})
		}
		r.mu.Unlock()
		if !taken {
			break
		}
		<-other
	}
	defer func() {
		r.mu.Lock()
		close(r.held[row])
		delete(r.held, row)
		r.mu.Unlock()
	}()
	// The state may have changed between the check and the reservation.
	if err := check(ctx); err != nil {
		return store.MarkNotApplied(err)
	}
	return operate(ctx)
}

// TestReservedCounter: on a store that ignores all conditions, a counter of several writers
// loses nothing under reservations.
func TestReservedCounter(t *testing.T) {
	c := newClient(t, conditionless{&membucket.Bucket{Hashed: true}}, &object.Options{Reserver: &exclusive{held: make(map[string]chan struct{})}})
	const writers, each = 8, 20
	var done sync.WaitGroup
	for range writers {
		done.Go(func() {
			for range each {
				if _, err := c.Update(t.Context(), "counter", increment, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
	if got := content(t, c, "counter"); got != strconv.Itoa(writers*each) {
		t.Errorf("got %s after %d increments", got, writers*each)
	}
}

// increment adds one to a number.
func increment(body []byte, _ object.Info) ([]byte, error) {
	n := 0
	if body != nil {
		var err error
		if n, err = strconv.Atoi(string(body)); err != nil {
			return nil, err
		}
	}
	return strconv.AppendInt(nil, int64(n+1), 10), nil
}

package store_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func faulty(t *testing.T, schedule string) (s *faultstore.Store, m *memstore.Store) {
	t.Helper()
	m = memstore.New()
	s = faultstore.New(m, faultstore.MustParse(schedule))
	t.Cleanup(func() {
		if unmet := s.Unmatched(); len(unmet.Rules) > 0 {
			t.Errorf("no call matched the rule %q", unmet)
		}
		_ = s.Close()
	})
	return s, m
}

func put(t *testing.T, s store.Store, key string, prev store.Version, value string) store.Version {
	t.Helper()
	v, err := s.Put(t.Context(), key, prev, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func want(t *testing.T, s store.Store, key, value string) {
	t.Helper()
	got, _, err := s.Get(t.Context(), key)
	if err != nil || string(got) != value {
		t.Errorf("%q: got %q and error %v, want %q", key, got, err, value)
	}
}

// add returns a change that appends to the value.
func add(text string) func([]byte) ([]byte, error) {
	return func(value []byte) ([]byte, error) { return []byte(string(value) + text), nil }
}

func TestUpdate(t *testing.T) {
	m := memstore.New()
	for _, want := range []string{"a", "aa", "aaa"} {
		got, err := store.Update(t.Context(), m, "job", add("a"))
		if err != nil || got.Key != "job" || string(got.Value) != want {
			t.Fatalf("got %+v and error %v, want %q", got, err, want)
		}
		if _, v, _ := m.Get(t.Context(), "job"); v != got.Version {
			t.Errorf("got version %q, the store has %q", got.Version, v)
		}
	}
}

func TestUpdateUnchanged(t *testing.T) {
	m := memstore.New()
	keep := func([]byte) ([]byte, error) { return []byte("ignored"), store.ErrUnchanged }
	if got, err := store.Update(t.Context(), m, "job", keep); err != nil || got.Version != "" || got.Value != nil {
		t.Errorf("absent: got %+v and error %v", got, err)
	}
	v := put(t, m, "job", "", "one")
	if got, err := store.Update(t.Context(), m, "job", keep); err != nil || got.Version != v || string(got.Value) != "one" {
		t.Errorf("got %+v and error %v, want the state as it is", got, err)
	}
}

func TestUpdateRefusedByChange(t *testing.T) {
	m := memstore.New()
	no := errors.New("no")
	_, err := store.Update(t.Context(), m, "job", func(value []byte) ([]byte, error) {
		if value != nil {
			t.Errorf("absent is shown as %q", value)
		}
		return nil, no
	})
	if !errors.Is(err, no) || err.Error() != "no" || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v (%v), want the function's error, not applied", err, store.OutcomeOf(err))
	}
}

// TestUpdateConflict checks that Update reads again after a conflict only if the conflict
// does not carry the state.
func TestUpdateConflict(t *testing.T) {
	for _, tells := range []bool{true, false} {
		m := memstore.New()
		put(t, m, "job", "", "0")
		reads, writes := 0, 0
		s := store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpGet {
				reads++
			}
			if writes++; op.Kind == store.OpPut && writes < 4 { // another writer is faster
				_, v, _ := m.Get(ctx, op.Key)
				put(t, m, op.Key, v, strconv.Itoa(writes))
			}
			err := next(ctx, op)
			if errors.Is(err, store.ErrConflict) && !tells {
				return store.ErrConflict
			}
			return err
		})
		got, err := store.Update(t.Context(), s, "job", add("+"))
		if err != nil || len(got.Value) != 2 {
			t.Fatalf("got %+v and error %v", got, err)
		}
		want(t, m, "job", string(got.Value))
		if tells && reads != 1 || !tells && reads < 2 {
			t.Errorf("conflicts carry the state: %v; got %d reads", tells, reads)
		}
	}
}

func TestUpdateUnknown(t *testing.T) {
	s, m := faulty(t, "put job lose")
	calls := 0
	_, err := store.Update(t.Context(), s, "job", func([]byte) ([]byte, error) { calls++; return []byte("x"), nil })
	if store.OutcomeOf(err) != store.Unknown || !errors.Is(err, faultstore.ErrInjected) || calls != 1 {
		t.Errorf("got %v (%v) after %d calls, want unknown after one", err, store.OutcomeOf(err), calls)
	}
	want(t, m, "job", "x")
}

// TestUpdateUnknownConflict checks that Update does not retry after a conflict whose
// outcome is not certain: the conflict may be with the caller's own write, which would be
// applied twice.
func TestUpdateUnknownConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New()
		s := store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			if op.Kind == store.OpPut && err == nil { // a proxy sent it twice
				return store.MarkUnknown(&store.OpError{Op: "put", Key: op.Key, Err: store.ErrConflict})
			}
			return err
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := store.Update(ctx, s, "job", add("+"))
		if store.OutcomeOf(err) != store.Unknown {
			t.Errorf("got %v (%v), want unknown", err, store.OutcomeOf(err))
		}
		want(t, m, "job", "+")
	})
}

func TestUpdateFailures(t *testing.T) {
	for schedule, name := range map[string]string{
		"get job fail": "the read fails", "get job lose": "the read's reply is lost", "put job fail": "the write fails for certain",
	} {
		s, _ := faulty(t, schedule)
		_, err := store.Update(t.Context(), s, "job", add("+"))
		if !errors.Is(err, faultstore.ErrInjected) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: got %v (%v), want not applied", name, err, store.OutcomeOf(err))
		}
	}
	if _, err := store.Update(t.Context(), memstore.New(), "job/", add("+")); !errors.Is(err, store.ErrKey) {
		t.Errorf("an invalid key: %v", err)
	}
}

// TestUpdateGivesUp checks that endless conflicts end with the context, while the
// pauses between the tries grow.
func TestUpdateGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				tries++
				return store.ErrConflict
			}
			return next(ctx, op)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := store.Update(ctx, s, "job", add("+"))
		if !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v (%v), want the context's error, not applied", err, store.OutcomeOf(err))
		}
		// About 480 pauses of 125 ms on average.
		if tries < 240 || tries > 1000 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}

func TestUpdateRaces(t *testing.T) {
	m := memstore.New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				_, err := store.Update(t.Context(), m, "job", func(value []byte) ([]byte, error) {
					n, _ := strconv.Atoi(string(value))
					return []byte(strconv.Itoa(n + 1)), nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want(t, m, "job", "160")
}

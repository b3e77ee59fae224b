package lease_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// waiting is a store that has each write wait, and refuses one that has no time for
// it.
type waiting struct {
	store.Store
	wait time.Duration
}

func newWaiting(wait time.Duration) waiting {
	return waiting{store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		if !op.Kind.Write() {
			return next(ctx, op)
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return store.MarkNotApplied(fmt.Errorf("%w: a write takes %v", context.DeadlineExceeded, wait))
		}
		err := next(ctx, op)
		time.Sleep(wait)
		return err
	}), wait}
}

func (w waiting) Unwrap() store.Store { return w.Store }

func (w waiting) Traits() store.Traits { return store.Traits{MinWriteTime: w.wait} }

// A store on which a write takes seconds keeps a lease as long as any other; options
// with which no renewal would be through in time are refused.
func TestSlowWritesLoseNoLease(t *testing.T) {
	for _, tt := range []struct {
		wait time.Duration
		o    lease.Options
	}{
		{6 * time.Second, lease.Options{}},
		{6 * time.Second, lease.Options{TTL: 27 * time.Second}},
		{1200 * time.Millisecond, lease.Options{TTL: 7800 * time.Millisecond}},
		{20 * time.Second, lease.Options{TTL: 83 * time.Second}},
	} {
		t.Run(fmt.Sprint(tt.wait, tt.o.TTL), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newWaiting(tt.wait)
				c := client(t, st, &tt.o)
				g := mustTry(t, c, "job")
				for range 1000 {
					time.Sleep(10 * time.Second)
					must(t, g.Err())
				}
				report(t, c.Close(t.Context()))
				wantState(t, client(t, st, &tt.o), "job", lease.Free)
			})
		})
	}
}

// Above the highest token there is none: no grant, and nothing written, rather than one
// that is lower.
func TestTokenAtMaximum(t *testing.T) {
	st := memstore.New()
	if _, err := st.Put(t.Context(), "lock/full", "", []byte(
		`{"holdfast":1,"kind":"lease","name":"full","state":"free","token":18446744073709551615,"grant":"G","ttl_ms":30000,"nonce":"N","holder":"x","granted":"2026-01-02T03:04:05Z","renewed":"2026-01-02T03:04:05Z","process":"P"}`)); err != nil {
		t.Fatal(err)
	}
	highest := uint64(math.MaxUint64)
	for name, st := range map[string]store.Store{"full": st, "new": keepsMarks{delayed{memstore.New()}, &highest}} {
		c, err := lease.New(st, nil)
		must(t, err)
		if g, err := c.TryAcquire(t.Context(), name, nil); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "the highest possible token") {
			t.Errorf("%s: %v, %v", name, g, err)
		}
		_, v, err := st.Get(t.Context(), "lock/"+name)
		if name == "new" && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("something was written: %q, %v", v, err)
		}
	}
}

// listless is a store whose listing shows something that cannot be named.
type listless struct{ store.Store }

func (l listless) Unwrap() store.Store { return l.Store }

func (l listless) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if yield("", fmt.Errorf("%w: a damaged file", store.ErrCorrupt)) {
			store.List(ctx, l.Store, prefix)(yield)
		}
	}
}

// Sweep reports a damaged register and continues with the others.
func TestSweepContinuesAfterADamagedRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		c, err := lease.New(listless{st}, nil)
		must(t, err)
		g := mustTry(t, c, "old")
		must(t, g.Release(t.Context()))
		time.Sleep(2 * lease.MinSweepAge)
		n, err := c.Sweep(t.Context(), &lease.SweepOptions{OlderThan: lease.MinSweepAge})
		if n != 1 || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("removed %d, %v", n, err)
		}
		if _, _, err := st.Get(t.Context(), "lock/old"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("it is still there: %v", err)
		}
	})
}

// A call that ends a lease waits for another one that is ending it, and
// blocks nothing: it ends in a bubble, where only time passes.
func TestReleaseAndCloseTogetherEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, newWaiting(time.Second), &lease.Options{TTL: time.Minute})
		set, err := lease.AcquireAll(t.Context(), handle(t, c, "a"), handle(t, c, "b"))
		must(t, err)
		g := mustTry(t, c, "job")
		for range 3 {
			for _, end := range []func(context.Context) error{g.Release, set.Release, c.Close} {
				go func() {
					report(t, end(t.Context()))
				}()
			}
		}
		synctest.Wait()
		time.Sleep(10 * time.Second)
	})
}

// An error that waiting does not mend is returned at once.
func TestMisconfiguredStoreEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.Intercept(memstore.New(), func(context.Context, *store.Op, store.Handler) error {
			return fmt.Errorf("%w: there is no such bucket", store.ErrMisconfigured)
		})
		c, began := client(t, st, nil), time.Now()
		if _, err := c.Acquire(t.Context(), "job", nil); !errors.Is(err, store.ErrMisconfigured) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

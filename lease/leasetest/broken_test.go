package leasetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// ignoring is a store that ignores the conditions of writes.
func ignoring(*testing.T) store.Store {
	m := memstore.New()
	return bare{store.Intercept(m, func(ctx context.Context, op *store.Op, next store.Handler) error {
		time.Sleep(time.Millisecond) // so that others have their turn
		err := next(ctx, op)
		for op.Kind.Write() && errors.Is(err, store.ErrConflict) {
			if _, op.Prev, err = m.Get(ctx, op.Key); err == nil || errors.Is(err, store.ErrNotFound) {
				err = next(ctx, op)
			}
		}
		return err
	})}
}

// lagging is a store whose reads are one write behind.
func lagging(*testing.T) store.Store {
	type state struct {
		value []byte
		v     store.Version
	}
	var mu sync.Mutex
	states := map[string][2]state{} // the one before, and the current one
	return bare{store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		mu.Lock()
		defer mu.Unlock()
		err := next(ctx, op)
		switch {
		case op.Kind == store.OpPut && err == nil:
			states[op.Key] = [2]state{states[op.Key][1], {op.Value, op.Version}}
		case op.Kind == store.OpGet && err == nil && states[op.Key][0].v != "":
			op.Value, op.Version = states[op.Key][0].value, states[op.Key][0].v
		}
		return err
	})}
}

// rash is a store that takes every process for dead.
type rash struct{ store.Store }

func (rash) Announce(context.Context) (string, error)                    { return "this process", nil }
func (rash) Liveness(context.Context, string) store.Liveness             { return store.Dead }
func (rash) WaitLiveness(ctx context.Context, announcement string) error { return nil }

// TestBroken checks that the suite notices stores which leases must not be used on.
func TestBroken(t *testing.T) {
	for name, test := range map[string]struct {
		open  func(*testing.T) store.Store
		wants []string // some of the cases that fail
	}{
		"ignores conditions": {ignoring, []string{"Contenders"}},
		"lags":               {lagging, []string{"AcquireRelease", "ReleaseTwice"}},
		"takes all for dead": {func(*testing.T) store.Store { return rash{memstore.New()} }, []string{"TwoHandles", "Reentrant"}},
	} {
		for _, want := range test.wants {
			t.Run(name+"/"+want, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := &leasetest.Options{CaseTimeout: time.Hour, Bubble: true}
					failures := leasetest.Check(t, test.open, o, want)
					if !slices.ContainsFunc(failures, func(f *leasetest.Failure) bool { return f.Case == want && f.Rule != "" && f.String() != "" }) {
						t.Errorf("%s did not notice", want)
					}
				})
			})
		}
	}
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
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

func (w waiting) Traits() store.Traits { return store.Traits{WriteTime: w.wait} }

// A store on which a write takes seconds keeps a lease as long as any other; options
// with which no renewal would be through in time are refused.
func TestWritesThatWait(t *testing.T) {
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
				c, err := lease.New(newWaiting(tt.wait), &tt.o)
				if err != nil {
					t.Fatal(err)
				}
				g, err := c.TryAcquire(t.Context(), "job")
				if err != nil {
					t.Fatal(err)
				}
				for range 1000 {
					time.Sleep(10 * time.Second)
					if err := g.Err(); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Close(t.Context()); err != nil {
					t.Error(err)
				}
				if info, err := c.Inspect(t.Context(), "job"); err != nil || info.Record.State != lease.Free {
					t.Errorf("after Close: %+v, %v", info, err)
				}
			})
		})
	}
	_, err := lease.New(newWaiting(6*time.Second), &lease.Options{TTL: 20 * time.Second})
	if !errors.Is(err, lease.ErrOptions) || !strings.Contains(err.Error(), "a longer TTL helps") {
		t.Errorf("a TTL that is too short: %v", err)
	}
	if _, err := lease.New(newWaiting(6*time.Second), &lease.Options{ReleaseTimeout: time.Second}); !errors.Is(err, lease.ErrOptions) {
		t.Errorf("a release without time for a write: %v", err)
	}
}

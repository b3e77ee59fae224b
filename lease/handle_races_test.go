package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// An acquire during which the client is closed, at any time, returns a guard that is over
// or ends at once, or an error, and never neither.
func TestAcquireDuringCloseLeavesNoLock(t *testing.T) {
	for after := range 40 {
		bothWays(t, func(t *testing.T, st store.Store, client newParty) {
			slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
				time.Sleep(10 * time.Millisecond)
				err := next(ctx, op)
				time.Sleep(10 * time.Millisecond)
				return err
			})
			c := client(t, slow, &lease.Options{ManualRenewal: true})
			time.AfterFunc(time.Duration(after)*time.Millisecond, func() { _ = c.Close(context.Background()) })
			g, err := c.TryAcquire(t.Context(), "job", nil)
			if g == nil && err == nil {
				t.Fatal("neither a guard nor an error")
			}
			time.Sleep(time.Second)
			if err == nil && g.Err() == nil {
				t.Error("it is over, and the guard does not know")
			}
			if info, err := client(t, st, nil).Inspect(t.Context(), "job"); !errors.Is(err, store.ErrNotFound) && info.Record.State != lease.Free {
				t.Errorf("it was left behind: %+v, %v", info, err)
			}
		})
	}
}

// What was handed over in a ticket may have been changed by others.
func TestUsedTicketEndsWasLastHolder(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		o := &lease.Options{TTL: time.Minute, NoPresence: true, ManualRenewal: true}
		a, b := client(t, st, o), client(t, st, o)
		h := handle(t, a, "job")
		g := mustTake(t, h)
		ticket := mustDetach(t, g)
		elsewhere, err := b.Attach(t.Context(), ticket)
		must(t, err)
		mustRelease(t, elsewhere)
		g = mustTake(t, h)
		if g.WasLastHolder() {
			t.Error("another process went on with the ticket in between")
		}
		mustRelease(t, g)
	})
}

// A wait that ends in the middle of a request still says who holds the lock.
func TestTimeoutDuringAReadNamesTheHolder(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		a := client(t, st, nil)
		g := mustTry(t, a, "job")
		slow := store.Intercept(&plainStore{st}, func(ctx context.Context, op *store.Op, next store.Handler) error {
			select {
			case <-time.After(300 * time.Millisecond):
				return next(ctx, op)
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		b := client(t, slow, nil)
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Duration(i)*50*time.Millisecond)
			if _, err := b.Acquire(ctx, "job", nil); !errors.Is(err, lease.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire = %v", err)
			}
			cancel()
		}
		mustRelease(t, g)
	})
}

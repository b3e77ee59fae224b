package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// An acquire that the client is closed under, or whose time passes while an event is
// told, returns a guard that is over, or an error, and never neither.
func TestHandleAcquireThatEndsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var c *lease.Client
		c = client(t, st, &lease.Options{OnEvent: func(e lease.Event) {
			if e.Kind == lease.EventAcquired && e.Name == "closed" {
				go func() { _ = c.Close(context.Background()) }()
				time.Sleep(time.Second)
			}
			if e.Kind == lease.EventAcquired && e.Name == "slow" {
				time.Sleep(2 * ttl)
			}
		}, Manual: true})
		for _, name := range []string{"slow", "closed"} {
			g, err := c.TryAcquire(t.Context(), name)
			if g == nil && err == nil {
				t.Fatalf("%s: neither a guard nor an error", name)
			}
			if err == nil && g.Err() == nil {
				t.Errorf("%s: it is over, and the guard does not know", name)
			}
		}
	})
}

// What went on in a ticket may have been changed by others.
func TestHandleContinuousAfterDetach(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		o := &lease.Options{TTL: time.Minute, NoPresence: true, Manual: true}
		a, b := client(t, st, o), client(t, st, o)
		h := handle(t, a, "job")
		g, err := h.TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ticket, err := g.Detach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		elsewhere, err := b.Attach(t.Context(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, elsewhere)
		if g, err = h.TryAcquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		if g.Continuous() {
			t.Error("another process went on with the ticket in between")
		}
		mustRelease(t, g)
	})
}

// A wait that ends in the middle of a request still tells who holds the lock.
func TestHandleTimeoutDuringARead(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
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
			if _, err := b.Acquire(ctx, "job"); !errors.Is(err, lease.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire = %v", err)
			}
			cancel()
		}
		mustRelease(t, g)
	})
}

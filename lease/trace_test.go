package lease_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// traced notes the calls of an Options.Trace, and what the requests of a store find in their contexts.
type traced struct {
	mu    sync.Mutex
	calls []string
	found map[string]int
}

type tracedKey struct{}

func (d *traced) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
}

func (d *traced) trace(ctx context.Context, name string, g *lease.Guard) (context.Context, func(*lease.Guard, error)) {
	call := "acquire"
	if g != nil {
		call = "release"
	}
	d.note("%s %s", call, name)
	return context.WithValue(ctx, tracedKey{}, call), func(g *lease.Guard, err error) {
		if g != nil {
			_ = g.Context() // may be needed before the work begins
		}
		d.note("%s ended: %v %v", call, g != nil, err)
	}
}

func (d *traced) store(st store.Store) store.Store {
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		call, _ := ctx.Value(tracedKey{}).(string)
		d.found[call]++
		return next(ctx, op)
	})
}

// TestTrace: Trace sees each call, and its values reach the requests, the renewals, the guard and the work.
func TestTrace(t *testing.T) {
	work := func(ctx context.Context, g *lease.Guard) error {
		for from, c := range map[string]context.Context{"work": ctx, "guard": g.Context()} {
			if got := c.Value(tracedKey{}); got != "acquire" {
				t.Errorf("the context of the %s has %v, want acquire", from, got)
			}
		}
		time.Sleep(25 * time.Second) // two renewals
		return nil
	}
	grant := []string{"acquire job", "acquire ended: true <nil>", "release job", "release ended: true <nil>"}
	for _, c := range []struct {
		name  string
		run   func(ctx context.Context, c *lease.Client) error
		calls []string
	}{
		{"do", func(ctx context.Context, c *lease.Client) error { return c.Do(ctx, "job", work, nil) }, grant},
		{"do without a wait", func(ctx context.Context, c *lease.Client) error {
			return c.Do(ctx, "job", work, &lease.LockOptions{NoWait: true})
		}, grant},
		{"once", func(ctx context.Context, c *lease.Client) error {
			return errOf(c.Once(ctx, "job", lease.Every(time.Hour), work, nil))
		}, grant},
		{"lead", func(ctx context.Context, c *lease.Client) error { return c.Lead(ctx, "job", nil, work, nil) }, append(slices.Clone(grant), grant[2:]...)},
		{"guard", func(ctx context.Context, c *lease.Client) error {
			g, err := c.TryAcquire(ctx, "job", nil)
			must(t, err)
			must(t, work(g.Context(), g))
			return g.Release(ctx)
		}, grant},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				d := &traced{found: map[string]int{}}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				must(t, c.run(ctx, client(t, d.store(st), &lease.Options{Trace: d.trace})))
				if !slices.Equal(d.calls, c.calls) {
					t.Errorf("got the calls %q, want %q", d.calls, c.calls)
				}
				if d.found[""] > 0 || d.found["acquire"] < 3 || d.found["release"] != 1 {
					t.Errorf("the requests of the calls are %v, want renewals with the values of the acquire, one release, and none without values", d.found)
				}
			})
		})
	}
}

// TestTraceError: the call that fails passes its error, and no guard.
func TestTraceError(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		d := &traced{found: map[string]int{}}
		c := client(t, st, &lease.Options{Trace: d.trace})
		g := mustAcquire(t, c, "job")
		_, err := c.TryAcquire(t.Context(), "job", nil)
		if want := fmt.Sprintf("acquire ended: false %v", err); !slices.Contains(d.calls, want) {
			t.Errorf("got the calls %q, want among them %q", d.calls, want)
		}
		mustRelease(t, g)
	})
}

// TestTakeoverReason: the guard of a grant says why it could end another grant, as the event does.
func TestTakeoverReason(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		dead := mustAcquire(t, client(t, st, &lease.Options{ManualRenewal: true}), "job")
		var seen events
		c := client(t, st, &lease.Options{OnEvent: seen.add})
		h := handle(t, c, "job")
		g := acquired(t, h)
		must(t, c.FlushEvents(t.Context()))
		took := seen.of(lease.EventTakenOver)
		if len(took) != 1 || took[0].Reason == "" || g.TakeoverReason() != took[0].Reason {
			t.Errorf("got the reason %q, want that of the event %v", g.TakeoverReason(), took)
		}
		if again := acquired(t, h); again.TakeoverReason() != g.TakeoverReason() {
			t.Errorf("a second guard of the grant has the reason %q, want %q", again.TakeoverReason(), g.TakeoverReason())
		} else {
			mustRelease(t, again)
		}
		mustRelease(t, g)
		next := acquired(t, h)
		if dead.TakeoverReason() != "" || next.TakeoverReason() != "" {
			t.Errorf("grants of free locks have the reasons %q and %q, want none", dead.TakeoverReason(), next.TakeoverReason())
		}
		mustRelease(t, next)
	})
}

// TestPanicOfTrace: the function that Options.Trace returned panics, or is nil. The lock is free again.
func TestPanicOfTrace(t *testing.T) {
	for name, done := range map[string]func(*lease.Guard, error){"a panic": func(*lease.Guard, error) { panic("done") }, "nil": nil} {
		bubble(t, func(t *testing.T, st store.Store) {
			c := client(t, st, &lease.Options{Trace: func(ctx context.Context, _ string, g *lease.Guard) (context.Context, func(*lease.Guard, error)) {
				return ctx, done
			}})
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic is hidden", name)
					}
				}()
				_, _ = c.TryAcquire(t.Context(), "job", nil) // it panics
			}()
			wantState(t, client(t, st, nil), "job", lease.Free)
		})
	}
}

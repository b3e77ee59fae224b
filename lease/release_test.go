package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Another acquires in the middle of a release.
func TestTakeoverInTheMiddleOfARelease(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		old := mustTry(t, a, "job")
		var won *lease.Guard
		w.set(func(op *store.Op) fault {
			if op.Kind == store.OpPut && won == nil {
				rec := wantState(t, b, "job", lease.Held)
				report(t, errOf(b.Break(t.Context(), "job", rec.Token, &lease.BreakOptions{Immediate: true})))
				won = mustTry(t, b, "job")
			}
			return pass
		})
		if err := old.Release(t.Context()); !errors.Is(err, lease.ErrTakenOver) {
			t.Errorf("Release = %v; want ErrTakenOver", err)
		}
		report(t, won.Err())
		wantState(t, b, "job", lease.Held)
		mustRelease(t, won)
	})
}

// A call of the store that panics, or ends its goroutine, in a release: nothing waits for this release for ever, and
// none reports that the lock is free.
func TestReleaseThatDoesNotReturn(t *testing.T) {
	for how, stop := range map[string]func(){"panic": func() { panic("store") }, "exit": runtime.Goexit} {
		for _, under := range []string{"", "a lock of a session", "a session"} {
			t.Run(how+" "+under, func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					armed := false
					c := client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
						if armed && op.Kind == store.OpPut {
							armed = false
							stop()
						}
						return next(ctx, op)
					}), &lease.Options{ManualRenewal: true})
					var release func(context.Context) error
					if under == "" {
						release = mustTry(t, c, "job").Release
					} else if s := open(t, c); under == "a session" {
						release = s.Close
					} else {
						release = mustTry(t, s, "job").Release
					}
					armed = true
					var first sync.WaitGroup
					first.Go(func() {
						defer func() { _ = recover() }()
						_ = release(t.Context())
					})
					first.Wait()
					if err := release(t.Context()); !errors.Is(err, lease.ErrUnresolved) || store.OutcomeOf(err) != store.Unknown {
						t.Errorf("a second release = %v; want an unknown outcome", err)
					}
					began := time.Now()
					_ = c.Close(t.Context())
					if took := time.Since(began); took > time.Second {
						t.Errorf("Close took %v", took)
					}
				})
			})
		}
	}
}

// A release that ends its goroutine during Close is not reported as a success.
func TestCloseWhoseReleaseDoesNotReturn(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		armed := false
		c := client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if armed && op.Kind == store.OpPut {
				runtime.Goexit()
			}
			return next(ctx, op)
		}), &lease.Options{ManualRenewal: true})
		mustTry(t, c, "job")
		armed = true
		if err := c.Close(t.Context()); !errors.Is(err, lease.ErrUnresolved) {
			t.Errorf("Close = %v; want ErrUnresolved", err)
		}
	})
}

// A release races a renewal in flight, in both orders.
func TestReleaseRacesARenewal(t *testing.T) {
	for _, f := range []fault{pass, lose, drop, hangLate, fail} {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, nil)
				g := mustTry(t, c, "job")
				inFlight := make(chan struct{})
				var once sync.Once
				w.set(func(op *store.Op) fault {
					if op.Kind == store.OpPutUnsynced {
						once.Do(func() { close(inFlight) })
						return f
					}
					return pass
				})
				<-inFlight
				if err := g.Release(t.Context()); err != nil {
					t.Errorf("Release = %v", err)
				}
				w.set(nil)
				w.requests()
				time.Sleep(10 * ttl)
				w.after.Wait()
				if n := w.requests(); n != 0 {
					t.Errorf("%d requests followed the release", n)
				}
				wantState(t, c, "job", lease.Free)
			})
		})
	}
}

// Release twice, and release of a record that was removed from the store.
func TestReleaseTwiceAndOfNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		c := client(t, w, nil)
		g := mustTry(t, c, "job")
		mustRelease(t, g)
		w.requests()
		mustRelease(t, g)
		if n := w.requests(); n != 0 {
			t.Errorf("the second release sent %d requests", n)
		}
		g = mustTry(t, c, "job")
		remove(t, st, "lock/job")
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrRemoved) {
			t.Errorf("Release of a removed record = %v; want ErrRemoved", err)
		}
		if _, _, err := st.Get(t.Context(), "lock/job"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the release made a record: %v", err)
		}
	})
}

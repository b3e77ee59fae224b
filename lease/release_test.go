package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// An expired holder releases after another has acquired.
func TestReleaseAfterTakeoverTouchesNothing(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		cut := newWire(st)
		a, b := client(t, cut, nil), client(t, st, nil)
		old := mustTry(t, a, "job")
		cut.set(everything(drop))
		won, err := b.Acquire(t.Context(), "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		wantLost(t, old, lease.ErrExpired)
		cut.set(nil)
		if err := old.Release(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Release of a lost lease = %v; want ErrLost", err)
		}
		time.Sleep(time.Hour)
		if err := won.Err(); err != nil {
			t.Errorf("the new holder lost its lease: %v", err)
		}
		mustRelease(t, won)
	})
}

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
				if _, err := b.Break(t.Context(), "job", rec.Token, &lease.BreakOptions{Immediate: true}); err != nil {
					t.Error(err)
				}
				won = mustTry(t, b, "job")
			}
			return pass
		})
		if err := old.Release(t.Context()); !errors.Is(err, lease.ErrTakenOver) {
			t.Errorf("Release = %v; want ErrTakenOver", err)
		}
		if err := won.Err(); err != nil {
			t.Error(err)
		}
		wantState(t, b, "job", lease.Held)
		mustRelease(t, won)
	})
}

// A release is applied and its reply lost; another handle acquires the lock, and the old handle
// repeats its release.
func TestLostReplyOfAReleaseAndANewGrant(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		g := mustTry(t, a, "job")
		var won *lease.Guard
		w.set(func(op *store.Op) fault {
			switch op.Kind {
			case store.OpPut:
				return lose
			case store.OpGet, store.OpResolve:
				if won == nil {
					won = mustTry(t, b, "job")
				}
			}
			return pass
		})
		if err := g.Release(t.Context()); err != nil {
			t.Errorf("Release = %v; it was applied", err)
		}
		if err := won.Err(); err != nil {
			t.Error(err)
		}
		rec := wantState(t, b, "job", lease.Held)
		if rec.Token != won.Token() {
			t.Errorf("token %d; want %d", rec.Token, won.Token())
		}
	})
}

// A release with an already cancelled context still releases.
func TestReleaseWithACancelledContext(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, st, nil)
		g := mustTry(t, c, "job")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Release(ctx); err != nil {
			t.Fatal(err)
		}
		wantState(t, c, "job", lease.Free)
	})
}

// A release ends within its own time.
func TestReleaseIsBounded(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		c := client(t, w, nil)
		g := mustTry(t, c, "job")
		w.set(everything(hang))
		began := time.Now()
		err := g.Release(t.Context())
		if !errors.Is(err, lease.ErrUnresolved) {
			t.Errorf("Release = %v; want ErrUnresolved", err)
		}
		if took := time.Since(began); took > 2*lease.DefaultReleaseTimeout {
			t.Errorf("Release took %v", took)
		}
		w.set(nil)
		if g.Err() == nil {
			t.Error("the lease is still trusted after its release")
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
		_, v, err := st.Get(t.Context(), "lock/job")
		if err != nil {
			t.Fatal(err)
		}
		if err := st.Delete(t.Context(), "lock/job", v); err != nil {
			t.Fatal(err)
		}
		if err := g.Release(t.Context()); !errors.Is(err, lease.ErrRemoved) {
			t.Errorf("Release of a removed record = %v; want ErrRemoved", err)
		}
		if _, _, err := st.Get(t.Context(), "lock/job"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the release made a record: %v", err)
		}
	})
}

// Closing with three leases, of which the first can't be released.
func TestCloseReleasesEachByItself(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		for _, name := range []string{"a", "b", "c"} {
			mustTry(t, c, name)
		}
		other := client(t, st, nil)
		stranger := mustTry(t, other, "d")
		waiter := make(chan error)
		go func() {
			_, err := c.Acquire(context.Background(), "d", nil)
			waiter <- err
		}()
		synctest.Wait()
		w.set(func(op *store.Op) fault {
			if op.Key == "lock/a" {
				return drop
			}
			return pass
		})
		if err := c.Close(t.Context()); !errors.Is(err, lease.ErrUnresolved) {
			t.Errorf("Close = %v; want it to tell of the one", err)
		}
		wantState(t, other, "a", lease.Held)
		wantState(t, other, "b", lease.Free)
		wantState(t, other, "c", lease.Free)
		if err := <-waiter; !errors.Is(err, lease.ErrClosed) {
			t.Errorf("a waiting Acquire = %v; want ErrClosed", err)
		}
		if _, err := c.TryAcquire(t.Context(), "e", nil); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("TryAcquire after Close = %v; want ErrClosed", err)
		}
		mustRelease(t, stranger)
	})
}

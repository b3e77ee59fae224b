package lease_test

import (
	"errors"
	"fmt"
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

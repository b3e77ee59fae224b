package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The events of a client show each call that does not get the lock, how long it took, and when the
// client stops waiting for the lock.
func TestEventsOfFailedCalls(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		holder := client(t, st, nil)
		g := mustTry(t, holder, "job")
		var heard events
		c := client(t, st, &lease.Options{OnEvent: heard.add})
		wait := func(d time.Duration) <-chan error {
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				done <- errOf(c.Acquire(ctx, "job", nil))
			}()
			synctest.Wait()
			return done
		}
		// failed returns the failures since the last call.
		seen := 0
		failed := func(want ...lease.Event) {
			t.Helper()
			all := heard.of(lease.EventFailed)
			got := all[seen:]
			seen = len(all)
			if len(got) != len(want) {
				t.Fatalf("failures %+v, want %d", got, len(want))
			}
			for i, e := range got {
				if e.Name != "job" || !errors.Is(e.Err, lease.ErrHeld) || e.StopsWaiting != want[i].StopsWaiting || e.Took.Round(time.Millisecond) != want[i].Took {
					t.Errorf("failure %+v, want %v, stops waiting: %t", e, want[i].Took, want[i].StopsWaiting)
				}
			}
		}

		first, second := wait(4*time.Second), wait(7*time.Second)
		wantHeld(t, c, "job")
		failed(lease.Event{}) // a try waits for nothing, and ends no wait
		<-first               // has had the turn
		failed(lease.Event{Took: 4 * time.Second})
		third := wait(time.Second)
		<-third // has not
		failed(lease.Event{Took: time.Second})
		<-second
		failed(lease.Event{Took: 7 * time.Second, StopsWaiting: true})
		if n := len(heard.of(lease.EventWaiting)); n != 1 {
			t.Errorf("%d events of waiting, want one for the grant", n)
		}

		// The client waits again, for the same grant.
		last := wait(time.Minute)
		if n := len(heard.of(lease.EventWaiting)); n != 2 {
			t.Errorf("%d events of waiting, want another after the wait had ended", n)
		}
		time.Sleep(5 * time.Second)
		mustRelease(t, g)
		must(t, <-last)
		failed()
		if e := heard.of(lease.EventAcquired); len(e) != 1 || e[0].Took.Round(time.Second) != 5*time.Second {
			t.Errorf("grants %+v, want one that took 5 s", e)
		}
	})
}

// A renewal reports the time from its sending until the client knew that it was applied.
func TestEventsOfRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind.Write() {
				time.Sleep(300 * time.Millisecond)
			}
			return next(ctx, op)
		})
		var heard events
		c := client(t, slow, &lease.Options{OnEvent: heard.add})
		defer mustRelease(t, mustTry(t, c, "job"))
		time.Sleep(25 * time.Second)
		renewals := heard.of(lease.EventRenewed)
		if len(renewals) != 2 {
			t.Errorf("%d renewals, want 2", len(renewals))
		}
		for _, e := range append(renewals, heard.of(lease.EventAcquired)...) {
			if e.Took != 300*time.Millisecond {
				t.Errorf("%s took %v, want 300ms", e.Kind, e.Took)
			}
		}
	})
}

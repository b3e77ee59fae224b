package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// One request to yield for a lock with several holders stops those that hold it then, and none of
// those that come later, although the lock is never free.
func TestRequestToSeveralEndsWithThem(t *testing.T) {
	for name, o := range map[string]lease.LockOptions{"slots": {Slots: 4}, "readers": {Shared: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				var stopped, finished atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for i := range 8 {
					h := with(t, opened(t, st), "job", o)
					go func() {
						for ctx.Err() == nil {
							err := h.Do(ctx, func(ctx context.Context, g *lease.Guard) error {
								select {
								case <-ctx.Done():
									return context.Cause(ctx)
								case <-time.After(time.Minute + time.Duration(g.Token()%7)*time.Second):
									return nil
								}
							})
							switch {
							case errors.Is(err, lease.ErrYieldRequested):
								stopped.Add(1)
								select { // not at once: if all that come are stopped, this test ends nevertheless
								case <-ctx.Done():
								case <-time.After(time.Duration(i+1) * 100 * time.Millisecond):
								}
							case err == nil:
								finished.Add(1)
							}
						}
					}()
				}
				time.Sleep(90 * time.Second)
				asker := client(t, st, nil)
				before := wantState(t, asker, "job", lease.Shared)
				asked, err := asker.RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true})
				if err != nil || !asked.GrantEnded || asked.Current.State != lease.Shared {
					t.Errorf("RequestYield: %+v, %v; want it over while others hold the lock", asked, err)
				}
				if rec := wantState(t, asker, "job", lease.Shared); rec.YieldRequest != nil {
					t.Errorf("the request stays after the holders that it is for have left: %+v", rec.YieldRequest)
				}
				<-ctx.Done()
				time.Sleep(time.Minute)
				if n, most := int(stopped.Load()), len(before.Holders); n != most {
					t.Errorf("%d were stopped by one request to %d holders", n, most)
				}
				if n := finished.Load(); n < 150 {
					t.Errorf("%d have finished in an hour; want nearly what they finish without a request", n)
				}
			})
		})
	}
}

// A second request, when others have come, is for those, too; while none has come it changes
// nothing.
func TestRequestToThoseThatCameLater(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		take := func() *lease.Guard {
			return mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Shared: true}))
		}
		ask := func(reason string) {
			t.Helper()
			must(t, errOf(client(t, st, nil).RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: reason})))
		}
		first := take()
		ask("one")
		hears(t, first, ttl)
		second := take()
		time.Sleep(2 * ttl)
		if asked, ok := second.YieldRequest(); ok {
			t.Errorf("a reader that came later reads %+v", asked)
		}
		ask("two")
		hears(t, second, ttl)
		rec := wantState(t, client(t, st, nil), "job", lease.Shared)
		ask("three")
		if again := wantState(t, client(t, st, nil), "job", lease.Shared); again.Nonce != rec.Nonce {
			t.Errorf("a request for the same holders is written again: %+v", again.YieldRequest)
		}
		mustRelease(t, first)
		if rec := wantState(t, client(t, st, nil), "job", lease.Shared); rec.YieldRequest == nil {
			t.Error("the request was removed with the first of two holders")
		}
	})
}

// Records of earlier programs have requests for several holders without names. The holders read
// such a request, and those that come later do not.
func TestRequestWithoutNames(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		first := mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Slots: 3}))
		asker := client(t, st, nil)
		must(t, errOf(asker.RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: "why"})))
		value, _ := stored(t, st, "lock/job")
		names := `"grants":["` + wantState(t, asker, "job", lease.Shared).Holders[0].Grant + `"],`
		if !strings.Contains(string(value), names) {
			t.Fatalf("no names in %s", value)
		}
		earlier := strings.Replace(string(value), names, "", 1)
		put(t, st, "job", []byte(earlier))
		second := mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Slots: 3}))
		hears(t, first, ttl)
		mustRelease(t, first)
		third := mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Slots: 3}))
		time.Sleep(2 * ttl)
		for _, g := range []*lease.Guard{second, third} {
			if asked, ok := g.YieldRequest(); ok {
				t.Errorf("a holder that came later reads %+v", asked)
			}
		}
		if rec := wantState(t, asker, "job", lease.Shared); rec.YieldRequest != nil {
			t.Errorf("the request is for none that holds the lock: %+v", rec.YieldRequest)
		}
	})
}

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

func lingering(t *testing.T, c *lease.Client, d time.Duration) *lease.Handle {
	t.Helper()
	h := with(t, c, "job", lease.LockOptions{Linger: d})
	return h
}

// Taking a lock 1,000 times costs two requests and the renewals. The control keeps nothing.
func TestLingerRequests(t *testing.T) {
	for _, c := range []struct {
		linger time.Duration
		watch  bool
		want   int
	}{{time.Minute, true, 2}, {time.Minute, false, 2}, {0, true, 2000}} {
		bubble(t, func(t *testing.T, st store.Store) {
			if !c.watch {
				st = hidden{st}
			}
			w := newWire(st)
			h := lingering(t, client(t, w, &lease.Options{AssumeNew: true}), c.linger)
			var token uint64
			began := time.Now()
			for i := range 1000 {
				g := acquired(t, h)
				if c.linger > 0 && i > 0 && (g.Token() != token || !g.WasLastHolder()) {
					t.Fatalf("guard %d has the token %d after %d, continuous: %v", i, g.Token(), token, g.WasLastHolder())
				}
				token = g.Token()
				mustRelease(t, g)
				if !errors.Is(g.Err(), lease.ErrReleased) {
					t.Fatal(g.Err())
				}
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("with %v: %v were lost, though no other client wants the lock", c.linger, took)
			}
			if c.linger > 0 {
				wantState(t, client(t, st, nil), "job", lease.Held)
			}
			time.Sleep(c.linger + ttl)
			wantState(t, client(t, st, nil), "job", lease.Free)
			beats := 0
			if c.linger > 0 {
				beats = int(c.linger/(ttl/3)) + 1
			}
			if n := w.requests(); n < c.want || n > c.want+beats {
				t.Errorf("with %v: %d requests, want %d and at most %d renewals", c.linger, n, c.want, beats)
			}
		})
	}
}

// A lease that is kept is renewed, however long, and free when its time is over.
func TestLingerEnds(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		h := lingering(t, client(t, st, nil), 3*ttl)
		for range 3 {
			mustRelease(t, acquired(t, h))
			time.Sleep(2 * ttl)
			wantHeld(t, client(t, st, nil), "job")
		}
		time.Sleep(ttl + time.Second)
		mustRelease(t, mustTry(t, client(t, st, nil), "job"))
		g := acquired(t, h)
		if g.WasLastHolder() {
			t.Error("another has held the lock")
		}
		mustRelease(t, g)
	})
}

// A waiter has the lock with the holder's next renewal, and at once where the store reports
// changes, or in the same client. A client that only tries has to wait for the time.
func TestLingeringLockIsFreedForAWaiter(t *testing.T) {
	for _, c := range []struct {
		name  string
		watch bool
		same  bool
		most  time.Duration
	}{{"polls", false, false, ttl/3*11/10 + 3*time.Second}, {"is told", true, false, time.Second}, {"same client", false, true, 3 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			for range 20 {
				bubble(t, func(t *testing.T, st store.Store) {
					if !c.watch {
						st = hidden{st}
					}
					holder := client(t, st, nil)
					waiter := client(t, st, nil)
					if c.same {
						waiter = holder
					}
					h := lingering(t, holder, 20*time.Minute)
					mustRelease(t, acquired(t, h))
					time.Sleep(ttl)
					wantHeld(t, waiter, "job")
					if took := takes(t, waiter, "job"); took > c.most {
						t.Errorf("it waited for %v, want at most %v", took, c.most)
					}
					synctest.Wait()
					if rec := wantState(t, waiter, "job", lease.Free); rec.YieldRequest != nil || rec.Linger != 0 {
						t.Errorf("the free record: %+v", rec)
					}
				})
			}
		})
	}
}

// The work of a holder continues when a waiter requests the lock: the lock is free when the work is
// done, and is not kept then.
func TestLingerRequestDoesNotReachTheWork(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		h := lingering(t, client(t, st, nil), 20*time.Minute)
		waiter := client(t, st, nil)
		var wg sync.WaitGroup
		var took time.Duration
		var token uint64
		err := h.Do(t.Context(), func(ctx context.Context, g *lease.Guard) error {
			wg.Go(func() { took = takes(t, waiter, "job") })
			time.Sleep(3 * ttl)
			if _, asked := g.YieldRequest(); asked {
				t.Error("the waiter's request has stopped the work")
			}
			if rec := wantState(t, waiter, "job", lease.Held); rec.YieldRequest == nil || !rec.YieldRequest.OnlyIfIdle || !rec.YieldRequest.Acknowledged {
				t.Errorf("the request to yield is %+v", rec.YieldRequest)
			}
			token = g.Token()
			return ctx.Err()
		})
		report(t, err)
		// At once, and not when the holder's next renewal conflicts with the request.
		if info, err := waiter.Inspect(t.Context(), "job"); err != nil || info.Record.State == lease.Held && info.Record.Token == token {
			t.Errorf("the lock is kept after the work: %+v, %v", info.Record, err)
		}
		wg.Wait()
		if took > 3*ttl+time.Second {
			t.Errorf("the waiter has it after %v", took)
		}
	})
}

// An operator's request stops the work although a waiter has requested the lock before.
func TestOperatorsRequestFollowsAWaitersRequest(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		h := lingering(t, client(t, st, nil), 20*time.Minute)
		waiter := client(t, st, nil)
		var wg sync.WaitGroup
		err := h.Do(t.Context(), func(ctx context.Context, g *lease.Guard) error {
			wg.Go(func() { takes(t, waiter, "job") })
			time.Sleep(3 * ttl)
			mustAsk(t, waiter, "now")
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, lease.ErrYieldRequested) {
			t.Error(err)
		}
		wg.Wait()
	})
}

// Whether any of the requests is lost or applied: the waiter has the lock within a TTL, and no two
// clients have it.
func TestLingerWithFaults(t *testing.T) {
	for _, f := range []fault{lose, drop, repeat, fail, hang} {
		for n := 1; n <= 3; n++ {
			for _, holder := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s-%d-%v", f, n, holder), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						w := newWire(hidden{st})
						hs, ws := store.Store(w), store.Store(hidden{st})
						if !holder {
							hs, ws = ws, hs
						}
						c := client(t, hs, nil)
						mustRelease(t, acquired(t, lingering(t, c, 20*time.Minute)))
						w.set(nth(n, f))
						g := mustAcquire(t, client(t, ws, nil), "job")
						w.set(nil)
						wantHeld(t, c, "job")
						mustRelease(t, g)
					})
				})
			}
		}
	}
}

// Close frees what is kept, at once; a process that dies leaves it for a TTL.
func TestLingerEndsWithTheClient(t *testing.T) {
	for _, dies := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			c := client(t, w, nil)
			mustRelease(t, acquired(t, lingering(t, c, 20*time.Minute)))
			if dies {
				w.set(everything(drop))
			} else if err := c.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			took := takes(t, client(t, st, nil), "job")
			if !dies && took > time.Millisecond || dies && (took < ttl || took > ttl+soon) {
				t.Errorf("dies: %v; taken after %v", dies, took)
			}
		})
	}
}

// A kept lease that is lost keeps nothing: the next acquire takes a new one, and no event reports a
// loss, since no work had it.
func TestLostLingeringLeaseIsNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var heard events
		c := client(t, st, &lease.Options{OnEvent: heard.add})
		h := lingering(t, c, 20*time.Minute)
		g := acquired(t, h)
		mustRelease(t, g)
		must(t, errOf(client(t, st, nil).Break(t.Context(), "job", g.Token(), &lease.BreakOptions{Immediate: true})))
		time.Sleep(ttl)
		again := acquired(t, h)
		if again.Token() <= g.Token() || again.Err() != nil {
			t.Errorf("token %d after %d, %v", again.Token(), g.Token(), again.Err())
		}
		mustRelease(t, again)
		report(t, c.Close(t.Context()))
		if len(heard.of(lease.EventLost)) != 0 || len(heard.of(lease.EventAcquired)) != 2 {
			t.Errorf("events: %v", heard.all)
		}
	})
}

// Goroutines of a handle take a kept lease, and two handles exclude each other as ever.
func TestLingeringHandlesExcludeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var mu sync.Mutex
		holding := -1
		var wg sync.WaitGroup
		for i := range 4 {
			c := client(t, st, nil)
			for j := range 2 {
				h := lingering(t, c, 20*time.Minute)
				wg.Go(func() {
					for range 30 {
						g := acquired(t, h)
						mu.Lock()
						if holding >= 0 {
							t.Errorf("%d has it beside %d", 2*i+j, holding)
						}
						holding = 2*i + j
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						holding = -1
						mu.Unlock()
						mustRelease(t, g)
					}
				})
			}
		}
		wg.Wait()
	})
}

// Detach ends the Linger of a handle.
func TestDetachEndsTheLinger(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		h := lingering(t, c, 20*time.Minute)
		ticket := mustDetach(t, acquired(t, h))
		other := client(t, st, nil)
		g := mustAttach(t, other, ticket)
		if rec := wantState(t, other, "job", lease.Held); rec.Linger != 0 {
			t.Errorf("a lease that was attached says that it is kept for %v", rec.Linger)
		}
		mustRelease(t, g)
	})
}

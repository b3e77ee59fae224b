package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// A holder under a session reads a request to yield with the next renewal of the session: that
// takes one more write, and a read of that lock. Other locks are not read.
func TestRequestUnderASession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		g := mustTry(t, s, "job")
		for i := range 20 {
			mustTry(t, s, fmt.Sprint("other", i))
		}
		asks := newWire(st)
		asker := client(t, asks, &lease.Options{Holder: "bob"})
		mustAsk(t, asker, "an upgrade")
		if n := asks.requests(); n != 4 {
			t.Errorf("asking took %d requests, want two for the lock and two for its session", n)
		}
		w.requests()
		if asked := hears(t, g, ttl/2); asked.By != "bob" || asked.Token != g.Token() {
			t.Errorf("the holder reads %+v", asked)
		}
		synctest.Wait()
		if n := w.requests(); n != 3 {
			t.Errorf("it took %d requests, want 3", n)
		}
		time.Sleep(2 * ttl)
		if g.Err() != nil || s.Err() != nil {
			t.Fatal(g.Err(), s.Err())
		}
		must(t, g.RefuseYield(t.Context(), "no"))
		if asked, err := asker.RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true}); !errors.Is(err, lease.ErrYieldRefused) || asked.RefusalReason != "no" {
			t.Errorf("RequestYield = %+v, %v", asked, err)
		}
		mustRelease(t, g)
		wantState(t, asker, "job", lease.Free)
		report(t, s.Close(t.Context()))
	})
}

// A function under a session is stopped, and a client that waits for its request has its answer.
func TestRequestToADoUnderASession(t *testing.T) {
	for _, same := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			c := client(t, st, nil)
			s := open(t, c)
			asker := c
			if !same {
				asker = client(t, st, nil)
			}
			answered := make(chan error, 1)
			began := time.Now()
			err := s.Do(t.Context(), "job", func(ctx context.Context, g *lease.Guard) error {
				go func() {
					asked, err := asker.RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true})
					if err == nil && !asked.GrantEnded {
						err = errors.New("it is not over")
					}
					answered <- err
				}()
				<-ctx.Done()
				return ctx.Err()
			}, nil)
			if took := time.Since(began); !errors.Is(err, lease.ErrYieldRequested) || took > ttl/2 {
				t.Errorf("Do = %v after %v", err, took)
			}
			if err := <-answered; err != nil {
				t.Errorf("RequestYield = %v", err)
			}
			if s.Err() != nil {
				t.Error(s.Err())
			}
		})
	}
}

// A lock under a session that is broken: only its holder reads of it, and the lock is free when the
// holder has had the time to stop, although the session lives.
func TestBreakUnderASession(t *testing.T) {
	for _, releases := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			s := open(t, client(t, st, nil))
			g, other := mustTry(t, s, "job"), mustTry(t, s, "other")
			c := client(t, st, nil)
			began := time.Now()
			must(t, errOf(c.Break(t.Context(), "job", g.Token(), nil)))
			wantHeld(t, c, "job")
			<-g.Context().Done()
			wantLost(t, g, lease.ErrBroken)
			if took := time.Since(began); took > ttl/2 {
				t.Errorf("the holder reads of it after %v", took)
			}
			if releases {
				_ = g.Release(t.Context())
			}
			taken := takes(t, c, "job")
			if most := lease.MaxDefaultGrace + soon; taken > most || !releases && taken < c.Options().Grace {
				t.Errorf("released: %v; it is free %v after the holder has read of it", releases, taken)
			}
			if other.Err() != nil || s.Err() != nil {
				t.Error(other.Err(), s.Err())
			}
			mustRelease(t, other)
			if err := g.Release(t.Context()); !errors.Is(err, lease.ErrBroken) {
				t.Errorf("Release = %v", err)
			}
		})
	}
}

// A break comes after the session has read the lock because of a request to yield, and before its
// record says so. The break finds the name of the lock there, and the session reads the lock after
// it has removed the name.
func TestBreakDuringARequestUnderASession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		other := client(t, st, nil)
		var token atomic.Uint64
		var writes atomic.Int64
		s := open(t, client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			// The first write conflicts with the request.
			if token.Load() != 0 && op.Kind.Write() && op.Key != "lock/job" && writes.Add(1) == 2 {
				time.Sleep(time.Second)
				report(t, errOf(other.Break(ctx, "job", token.Load(), nil)))
			}
			return next(ctx, op)
		}), nil))
		g := mustTry(t, s, "job")
		mustAsk(t, other, "")
		token.Store(g.Token())
		select {
		case <-g.Context().Done():
			wantLost(t, g, lease.ErrBroken)
		case <-time.After(ttl):
			t.Errorf("the holder has not read of the break; its session has written %d times", writes.Load())
		}
	})
}

// A client that dies between the break of a lock and its word to the holder's session keeps no
// waiter from the lock: those who wait for it tell the session.
func TestWaitersNotifyTheSessionForADeadBreaker(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		g := mustTry(t, s, "job")
		w := newWire(st)
		w.set(on(sessionKey(s), drop))
		_, _ = client(t, w, nil).Break(t.Context(), "job", g.Token(), nil)
		wantState(t, client(t, st, nil), "job", lease.Broken)
		ctx, cancel := context.WithTimeout(t.Context(), ttl)
		defer cancel()
		next, err := client(t, st, nil).Acquire(ctx, "job", nil)
		must(t, err)
		wantLost(t, g, lease.ErrBroken)
		if s.Err() != nil {
			t.Error(s.Err())
		}
		mustRelease(t, next)
	})
}

// Whether any request of the session or of the requesting client is lost or applied: the session
// lives, and its holder reads the request to yield.
func TestRequestUnderASessionWithLostReplies(t *testing.T) {
	all := []fault{pass, lose, drop, repeat, fail, hang, hangLate}
	for _, asker := range all {
		for _, holder := range all {
			for n := 1; n <= 2; n++ {
				t.Run(fmt.Sprintf("%s-%s-%d", asker, holder, n), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						w, aw := newWire(st), newWire(st)
						s := open(t, client(t, w, nil))
						g := mustTry(t, s, "job")
						aw.set(nth(2, asker)) // the notification
						w.set(nth(n, holder))
						_, err := client(t, aw, nil).RequestYield(t.Context(), "job", nil)
						if (err != nil) != (asker == fail) {
							t.Errorf("RequestYield = %v", err)
						}
						time.Sleep(2 * ttl)
						if g.Err() != nil || s.Err() != nil {
							t.Fatal(g.Err(), s.Err())
						}
						if err != nil { // the lock has the request, and its session was not notified
							mustAsk(t, client(t, st, nil), "")
							time.Sleep(ttl)
						}
						hears(t, g, 0)
						w.after.Wait()
						aw.after.Wait()
						mustRelease(t, g)
						report(t, s.Close(t.Context()))
					})
				})
			}
		}
	}
}

// A read of a lock that fails is repeated with the next renewal.
func TestSessionReadsALockAgainAfterAFailure(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		s := open(t, client(t, w, nil))
		g := mustTry(t, s, "job")
		mustAsk(t, client(t, st, nil), "")
		w.set(only(keyed("lock/job"), drop))
		time.Sleep(ttl)
		if _, heard := g.YieldRequest(); heard {
			t.Error("the holder acts on what it could not read")
		}
		w.set(nil)
		hears(t, g, ttl)
	})
}

// A holder also reads a request that is written while the session's claim is under way: if the
// session reads the lock while the claim is under way, if the claim ends during that read, and if
// so many locks are requested that the session reads all.
func TestRequestToAClaimUnderASession(t *testing.T) {
	const reply = ttl / 3 * 6 / 5 // a renewal conflicts with the notification meanwhile
	for _, test := range []struct {
		name   string
		look   time.Duration
		others int
	}{
		{"the claim ends after the read", 0, 0},
		{"the claim ends during the read", reply, 0},
		{"many locks", 0, 101},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				asker := client(t, st, nil)
				var asked, looked atomic.Bool
				slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
					err := next(ctx, op)
					switch {
					case op.Key != "lock/job":
					case asked.Load():
						if reads(op) && !looked.Swap(true) {
							time.Sleep(test.look)
						}
					case op.Kind.Write():
						asked.Store(true)
						for i := range test.others {
							report(t, errOf(asker.RequestYield(ctx, fmt.Sprint("other", i), nil)))
						}
						mustAsk(t, asker, "")
						time.Sleep(reply)
					}
					return err
				})
				s := open(t, client(t, slow, nil))
				for i := range test.others {
					mustTry(t, s, fmt.Sprint("other", i))
				}
				hears(t, mustTry(t, s, "job"), ttl)
			})
		})
	}
}

// A session that waits in a queue reads the locks of which it was notified once, like any other.
func TestRequestToASessionThatWaits(t *testing.T) {
	for _, others := range []int{0, 101} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				held := mustTake(t, with(t, opened(t, st), "queue", lease.LockOptions{Fair: true}))
				w := newWire(st)
				s := open(t, client(t, w, nil))
				guards := []*lease.Guard{mustTry(t, s, "job")}
				for i := range others {
					guards = append(guards, mustTry(t, s, fmt.Sprint("other", i)))
				}
				waits := make(chan *lease.Guard)
				go func() {
					g, err := with(t, s, "queue", lease.LockOptions{Fair: true}).Acquire(t.Context())
					report(t, err)
					waits <- g
				}()
				synctest.Wait()
				asker := client(t, st, nil)
				for _, g := range guards {
					must(t, errOf(asker.RequestYield(t.Context(), g.Name(), nil)))
				}
				for _, g := range guards {
					hears(t, g, ttl/2)
				}
				var looks atomic.Int64
				w.set(func(op *store.Op) fault {
					if reads(op) && (op.Key == "lock/job" || strings.HasPrefix(op.Key, "lock/other")) {
						looks.Add(1)
					}
					return pass
				})
				time.Sleep(10 * ttl)
				if n := looks.Load(); n != 0 {
					t.Errorf("the session has read its locks %d times after it had read the requests", n)
				}
				mustRelease(t, held)
				mustRelease(t, <-waits)
			})
		})
	}
}

// More locks than the record of a session has room for are all checked.
func TestRequestsToManyLocksOfASession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, nil))
		var guards []*lease.Guard
		asker := client(t, st, nil)
		for i := range 150 {
			g := mustTry(t, s, fmt.Sprint("job", i))
			guards = append(guards, g)
			must(t, errOf(asker.RequestYield(t.Context(), g.Name(), nil)))
		}
		if info, err := asker.InspectSession(t.Context(), s.ID()); err != nil || strings.Join(info.Record.LocksToCheck, " ") != "*" {
			t.Errorf("the session checks %v, %v", info.Record.LocksToCheck, err)
		}
		for _, g := range guards {
			hears(t, g, ttl/2)
		}
		if info, err := asker.InspectSession(t.Context(), s.ID()); err != nil || len(info.Record.LocksToCheck) != 0 || info.Record.HolderNonce != "" {
			t.Errorf("the session still checks %v, %v", info.Record.LocksToCheck, err)
		}
	})
}

// However often a dead session is notified: its locks are taken over a TTL after a waiter saw its
// last renewal.
func TestNotificationsDelayNoTakeover(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := open(t, client(t, st, &lease.Options{ManualRenewal: true}))
		for i := range 50 {
			mustTry(t, s, fmt.Sprint("other", i))
		}
		mustTry(t, s, "job")
		ctx, cancel := context.WithTimeout(t.Context(), 5*ttl)
		defer cancel()
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			asker := client(t, st, nil)
			for i := range 50 {
				select {
				case <-time.After(ttl / 10):
				case <-ctx.Done():
					return
				}
				if _, err := asker.RequestYield(ctx, fmt.Sprint("other", i), nil); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
		began := time.Now()
		_, err := client(t, st, nil).Acquire(ctx, "job", nil)
		took := time.Since(began)
		cancel()
		if err != nil || took < ttl || took > ttl*5/4 {
			t.Errorf("taken after %v, %v; want about a TTL", took, err)
		}
	})
}

// A RequestYield that waits for a holder whose session is dead returns that, and revokes nothing:
// it writes only the request and the notification.
func TestRequestWaitsForADeadSession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		mustTry(t, open(t, client(t, st, &lease.Options{ManualRenewal: true})), "job")
		w := newWire(st)
		writes := 0
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() {
				writes++
			}
			return pass
		})
		began := time.Now()
		asked, err := client(t, w, nil).RequestYield(t.Context(), "job", &lease.YieldOptions{Wait: true})
		if took := time.Since(began); err != nil || !asked.GrantEnded || took < ttl || took > 2*ttl {
			t.Errorf("Ask = %+v, %v after %v", asked, err, took)
		}
		if writes != 2 {
			t.Errorf("%d writes, want the request and the notification of the session", writes)
		}
	})
}

// A lock under a session that is kept after its work is requested by the waiters.
func TestLingerUnderASession(t *testing.T) {
	for _, watch := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			if !watch {
				st = hidden{st}
			}
			s := open(t, client(t, st, nil))
			h := with(t, s, "job", lease.LockOptions{Linger: 20 * time.Minute})
			for range 3 {
				mustRelease(t, acquired(t, h))
			}
			waiter := client(t, st, nil)
			wantHeld(t, waiter, "job")
			if took, most := takes(t, waiter, "job"), map[bool]time.Duration{true: time.Second, false: ttl/3 + soon}[watch]; took > most {
				t.Errorf("it waited for %v, want at most %v", took, most)
			}
			mustRelease(t, acquired(t, h))
			report(t, s.Close(t.Context()))
			mustRelease(t, mustTry(t, waiter, "job"))
		})
	}
}

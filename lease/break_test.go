package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// soon is how long something takes that waits for no time to pass: a poll or two.
const soon = 10 * time.Second

// takes waits for the lock and returns how long that took.
func takes(t *testing.T, c locker, name string) time.Duration {
	t.Helper()
	began := time.Now()
	g := mustAcquire(t, c, name)
	took := time.Since(began)
	mustRelease(t, g)
	return took
}

// A break makes no takeover later: a waiter that has watched the holder's last write continues that
// watch.
func TestBreakDelaysNoTakeover(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) { breakWatched(t, st, ttl, nil) })
}

func breakWatched(t *testing.T, st store.Store, ttl time.Duration, memory lease.Cache) {
	dead := client(t, st, &lease.Options{TTL: ttl, ManualRenewal: true})
	g := mustTry(t, dead, "job")
	o := &lease.Options{TTL: ttl}
	if memory != nil {
		o.Cache = memory
	}
	h := handle(t, client(t, st, o), "job")
	began := time.Now()
	wantHeldBy(t, h)
	time.Sleep(ttl * 2 / 3)
	must(t, errOf(client(t, st, nil).Break(t.Context(), "job", g.Token(), nil)))
	if memory != nil {
		h = handle(t, client(t, st, o), "job")
	}
	won := acquired(t, h)
	// Without the time of the first read before the break it would be 5/3 of the TTL.
	if took := time.Since(began); took < ttl || took > ttl*3/2 {
		t.Errorf("taken %v after the first read, want a TTL and the allowance", took)
	}
	mustRelease(t, won)
}

// The watch of an earlier write does not count: the holder renewed after it.
func TestWaitAfterABreakBeginsWithTheLastRenewal(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		g := mustTry(t, client(t, st, &lease.Options{ManualRenewal: true}), "job")
		h := handle(t, client(t, st, nil), "job")
		wantHeldBy(t, h)
		time.Sleep(ttl / 2)
		must(t, g.Renew(t.Context()))
		must(t, errOf(client(t, st, nil).Break(t.Context(), "job", g.Token(), nil)))
		began := time.Now()
		acquired(t, h)
		if took := time.Since(began); took < ttl {
			t.Errorf("taken %v after the holder's last write", took)
		}
	})
}

// A dead process is dead in a broken record, too, before the break and after.
func TestBrokenLockOfADeadProcessIsFreeAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		for _, diesFirst := range []bool{true, false} {
			p := &presence{Store: st, verdict: store.Alive, died: make(chan struct{})}
			die := func() { p.set(store.Dead); close(p.died) }
			g := mustTry(t, client(t, p, &lease.Options{ManualRenewal: true}), "job")
			if diesFirst {
				die()
			}
			must(t, errOf(client(t, p, nil).Break(t.Context(), "job", g.Token(), nil)))
			if !diesFirst {
				time.AfterFunc(5*time.Second, die)
			}
			if took := takes(t, client(t, p, nil), "job"); took > soon {
				t.Errorf("dead before the break: %v; taken after %v", diesFirst, took)
			}
		}
	})
}

// The age of what was broken counts with that of the break, unless the holder's wall
// clock says otherwise.
func TestBreakKeepsTheAgeOfTheLastRenewal(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		aged := &agedStore{Store: st}
		g := mustTry(t, client(t, aged, &lease.Options{ManualRenewal: true}), "job")
		time.Sleep(20 * time.Second)
		aged.age = 20 * time.Second
		must(t, errOf(client(t, aged, nil).Break(t.Context(), "job", g.Token(), nil)))
		aged.age = 0
		wantHeld(t, client(t, aged, nil), "job")
		time.Sleep(11 * time.Second)
		aged.age = 11 * time.Second
		mustRelease(t, mustTry(t, client(t, aged, nil), "job"))
	})
}

// A holder frees the lock when it releases, as it would have done without the break, whether it has
// read of the break or not.
func TestReleaseFreesABrokenLock(t *testing.T) {
	for _, heard := range []bool{true, false} {
		for _, script := range []func(*store.Op) fault{nil, nth(1, lose), nth(1, drop), nth(1, repeat)} {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				w := newWire(st)
				h := handle(t, client(t, w, nil), "job")
				g := mustTake(t, h)
				rec, err := client(t, st, nil).Break(t.Context(), "job", g.Token(), nil)
				must(t, err)
				if heard {
					time.Sleep(ttl / 2)
					wantLost(t, g, lease.ErrBroken)
				}
				w.set(script)
				if err := g.Release(t.Context()); !errors.Is(err, lease.ErrBroken) && script == nil {
					t.Errorf("break read: %v; Release = %v", heard, err)
				}
				w.set(nil)
				if took := takes(t, client(t, st, nil), "job"); took > time.Second {
					t.Errorf("break read: %v; others take it after %v", heard, took)
				}
				if again, err := h.TryAcquire(t.Context()); err != nil || again.Token() <= rec.Token {
					t.Errorf("break read: %v; the old holder's own try: %v, %v", heard, again, err)
				}
			})
		}
	}
}

// A handle takes its own broken grant at once, when its guards were released and the release did
// not reach the store.
func TestHandleTakesItsOwnBrokenLockAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		h := handle(t, client(t, w, nil), "job")
		g := mustTake(t, h)
		w.set(everything(drop))
		_ = g.Release(t.Context())
		must(t, errOf(client(t, st, nil).Break(t.Context(), "job", g.Token(), nil)))
		w.set(nil) // not before: a session frees such a lock as soon as the store answers
		report(t, errOf(h.TryAcquire(t.Context())))
	})
}

// A break that conflicts with a renewal does not carry the age of the write before: others would
// take the lock while its holder believes.
func TestBreakDuringARenewalReportsNoAge(t *testing.T) {
	for _, renews := range []bool{true, false} {
		bothWays(t, func(t *testing.T, st store.Store, client newParty) {
			const age = 20 * time.Second
			aged := &agedStore{Store: st, age: age}
			g := mustTry(t, client(t, aged, &lease.Options{ManualRenewal: true}), "job")
			want := age
			if renews {
				want = 0
			}
			between := store.Intercept(aged, func(ctx context.Context, op *store.Op, next store.Handler) error {
				if op.Kind.Write() && renews {
					renews = false
					report(t, g.Renew(ctx))
				}
				return next(ctx, op)
			})
			rec, err := client(t, between, nil).Break(t.Context(), "job", g.Token(), nil)
			if err != nil || rec.HolderWriteAge != want {
				t.Errorf("Break = %+v, %v; want an age of %v", rec, err, want)
			}
		})
	}
}

// A break that conflicts with a renewal keeps what the renewal wrote.
func TestBreakKeepsNewData(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		g := mustTry(t, client(t, st, nil), "job")
		between := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind.Write() && len(g.Data()) == 0 {
				report(t, g.SetData(ctx, []byte("new")))
			}
			return next(ctx, op)
		})
		rec, err := client(t, between, nil).Break(t.Context(), "job", g.Token(), nil)
		if err != nil || string(rec.Data) != "new" || string(wantState(t, client(t, st, nil), "job", lease.Broken).Data) != "new" {
			t.Errorf("Break = %q, %v", rec.Data, err)
		}
	})
}

// A claim that is applied, and broken before its client knows, keeps no waiter
// out: not its own handle, and where it is given up, not others.
func TestBrokenClaimKeepsNoWaiterOut(t *testing.T) {
	for _, givenUp := range []bool{true, false} {
		bothWays(t, func(t *testing.T, st store.Store, client newParty) {
			w := newWire(st)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			breaker, c := client(t, st, nil), client(t, w, nil)
			broke := false
			w.set(func(op *store.Op) fault {
				switch {
				case op.Kind.Write() && !broke:
					return lose
				case !broke && givenUp:
					cancel()
				}
				if info, err := breaker.Inspect(t.Context(), "job"); !broke && err == nil {
					broke = true
					report(t, errOf(breaker.Break(t.Context(), "job", info.Record.Token, nil)))
					if givenUp {
						return drop
					}
				}
				return pass
			})
			g, err := handle(t, c, "job").TryAcquire(ctx)
			if (err == nil) == givenUp || !broke {
				t.Fatalf("given up: %v; broken: %v; %v", givenUp, broke, err)
			}
			if g != nil {
				mustRelease(t, g)
			}
			if took := takes(t, client(t, st, nil), "job"); took > soon {
				t.Errorf("given up: %v; taken after %v", givenUp, took)
			}
		})
	}
}

// The reply of a break is lost, and the holder has freed the lock since. What the client reads then
// does not show whether its break was applied, so it must not report that it was not. In the control
// the holder writes first, and the break conflicts.
func TestOutcomeOfALostBreakIsUnknown(t *testing.T) {
	for _, lost := range []bool{true, false} {
		t.Run(fmt.Sprintf("lost=%v", lost), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				g := mustTry(t, client(t, hidden{st}, &lease.Options{ManualRenewal: true}), "job")
				done := false
				operator := client(t, store.Intercept(hidden{st}, func(ctx context.Context, op *store.Op, next store.Handler) error {
					if !op.Kind.Write() || done {
						return next(ctx, op)
					}
					if done = true; !lost {
						_ = g.Release(t.Context())
						return next(ctx, op)
					}
					if err := next(ctx, op); err != nil {
						return err
					}
					_ = g.Release(t.Context())
					return store.MarkUnknown(errors.New("the reply was lost"))
				}), nil)
				if _, err := operator.Break(t.Context(), "job", g.Token(), nil); err == nil || store.InDoubt(err) != lost {
					t.Errorf("Break: %v, outcome %v; want an error, in doubt: %v", err, store.OutcomeOf(err), lost)
				}
			})
		})
	}
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// described is a store with traits of the test's own.
type described struct {
	store.Store
	traits store.Traits
}

func (d described) Unwrap() store.Store { return d.Store }

func (d described) Traits() store.Traits { return d.traits }

// distant is a store that every request takes so long to reach and to return from.
func distant(latency func() time.Duration, local bool) store.Store {
	return described{atDistance(memstore.New(), latency), store.Traits{Local: local}}
}

// atDistance is st where every request takes so long to reach it and to return.
func atDistance(st store.Store, latency func() time.Duration) store.Store {
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		whole := latency()
		if err := pause(ctx, whole/2); err != nil {
			return err
		}
		err := next(ctx, op)
		if err := pause(ctx, whole-whole/2); err != nil {
			return err
		}
		return err
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// keeps reports whether a lease with these options lasts that long, and why it was lost.
func keeps(t *testing.T, st store.Store, o lease.Options, clocks bool, rnd *rand.Rand, long time.Duration) (lost error) {
	synctest.Test(t, func(t *testing.T) {
		c := client(t, st, &o)
		lease.SetRandom(c, rnd.Float64)
		if clocks {
			clock := newClocks()
			clock.rate = 1 + 0.01*(2*rnd.Float64()-1)
			lease.SetClock(c, clock.read)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*o.TTL+time.Minute)
		defer cancel()
		g, err := c.Acquire(ctx, "job", nil)
		if err != nil {
			lost = err
			return
		}
		select {
		case <-g.Context().Done():
			lost = g.Err()
		case <-time.After(long):
		}
	})
	return lost
}

// Options that are accepted lose no lease in ten minutes on a healthy store: one whose
// requests take up to a tenth of the TTL.
func TestAcceptedOptionsLoseNothing(t *testing.T) {
	accepted, refused := 0, 0
	seeds := uint64(60)
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		rnd := newLuck(seed, 7)
		// From the least to the most, each as likely as its double.
		between := func(from, to time.Duration) time.Duration {
			for from < to/2 && rnd.IntN(3) > 0 {
				from *= 2
			}
			return from + time.Duration(rnd.Int64N(int64(from)))
		}
		maybe := func(d time.Duration) time.Duration {
			if rnd.IntN(2) == 0 {
				return 0
			}
			return d
		}
		o := lease.Options{TTL: between(500*time.Millisecond, time.Minute).Truncate(time.Millisecond)}
		o.RenewInterval = maybe(time.Duration(rnd.Int64N(int64(o.TTL)/2 + 1)))
		o.Margin = maybe(time.Duration(rnd.Int64N(int64(o.TTL) / 3)))
		o.Grace = maybe(time.Duration(rnd.Int64N(int64(o.TTL)/2))) - time.Duration(rnd.IntN(2))
		o.MinPoll, o.MaxPoll = maybe(between(time.Millisecond, time.Minute)), 0
		local := rnd.IntN(2) == 0
		most := o.TTL / 10
		st := distant(func() time.Duration { return time.Duration(rnd.Float64() * float64(most)) }, local)
		if seed%2 == 0 {
			st = distant(func() time.Duration { return most }, local)
		}
		if _, err := lease.New(st, &o); err != nil {
			refused++
			continue
		}
		accepted++
		if err := keeps(t, st, o, seed%3 == 0, rnd, 10*time.Minute); err != nil {
			t.Errorf("seed %d, %+v: %v", seed, o, err)
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d accepted, %d refused", accepted, refused)
	if min(accepted, refused) < int(seeds/6) {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

// The steady latency from which a lease is lost, with the defaults: the table in
// docs/stores.md. Each is measured to a hundredth of the TTL, over ten minutes or 100
// renewals.
func TestSteadyLatency(t *testing.T) {
	for _, tt := range []struct {
		ttl  time.Duration
		want int // the highest latency that loses nothing, in hundredths of the TTL
	}{
		{2 * time.Second, 21},
		{4 * time.Second, 21},
		{6 * time.Second, 21},
		{10 * time.Second, 28},
		{30 * time.Second, 36},
		{60 * time.Second, 40},
	} {
		t.Run(fmt.Sprint(tt.ttl), func(t *testing.T) {
			lost := func(hundredths int) bool {
				latency := tt.ttl * time.Duration(hundredths) / 100
				for seed := range uint64(3) {
					st := distant(func() time.Duration { return latency }, false)
					if keeps(t, st, lease.Options{TTL: tt.ttl}, false, newLuck(seed, 8), max(10*time.Minute, 34*tt.ttl)) != nil {
						return true
					}
				}
				return false
			}
			if lost(tt.want) {
				t.Errorf("a latency of %d %% of the TTL loses a lease", tt.want)
			}
			if !lost(tt.want + 2) {
				t.Errorf("a latency of %d %% of the TTL loses no lease: the table is too modest", tt.want+2)
			}
		})
	}
}

// A connection that hangs for some of the requests costs no lease either.
func TestHangingRequests(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWire(memstore.New())
			n := 0
			w.set(func(op *store.Op) fault {
				if n++; n > 2 && n%3 != 0 {
					return hang
				}
				return pass
			})
			g := mustTry(t, client(t, w, &lease.Options{TTL: ttl}), "job")
			time.Sleep(time.Hour)
			if err := g.Err(); err != nil {
				t.Errorf("%v: %v", ttl, err)
			}
		})
	}
}

// A renewal whose first write hangs ends with the reply to its second write.
func TestRenewalDoesNotAwaitTheWriteThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(memstore.New())
		g := mustTry(t, client(t, w, &lease.Options{TTL: time.Minute, ManualRenewal: true}), "job")
		n := 0
		w.set(func(*store.Op) fault {
			if n++; n == 1 {
				return hang
			}
			return pass
		})
		within(t, "Renew", 20*time.Second, func() { must(t, g.Renew(t.Context())) })
	})
}

// A release does not wait for a read that finds out about a renewal, nor for the renewal,
// longer than it may, at the longest TTL too.
func TestReleaseDuringARenewalThatHangs(t *testing.T) {
	for _, ttl := range []time.Duration{30 * time.Second, time.Hour} {
		for name, script := range map[string]func(op *store.Op) fault{
			"the renewal": func(op *store.Op) fault {
				if op.Kind == store.OpPutUnsynced {
					return hang
				}
				return pass
			},
			"the read of it": func(op *store.Op) fault {
				switch op.Kind {
				case store.OpPutUnsynced:
					return lose
				case store.OpGet, store.OpResolve:
					return hang
				}
				return pass
			},
		} {
			bothWays(t, func(t *testing.T, st store.Store, client newParty) {
				w := newWire(st)
				c := client(t, w, &lease.Options{TTL: ttl, Tuning: lease.Tuning{ReleaseTimeout: 4 * time.Second}})
				g := mustTry(t, c, "job")
				w.set(script)
				time.Sleep(c.Options().RenewInterval * 112 / 100)
				within(t, name+": Release", 2*time.Second+moment, func() { _ = g.Release(t.Context()) })
			})
		}
	}
}

// Acquire waits for a store that does not answer for Options.StoreTimeout, and
// with one that answers slowly for ever.
func TestStoreTimeout(t *testing.T) {
	for _, ttl := range []time.Duration{30 * time.Second, time.Hour} {
		for _, f := range []fault{drop, fail, hang, hangLate} {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				c := client(t, w, &lease.Options{TTL: ttl, StoreTimeout: 2 * time.Second, Tuning: lease.Tuning{ReleaseTimeout: 3 * time.Second}})
				w.set(everything(f))
				within(t, fmt.Sprint("Acquire, fault ", f), 5*time.Second+moment, func() {
					g, err := c.Acquire(t.Context(), "job", nil)
					if err == nil || f == hang && !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("fault %v: %v, %v", f, g, err)
					}
				})
				w.after.Wait()
			})
		}
	}
	bubble(t, func(t *testing.T, st store.Store) {
		slow := distant(func() time.Duration { return 1900 * time.Millisecond }, false)
		holder := mustTry(t, client(t, slow, nil), "job")
		time.AfterFunc(time.Minute, func() { mustRelease(t, holder) })
		c := client(t, slow, &lease.Options{StoreTimeout: 2 * time.Second, Tuning: lease.Tuning{MinPoll: 3 * time.Second}})
		if _, err := c.Acquire(t.Context(), "job", nil); err != nil {
			t.Errorf("on a slow store: %v", err)
		}
	})
}

// The locks of a set are released at the same time.
func TestSetReleaseOnAStoreThatHangs(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		c := client(t, w, &lease.Options{Tuning: lease.Tuning{ReleaseTimeout: 4 * time.Second}})
		var handles []*lease.Handle
		for i := range 6 {
			handles = append(handles, handle(t, c, fmt.Sprint(i)))
		}
		set, err := lease.AcquireAll(t.Context(), handles...)
		must(t, err)
		w.set(everything(hang))
		within(t, "Release", 4*time.Second+moment, func() {
			if err := set.Release(t.Context()); !errors.Is(err, lease.ErrUnresolved) {
				t.Errorf("Release = %v", err)
			}
		})
	})
}

// Nothing is sent or read for a lease after it is over, however long a release may take.
func TestReleaseTimeoutBeyondTheLease(t *testing.T) {
	for _, f := range []fault{drop, fail, hang, lose} {
		bothWays(t, func(t *testing.T, st store.Store, client newParty) {
			w := newWire(st)
			c := client(t, w, &lease.Options{Tuning: lease.Tuning{ReleaseTimeout: time.Hour}})
			g := mustTry(t, c, "job")
			w.set(func(op *store.Op) fault {
				if reads(op) { // the write cannot be resolved by reading
					return drop
				}
				return f
			})
			within(t, fmt.Sprint("Release, fault ", f), c.Options().TTL-c.Options().Margin+moment, func() {
				if err := g.Release(t.Context()); !errors.Is(err, lease.ErrUnresolved) {
					t.Errorf("Release = %v", err)
				}
			})
			w.requests()
			time.Sleep(2 * time.Hour)
			if n := w.requests(); n != 0 {
				t.Errorf("%d requests after the release", n)
			}
		})
	}
}

// No grace is left when another may hold the lock at once.
func TestGraceRemaining(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(ctx context.Context, c *lease.Client, st store.Store, g *lease.Guard) error
		want bool
	}{
		"held": {func(context.Context, *lease.Client, store.Store, *lease.Guard) error { return nil }, true},
		"broken now": {func(ctx context.Context, c *lease.Client, _ store.Store, g *lease.Guard) error {
			return breakIt(ctx, c, g, true)
		}, false},
		"broken": {func(ctx context.Context, c *lease.Client, _ store.Store, g *lease.Guard) error {
			return breakIt(ctx, c, g, false)
		}, true},
		"removed": {func(ctx context.Context, _ *lease.Client, st store.Store, g *lease.Guard) error {
			_, v, err := st.Get(ctx, "lock/job")
			return errors.Join(err, st.Delete(ctx, "lock/job", v))
		}, false},
		"released": {func(ctx context.Context, _ *lease.Client, _ store.Store, g *lease.Guard) error { return g.Release(ctx) }, false},
		"detached": {func(ctx context.Context, _ *lease.Client, _ store.Store, g *lease.Guard) error {
			_, err := g.Detach(ctx)
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				g := mustTry(t, client(t, st, nil), "job")
				must(t, tt.end(t.Context(), client(t, st, nil), st, g))
				time.Sleep(12 * time.Second) // a renewal shows it
				if left := g.GraceRemaining(); left > 0 != tt.want {
					t.Errorf("%v of the grace is left; the guard: %v", left, g.Err())
				}
			})
		})
	}
}

func breakIt(ctx context.Context, c *lease.Client, g *lease.Guard, now bool) error {
	_, err := c.Break(ctx, g.Name(), g.Token(), &lease.BreakOptions{Immediate: now})
	return err
}

// A SetData reports if one of its writes may still be applied, although another was refused.
func TestSetDataUnclearAndRefused(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		g := mustTry(t, client(t, w, &lease.Options{ManualRenewal: true}), "job")
		writes := 0
		w.set(func(op *store.Op) fault {
			if !op.Kind.Write() {
				return pass
			}
			if writes++; writes == 1 {
				return hangLate
			}
			return fail
		})
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		err := g.SetData(ctx, []byte("x"))
		if writes < 2 || store.OutcomeOf(err) != store.Unknown || !errors.Is(err, lease.ErrUnresolved) {
			t.Errorf("after %d writes: %v, outcome %v", writes, err, store.OutcomeOf(err))
		}
		w.after.Wait()
		if rec := wantState(t, client(t, st, nil), "job", lease.Held); string(rec.Data) != "x" {
			t.Errorf("nothing was under way: %q", rec.Data)
		}
	})
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Transient errors are not a loss, neither of a write nor of the read that resolves it.
func TestTransientErrorsAreNoLoss(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		var heard events
		c := client(t, w, &lease.Options{OnEvent: heard.add})
		g := mustTry(t, c, "job")
		for _, f := range []fault{drop, fail, hang, lose} {
			// They last until the next renewal has conflicted with them, with its read if it needs
			// one.
			needsRead, met := f == drop || f == lose, make(chan struct{})
			w.set(func(op *store.Op) fault {
				select {
				case <-met:
					return pass
				default:
				}
				if reads(op) == needsRead {
					close(met)
				}
				return f
			})
			<-met
			time.Sleep(ttl)
			if err := g.Err(); err != nil {
				t.Fatalf("lost by %v: %v", f, err)
			}
		}
		if lost := heard.of(lease.EventLost); len(lost) > 0 {
			t.Errorf("lost: %v", lost)
		}
	})
}

// In a long outage the holder gets an event that its lease is at risk before it loses it.
func TestAtRiskThenLost(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		var heard events
		c := client(t, w, &lease.Options{OnEvent: heard.add})
		g := mustTry(t, c, "job")
		w.set(everything(drop))
		<-g.Context().Done()
		wantLost(t, g, lease.ErrExpired)
		told := heard.of(lease.EventAtRisk, lease.EventLost)
		if len(told) != 2 || told[0].Kind != lease.EventAtRisk || !errors.Is(told[1].Err, errNetwork) {
			t.Errorf("events %v; want that the lease is at risk, and then the loss with the store's error in it", told)
		}
	})
}

// Of 500 leases one has a key that hangs: the others are renewed.
func TestOneSlowKeyAmongMany(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		guards := map[string]*lease.Guard{}
		for i := range 500 {
			name := fmt.Sprintf("job-%d", i)
			guards[name] = mustTry(t, c, name)
		}
		w.set(only(keyed("lock/job-7"), hang))
		time.Sleep(10 * ttl)
		for name, g := range guards {
			if err := g.Err(); (err == nil) == (name == "job-7") {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.set(nil)
	})
}

// A reply takes 0.9 TTL: the deadline counts from the sending.
func TestDeadlineCountsFromTheSending(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		var delay atomic.Int64
		var left abandon.Calls
		slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			return hangs(ctx, &left, op, func(ctx context.Context, op *store.Op) error {
				err := next(ctx, op)
				time.Sleep(time.Duration(delay.Load()))
				return err
			}, func() {})
		})
		t.Cleanup(func() { time.Sleep(ttl) }) // the abandoned calls return
		c := client(t, slow, &lease.Options{ManualRenewal: true})
		g := mustTry(t, c, "job")
		delay.Store(int64(15 * time.Second))
		sent := time.Now()
		must(t, g.Renew(t.Context()))
		o := c.Options()
		trust := o.TTL - o.Margin - o.Grace
		if want := sent.Add(trust); g.Deadline().Sub(want).Abs() > time.Millisecond {
			t.Errorf("the deadline is %v after the sending; want %v", g.Deadline().Sub(sent), trust)
		}
		delay.Store(int64(o.TTL * 9 / 10))
		if err := g.Renew(t.Context()); !errors.Is(err, lease.ErrLost) {
			t.Errorf("Renew with a reply after the deadline = %v; want ErrLost", err)
		}
		wantLost(t, g, lease.ErrExpired)

		// The same for an acquire: nothing is left to trust in, so that a further
		// grant has to follow, which the handle makes over its own.
		delay.Store(int64(0))
		w := newWire(slow)
		w.set(func(op *store.Op) fault {
			delay.Store(int64(0))
			switch {
			case op.Kind == store.OpPut && w.counts[store.OpPut] == 1:
				delay.Store(int64(o.TTL * 9 / 10))
			case op.Kind == store.OpResolve && w.counts[store.OpResolve] == 1: // that resolves it
				delay.Store(int64(o.TTL * 3 / 10))
			}
			return pass
		})
		c2 := client(t, w, nil)
		g2 := mustTry(t, c2, "slow")
		if g2.Remaining() < trust-time.Second {
			t.Errorf("trust of %v is left; want %v", g2.Remaining(), trust)
		}
		w.set(nil)
		mustRelease(t, g2)
	})
}

// A handle hands out no guards of a grant that it has lost.
func TestNoGuardsOfALostGrant(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		a, b := client(t, w, nil), client(t, st, nil)
		h := handle(t, a, "job")
		g := mustTake(t, h)
		w.set(everything(drop))
		won := mustAcquire(t, b, "job")
		wantLost(t, g, lease.ErrExpired)
		w.set(nil)
		if again, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquire on the handle = %v, %v; want it held", again, err)
		}
		mustRelease(t, won)
		again := mustTake(t, h)
		if again.WasLastHolder() {
			t.Error("another client has held the lock, and Continuous reports that none has")
		}
		_ = g.Release(t.Context()) // late, of the lost grant
		if err := again.Err(); err != nil {
			t.Errorf("releasing the old guard ended the new grant: %v", err)
		}
		mustRelease(t, again)
	})
}

// TestTouchedRecord: another program writes the same record again, for example because it copies all objects of a bucket
// onto themselves. The holder renews and releases its lease, also if the first reply is lost.
func TestTouchedRecord(t *testing.T) {
	for _, f := range []fault{pass, drop, lose} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			g := mustTry(t, client(t, w, nil), "job")
			touch := func() {
				value, v, err := st.Get(t.Context(), "lock/job")
				must(t, err)
				must(t, errOf(st.Put(t.Context(), "lock/job", v, value)))
			}
			for range 3 {
				touch()
				w.set(nth(1, f))
				must(t, g.Renew(t.Context()))
			}
			touch()
			mustRelease(t, g)
			wantState(t, client(t, st, nil), "job", lease.Free)
		})
	}
}

package leasetest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// expiryCases are the rules of time.
func expiryCases() []testCase {
	return []testCase{
		{"Renewal", "The client renews its lease automatically. So the lease lasts much longer than its TTL, and no other client gets the lock in this time.", caseRenewal},
		{"Takeover", "If a holder does not renew, a waiter takes the lock over, but only after the record has not changed for the TTL and the allowance for clocks. The holder stops trusting its lease earlier.", func(e *env) {
			old := e.try(e.client(e.a, e.silent), job)
			began := time.Now()
			g := e.acquire(e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true }), job)
			e.between("the lock was taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
			e.lost(old, lease.ErrExpired)
			e.holds(g)
		}},
		{"TakeoverByTries", "Repeated calls of TryAcquire also take over the lock of a dead holder in the end.", func(e *env) {
			e.try(e.client(e.a, e.silent), job)
			h := e.handle(e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true }), job)
			began := time.Now()
			for {
				g, err := h.TryAcquire(e.ctx)
				if err == nil {
					e.between("the lock was taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
					e.holds(g)
					return
				}
				if !errors.Is(err, lease.ErrHeld) {
					e.Fatalf("TryAcquire: %v", err)
				}
				e.pause(e.TTL / 10)
			}
		}},
		{"RenewalDelays", "Each renewal restarts the time after which a waiter may take the lock over.", func(e *env) {
			g := e.try(e.client(e.a, e.silent), job)
			h := e.handle(e.client(e.b, nil), job)
			renewed := time.Now()
			for range 6 {
				if _, err := h.TryAcquire(e.ctx); !errors.Is(err, lease.ErrHeld) {
					e.Fatalf("TryAcquire: %v", err)
				}
				e.pause(e.TTL / 3)
				now := time.Now()
				err := g.Renew(e.ctx)
				tooShort := errors.Is(err, context.DeadlineExceeded) && store.OutcomeOf(err) == store.NotApplied
				if (tooShort || errors.Is(err, lease.ErrExpired)) && !e.Bubble {
					break // the machine was too slow: the lease has expired, or the rest of it is too short for a write
				} else if err != nil {
					e.Fatalf("Renew: %v", err)
				}
				renewed = now
			}
			next, err := h.Acquire(e.ctx)
			e.Must("Acquire", err)
			e.between("the lock was taken over", time.Since(renewed), e.TTL, 2*expiry(e.TTL))
			e.holds(next)
		}},
		{"RecordTTL", "A waiter waits for the TTL in the record, not for the TTL in its own options.", func(e *env) {
			long := 3 * e.TTL
			e.try(e.client(e.a, func(o *lease.Options) { e.silent(o); o.TTL = long }), job)
			began := time.Now()
			e.acquire(e.client(e.b, func(o *lease.Options) { e.short(o); o.IgnoreStoreClock = true }), job)
			e.between("the lock was taken over", time.Since(began), expiry(long), expiry(long)+e.TTL)
		}},
		{"ReleaseAfterTakeover", "After a takeover, the old holder cannot change the grant of the new holder: not by a release, not by a renewal.", func(e *env) {
			old := e.try(e.client(e.a, e.silent), job)
			g := e.acquire(e.client(e.b, nil), job)
			e.WantErr("Renew after the end of the lease", old.Renew(e.ctx), lease.ErrLost)
			e.WantErr("Release after the end of the lease", old.Release(e.ctx), lease.ErrLost)
			e.holds(g)
		}},
		{"Unreachable", "A holder that cannot reach the store sends EventAtRisk. It stops trusting its lease before another client can get the lock, but not at the first error.", func(e *env) {
			fs := e.faulty()
			g := e.try(e.client(fs, e.short), job)
			began := time.Now()
			fs.Set(every(faultstore.AnyOp, "", faultstore.Drop))
			e.await(g.Context().Done(), "the holder still trusts its lease without the store")
			e.between("the holder stopped trusting its lease", time.Since(began), 0, e.TTL)
			e.lost(g, lease.ErrExpired)
		}},
		{"BreakImmediate", "Break with immediate effect needs the token, and raises it. Another client can take the lock at once. The old holder reads that its grant was broken.", caseBreakNow},
		{"BreakWaits", "After a break without immediate effect, other clients wait for the TTL from their first read of the record. So the old holder has time to read that its grant was broken.", func(e *env) {
			old := e.try(e.client(e.a, e.short), job)
			c := e.client(e.b, nil)
			began := time.Now() // c sees the broken record during Break
			rec, err := c.Break(e.ctx, job, old.Token(), nil)
			e.Must("Break", err)
			if held := e.held(c, job); held.Record.State != lease.Broken {
				e.Errorf("HeldError has a record with the state %q, want broken", held.Record.State)
			}
			g := e.acquire(c, job)
			e.between("the lock was taken", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
			if g.Token() <= rec.Token || !errors.Is(old.Err(), lease.ErrLost) {
				e.Errorf("the new grant has token %d, the broken record has token %d, and the old lease ended with %v; want a higher token and a lost lease", g.Token(), rec.Token, old.Err())
			}
		}},
		{"Detach", "Another process can continue a detached lease once, with the same token and deadline. If the deadline has passed, the lease is lost, and Attach frees the lock.", caseDetach},
	}
}

func caseRenewal(e *env) {
	// A real machine can be too slow for short leases; then the lease is over,
	// rightly, and it is tried again.
	for range 20 {
		g := e.acquire(e.client(e.a, e.short), job)
		h := e.handle(e.client(e.b, nil), job)
		for began := time.Now(); time.Since(began) < 3*e.TTL && g.Err() == nil; e.pause(e.TTL / 8) {
			won, err := h.TryAcquire(e.ctx)
			if err == nil {
				if g.Err() == nil {
					e.Fatalf("another client took over a lease that its holder renews")
				}
				e.release(won)
			}
		}
		if g.Err() == nil {
			e.holds(g)
			e.release(g)
			return
		}
		if e.Bubble || !errors.Is(g.Err(), lease.ErrExpired) {
			e.Fatalf("the lease was lost: %v", g.Err())
		}
	}
	e.Fatalf("in every attempt, a lease with a TTL of %v was lost within three TTLs", e.TTL)
}

func caseBreakNow(e *env) {
	old := e.try(e.client(e.a, nil), job)
	c := e.client(e.b, nil)
	e.WantErr("Break with a wrong token", suitetest.ErrOf(c.Break(e.ctx, job, old.Token()-1, &lease.BreakOptions{Immediate: true})), lease.ErrTokenMismatch)
	e.holds(old)
	rec, err := c.Break(e.ctx, job, old.Token(), &lease.BreakOptions{Immediate: true})
	e.Must("Break", err)
	e.higher(rec.Token, old.Token())
	g := e.try(c, job)
	e.higher(g.Token(), rec.Token)
	e.WantErr("Renew of a broken grant", old.Renew(e.ctx), lease.ErrLost)
	e.WantErr("the end of the old holder's lease", old.Err(), lease.ErrLost)
	e.holds(g)
	e.release(g)
	e.WantErr("Break of a free lock", suitetest.ErrOf(c.Break(e.ctx, job, g.Token(), &lease.BreakOptions{Immediate: true})), lease.ErrNotHeld)
	e.WantErr("Break of a lock without a record", suitetest.ErrOf(c.Break(e.ctx, "nothing", 1, &lease.BreakOptions{Immediate: true})), store.ErrNotFound)
}

func caseDetach(e *env) {
	quiet := func(o *lease.Options) { o.NoPresence = true }
	g := e.try(e.client(e.a, quiet), job)
	ticket := e.detach(g)
	e.WantErr("Err of a detached guard", g.Err(), lease.ErrDetached)
	b := e.client(e.b, quiet)
	e.held(b, job)
	next, err := b.Attach(e.ctx, ticket)
	e.Must("Attach", err)
	if next.Token() != g.Token() {
		e.Errorf("the guard from Attach has token %d, want %d", next.Token(), g.Token())
	}
	e.holds(next)
	e.release(next)
	e.WantErr("Attach after the release", suitetest.ErrOf(b.Attach(e.ctx, ticket)), lease.ErrReleased)
	e.release(e.try(e.client(e.b, nil), job))
	e.WantErr("Attach after a grant to another client", suitetest.ErrOf(b.Attach(e.ctx, ticket)), lease.ErrLost)

	ticket = e.detach(e.acquire(e.client(e.a, e.silent), job))
	e.pause(e.TTL)
	e.WantErr("Attach after the TTL", suitetest.ErrOf(e.client(e.b, e.silent).Attach(e.ctx, ticket)), lease.ErrExpired)
	e.state(job, lease.Free)
}

// detach makes a ticket that went through a file.
func (e *env) detach(g *lease.Guard) lease.Ticket {
	ticket, err := g.Detach(e.ctx)
	if errors.Is(err, lease.ErrExpired) && !e.Bubble {
		e.Absent("the machine is too slow")
	}
	e.Must("Detach", err)
	text, err := json.Marshal(ticket)
	e.Must("encode the ticket", err)
	var again lease.Ticket
	e.Must("decode the ticket", json.Unmarshal(text, &again))
	if g.Context().Err() == nil || !errors.Is(context.Cause(g.Context()), lease.ErrDetached) {
		e.Errorf("the context of a detached guard has the cause %v, want ErrDetached", context.Cause(g.Context()))
	}
	return again
}

package leasetest

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// expiryCases are the rules of time.
func expiryCases() []testCase {
	return []testCase{
		{"Renewal", "A lease is renewed by itself: it outlasts its TTL by far, and no other client gets the lock meanwhile.", caseRenewal},
		{"Takeover", "A lock whose holder does not renew is taken over when its record was seen unchanged for its TTL with the allowance for clocks: then, and never before. The holder has given up by itself before that.", func(e *env) {
			old := e.try(e.client(e.a, e.silent), job)
			began := time.Now()
			g := e.acquire(e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true }), job)
			e.between("taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
			e.lost(old, lease.ErrExpired)
			e.holds(g)
		}},
		{"TakeoverByTries", "Tries that do not wait take over a dead lock, too, in the end.", func(e *env) {
			e.try(e.client(e.a, e.silent), job)
			h := e.handle(e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true }), job)
			began := time.Now()
			for {
				g, err := h.TryAcquire(e.ctx)
				if err == nil {
					e.between("taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
					e.holds(g)
					return
				}
				if !errors.Is(err, lease.ErrHeld) {
					e.fatalf("TryAcquire: %v", err)
				}
				e.pause(e.TTL / 10)
			}
		}},
		{"RenewalDelays", "Each renewal restarts the time that a waiter has to wait.", func(e *env) {
			g := e.try(e.client(e.a, e.silent), job)
			h := e.handle(e.client(e.b, nil), job)
			renewed := time.Now()
			for range 6 {
				if _, err := h.TryAcquire(e.ctx); !errors.Is(err, lease.ErrHeld) {
					e.fatalf("TryAcquire: %v", err)
				}
				e.pause(e.TTL / 3)
				now := time.Now()
				if err := g.Renew(e.ctx); errors.Is(err, lease.ErrExpired) && !e.Bubble {
					break // the machine was too slow
				} else if err != nil {
					e.fatalf("Renew: %v", err)
				}
				renewed = now
			}
			next, err := h.Acquire(e.ctx)
			e.must("Acquire", err)
			e.between("taken over", time.Since(renewed), e.TTL, 2*expiry(e.TTL))
			e.holds(next)
		}},
		{"RecordTTL", "What counts is the TTL in the record, not the waiter's own.", func(e *env) {
			long := 3 * e.TTL
			e.try(e.client(e.a, func(o *lease.Options) { e.silent(o); o.TTL = long }), job)
			began := time.Now()
			e.acquire(e.client(e.b, func(o *lease.Options) { e.short(o); o.IgnoreStoreClock = true }), job)
			e.between("taken over", time.Since(began), expiry(long), expiry(long)+e.TTL)
		}},
		{"ReleaseAfterTakeover", "A holder whose lease is over can do nothing to the next one: not by a release, not by a renewal.", func(e *env) {
			old := e.try(e.client(e.a, e.silent), job)
			g := e.acquire(e.client(e.b, nil), job)
			if err := old.Renew(e.ctx); !errors.Is(err, lease.ErrLost) {
				e.errorf("a renewal of a lease that is over: %v", err)
			}
			if err := old.Release(e.ctx); !errors.Is(err, lease.ErrLost) {
				e.errorf("a release of a lease that is over: %v", err)
			}
			e.holds(g)
		}},
		{"Unreachable", "A holder that cannot reach the store reports it, and gives up before another client can have the lock; not at the first error.", func(e *env) {
			fs := e.faulty()
			g := e.try(e.client(fs, e.short), job)
			began := time.Now()
			fs.Set(every(faultstore.AnyOp, "", faultstore.Drop))
			select {
			case <-g.Context().Done():
			case <-e.ctx.Done():
				e.fatalf("the holder still trusts its lease without the store")
			}
			e.between("given up", time.Since(began), 0, e.TTL)
			e.lost(g, lease.ErrExpired)
		}},
		{"BreakImmediate", "Break with immediate effect needs the token, raises it, and lets the next client in at once; the old holder reads of it.", caseBreakNow},
		{"BreakWaits", "Break without immediate effect gives the old holder the time to read of it: others wait for its TTL from when they first saw the record.", func(e *env) {
			old := e.try(e.client(e.a, e.short), job)
			c := e.client(e.b, nil)
			rec, err := c.Break(e.ctx, job, old.Token(), nil)
			e.must("Break", err)
			began := time.Now()
			if held := e.held(c, job); held.Record.State != lease.Broken {
				e.errorf("HeldError says that the lock is %q", held.Record.State)
			}
			g := e.acquire(c, job)
			e.between("taken", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
			if g.Token() <= rec.Token || !errors.Is(old.Err(), lease.ErrLost) {
				e.errorf("token %d after the break's %d; the old holder's lease ended with %v", g.Token(), rec.Token, old.Err())
			}
		}},
		{"Detach", "A detached lease continues in another process, with its token and its deadline, once; after the deadline it is lost, and freed.", caseDetach},
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
					e.fatalf("a lease that is renewed was taken over")
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
			e.fatalf("the lease was lost: %v", g.Err())
		}
	}
	e.fatalf("no lease of %v could be kept for three TTLs", e.TTL)
}

func caseBreakNow(e *env) {
	old := e.try(e.client(e.a, nil), job)
	c := e.client(e.b, nil)
	if _, err := c.Break(e.ctx, job, old.Token()-1, &lease.BreakOptions{Immediate: true}); !errors.Is(err, lease.ErrTokenMismatch) {
		e.errorf("Break with another token: %v, want ErrTokenMismatch", err)
	}
	e.holds(old)
	rec, err := c.Break(e.ctx, job, old.Token(), &lease.BreakOptions{Immediate: true})
	e.must("Break", err)
	if rec.Token <= old.Token() {
		e.errorf("Break left token %d, it was %d", rec.Token, old.Token())
	}
	g := e.try(c, job)
	if g.Token() <= rec.Token {
		e.errorf("token %d after the break's %d", g.Token(), rec.Token)
	}
	if err := old.Renew(e.ctx); !errors.Is(err, lease.ErrLost) {
		e.errorf("a renewal of a broken grant: %v, want ErrLost", err)
	}
	if !errors.Is(old.Err(), lease.ErrLost) {
		e.errorf("the old holder's lease ended with %v, want ErrLost", old.Err())
	}
	e.holds(g)
	e.release(g)
	if _, err := c.Break(e.ctx, job, g.Token(), &lease.BreakOptions{Immediate: true}); !errors.Is(err, lease.ErrNotHeld) {
		e.errorf("Break of a free lock: %v, want ErrNotHeld", err)
	}
	if _, err := c.Break(e.ctx, "nothing", 1, &lease.BreakOptions{Immediate: true}); !errors.Is(err, store.ErrNotFound) {
		e.errorf("Break of no lock: %v, want ErrNotFound", err)
	}
}

func caseDetach(e *env) {
	quiet := func(o *lease.Options) { o.NoPresence = true }
	g := e.try(e.client(e.a, quiet), job)
	ticket := e.detach(g)
	if !errors.Is(g.Err(), lease.ErrDetached) {
		e.errorf("a detached guard says %v", g.Err())
	}
	b := e.client(e.b, quiet)
	e.held(b, job)
	next, err := b.Attach(e.ctx, ticket)
	e.must("Attach", err)
	if next.Token() != g.Token() {
		e.errorf("attached with token %d, want %d", next.Token(), g.Token())
	}
	e.holds(next)
	e.release(next)
	if _, err := b.Attach(e.ctx, ticket); !errors.Is(err, lease.ErrReleased) {
		e.errorf("Attach after the release: %v, want ErrReleased", err)
	}
	e.release(e.try(e.client(e.b, nil), job))
	if _, err := b.Attach(e.ctx, ticket); !errors.Is(err, lease.ErrLost) {
		e.errorf("Attach after another's grant: %v, want ErrLost", err)
	}

	short := e.client(e.a, e.silent)
	g, err = short.Acquire(e.ctx, job, nil)
	e.must("Acquire", err)
	ticket = e.detach(g)
	e.pause(e.TTL)
	if _, err := e.client(e.b, e.silent).Attach(e.ctx, ticket); !errors.Is(err, lease.ErrExpired) {
		e.errorf("Attach after the TTL: %v, want ErrExpired", err)
	}
	e.state(job, lease.Free)
}

// detach makes a ticket that went through a file.
func (e *env) detach(g *lease.Guard) lease.Ticket {
	ticket, err := g.Detach(e.ctx)
	if errors.Is(err, lease.ErrExpired) && !e.Bubble {
		e.absent("the machine is too slow")
	}
	e.must("Detach", err)
	text, err := json.Marshal(ticket)
	e.must("encode the ticket", err)
	var again lease.Ticket
	e.must("decode the ticket", json.Unmarshal(text, &again))
	if g.Context().Err() == nil || !errors.Is(context.Cause(g.Context()), lease.ErrDetached) {
		e.errorf("the context of a detached guard has the cause %v", context.Cause(g.Context()))
	}
	return again
}

package leasetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// sessionCases are the rules of locks under a session.
func sessionCases() []testCase {
	return []testCase{
		{"Session", "The locks of a session are held for as long as it is renewed, exclude plain leases, and are released with it.", caseSession},
		{"SessionRenewal", "One renewal keeps all locks of a session, far beyond its TTL.", func(e *env) {
			s := e.session(e.client(e.a, e.short))
			first, second := e.tryIn(s, job), e.tryIn(s, job+"-2")
			h := e.handle(e.client(e.b, nil), job)
			for began := time.Now(); time.Since(began) < 2*expiry(e.TTL); e.pause(e.TTL / 5) {
				if _, err := h.TryAcquire(e.ctx); err == nil && s.Err() == nil {
					e.fatalf("a lock under a living session was given again")
				} else if err == nil && !e.Bubble {
					return // the machine was too slow
				}
			}
			if s.Err() != nil && !e.Bubble {
				return // the machine was too slow, as above
			}
			e.holds(first)
			e.holds(second)
		}},
		{"SessionTakeover", "A session that is not renewed is revoked when its record was seen unchanged for its TTL with the allowance for clocks, and never before; then each of its locks can be taken at once.", func(e *env) {
			s := e.session(e.client(e.a, e.silent))
			old, second := e.tryIn(s, job), e.tryIn(s, job+"-2")
			began := time.Now()
			c := e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true })
			g := e.acquire(c, job)
			e.between("taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
			e.lost(old, lease.ErrExpired)
			e.lost(second, lease.ErrExpired)
			e.holds(g)
			e.holds(e.try(c, job+"-2"))
			info, err := c.InspectSession(e.ctx, s.ID())
			e.must("InspectSession", err)
			if info.Record.State != lease.Revoked {
				e.errorf("the session is %q, want it revoked", info.Record.State)
			}
		}},
		{"SessionRevocationLost", "A revocation whose request or reply was lost is resolved before a lock is taken, and the session is revoked once.", func(e *env) {
			e.readBack()
			for i, action := range []faultstore.Action{faultstore.Lose, faultstore.Drop} {
				name := fmt.Sprint(job, i)
				s := e.session(e.client(e.a, e.silent))
				old := e.tryIn(s, name)
				fs := e.faulty()
				c := e.client(fs, func(o *lease.Options) { o.IgnoreStoreClock = true })
				fs.Set(first(faultstore.WriteOp, action))
				g := e.acquire(c, name)
				if old.Err() == nil {
					e.fatalf("the lock was taken while its holder believes")
				}
				e.must("Drain", fs.Drain(e.ctx))
				e.holds(g)
			}
		}},
		{"SessionRemoved", "A session whose record was removed does not count as dead: its locks are taken when its TTL has passed since a waiter saw that.", func(e *env) {
			s := e.session(e.client(e.a, e.silent))
			old := e.tryIn(s, job)
			path := "lock.session/" + s.ID()
			_, v, err := e.a.Get(e.ctx, path)
			e.must("read the session's record", err)
			e.must("Delete", e.a.Delete(e.ctx, path, v))
			began := time.Now()
			g := e.acquire(e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true }), job)
			e.between("taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL)
			e.lost(old, lease.ErrExpired)
			e.holds(g)
		}},
		{"SessionLeftover", "A release under a session that did not reach the store is repeated while the session lives, until the lock is free.", func(e *env) {
			e.readBack()
			fs := e.faulty()
			s := e.session(e.client(fs, func(o *lease.Options) {
				o.ManualRenewal = true
				o.ReleaseTimeout = max(e.TTL/10, time.Millisecond, store.TraitsOf(e.a).MinWriteTime*2)
			}))
			g := e.tryIn(s, job)
			fs.Set(every(faultstore.WriteOp, key, faultstore.Drop))
			if err := g.Release(e.ctx); !errors.Is(err, lease.ErrUnresolved) {
				e.fatalf("a release that never arrived: %v", err)
			}
			e.state(job, lease.Held)
			fs.Set(faultstore.Schedule{})
			e.untilFree(job, s)
			e.release(e.try(e.client(e.b, nil), job))
		}},
	}
}

func (e *env) session(c *lease.Client) *lease.Session {
	s, err := c.OpenSession(e.ctx)
	e.must("OpenSession", err)
	return s
}

// untilFree renews the sessions until they have freed the lock whose release did not reach the
// store.
func (e *env) untilFree(name string, sessions ...*lease.Session) {
	c := e.client(e.b, nil)
	for {
		for _, s := range sessions {
			e.must("Renew", s.Renew(e.ctx))
		}
		if rec, err := c.Inspect(e.ctx, name); err == nil && rec.Record.State == lease.Free {
			return
		}
		e.pause(10 * time.Millisecond)
	}
}

func (e *env) tryIn(s *lease.Session, name string) *lease.Guard {
	return e.free("TryAcquire of a free lock under a session", func() (*lease.Guard, error) { return s.TryAcquire(e.ctx, name, nil) })
}

func caseSession(e *env) {
	c := e.client(e.a, nil)
	s := e.session(c)
	g := e.tryIn(s, job)
	e.holds(g)
	if rec := e.state(job, lease.Held); rec.Session != s.ID() {
		e.errorf("the record names the session %q, want %q", rec.Session, s.ID())
	}
	e.held(c, job)
	e.held(e.client(e.b, nil), job)
	if _, err := s.TryAcquire(e.ctx, job, nil); !errors.Is(err, lease.ErrHeld) {
		e.errorf("another handle of the session got the lock: %v", err)
	}
	e.release(g)
	plain := e.try(e.client(e.b, nil), job)
	if plain.Token() <= g.Token() {
		e.errorf("token %d after %d", plain.Token(), g.Token())
	}
	if _, err := s.TryAcquire(e.ctx, job, nil); !errors.Is(err, lease.ErrHeld) {
		e.errorf("a lock that is held without a session was given to one: %v", err)
	}
	e.release(plain)
	g = e.tryIn(s, job)
	locks := 20
	if store.TraitsOf(e.a).MinWriteTime > 0 {
		locks = 2
	}
	for i := range locks {
		e.tryIn(s, fmt.Sprint(job, i))
	}
	e.must("SetData", g.SetData(e.ctx, []byte("data")))
	if _, err := g.Detach(e.ctx); !errors.Is(err, store.ErrInvalid) {
		e.errorf("Detach of a lock under a session: %v", err)
	}
	e.must("Close", s.Close(e.ctx))
	if err := g.Err(); err != lease.ErrClosed {
		e.errorf("a guard of a session that was closed: %v", err)
	}
	other := e.client(e.b, nil)
	if info, err := other.InspectSession(e.ctx, s.ID()); err != nil || info.Record.State != lease.Free {
		e.errorf("the record of a session that was closed is %q, %v", info.Record.State, err)
	}
	if store.TraitsOf(e.a).MinWriteTime == 0 { // otherwise Close has no time to write all records
		if rec := e.state(job, lease.Free); rec.Session != "" {
			e.errorf("a free lock names the session %q", rec.Session)
		}
	}
	next := e.try(other, job)
	if string(next.Data()) != "data" {
		e.errorf("the next grant has the data %q", next.Data())
	}
	for i := range locks {
		e.try(other, fmt.Sprint(job, i))
	}
	if _, err := s.TryAcquire(e.ctx, job, nil); !errors.Is(err, lease.ErrClosed) {
		e.errorf("TryAcquire under a session that was closed: %v", err)
	}
}

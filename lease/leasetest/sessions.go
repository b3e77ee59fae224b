package leasetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// sessionCases are the rules of locks under a session.
func sessionCases() []testCase {
	return []testCase{
		{"Session", "The locks of a session stay held while the session is renewed. They exclude leases without a session. Session.Close releases them.", caseSession},
		{"SessionRenewal", "One renewal renews all locks of a session: they stay held for several TTLs.", func(e *env) {
			s := e.session(e.client(e.a, e.short))
			first, second := e.tryIn(s, job), e.tryIn(s, job+"-2")
			h := e.handle(e.client(e.b, nil), job)
			for began := time.Now(); time.Since(began) < 2*expiry(e.TTL); e.pause(e.TTL / 5) {
				if _, err := h.TryAcquire(e.ctx); err == nil && s.Err() == nil {
					e.Fatalf("TryAcquire succeeded for a lock under a living session")
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
		{"SessionTakeover", "If a session is not renewed, a waiter revokes it, but only after the record has not changed for the TTL and the allowance for clocks. Then all its locks can be taken at once.", func(e *env) {
			s := e.session(e.client(e.a, e.silent))
			old, second := e.tryIn(s, job), e.tryIn(s, job+"-2")
			began := time.Now()
			c := e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true })
			g := e.acquire(c, job)
			e.between("the lock was taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL/2)
			e.lost(old, lease.ErrExpired)
			e.lost(second, lease.ErrExpired)
			e.holds(g)
			e.holds(e.try(c, job+"-2"))
			info, err := c.InspectSession(e.ctx, s.ID())
			e.Must("InspectSession", err)
			if info.Record.State != lease.Revoked {
				e.Errorf("the session has the state %q, want revoked", info.Record.State)
			}
		}},
		{"SessionRevocationLost", "If the request or the reply of a revocation was lost, the waiter finds out its outcome before it takes a lock. It revokes the session only once.", func(e *env) {
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
					e.Fatalf("another client took the lock while the holder trusted its lease")
				}
				e.Must("Drain", fs.Drain(e.ctx))
				e.holds(g)
			}
		}},
		{"SessionRemoved", "If the record of a session is removed, the session does not count as dead. A waiter takes its locks only when the TTL has passed after the waiter read that the record is absent.", func(e *env) {
			s := e.session(e.client(e.a, e.silent))
			old := e.tryIn(s, job)
			path := "lock.session/" + s.ID()
			_, v, err := e.a.Get(e.ctx, path)
			e.Must("read the session's record", err)
			e.Must("Delete", e.a.Delete(e.ctx, path, v))
			began := time.Now()
			g := e.acquire(e.client(e.b, func(o *lease.Options) { o.IgnoreStoreClock = true }), job)
			e.between("the lock was taken over", time.Since(began), expiry(e.TTL), expiry(e.TTL)+e.TTL)
			e.lost(old, lease.ErrExpired)
			e.holds(g)
		}},
		{"SessionLeftover", "If a release under a session does not reach the store, the session repeats it until the lock is free.", func(e *env) {
			e.readBack()
			fs := e.faulty()
			s := e.session(e.client(fs, func(o *lease.Options) {
				o.ManualRenewal = true
				o.ReleaseTimeout = max(e.TTL/10, time.Millisecond, store.TraitsOf(e.a).MinWriteTime*2)
			}))
			g := e.tryIn(s, job)
			fs.Set(every(faultstore.WriteOp, key, faultstore.Drop))
			if err := g.Release(e.ctx); !errors.Is(err, lease.ErrUnresolved) {
				e.Fatalf("Release whose request was lost returned %v", err)
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
	e.Must("OpenSession", err)
	return s
}

// untilFree renews the sessions until they have freed the lock whose release did not reach the
// store.
func (e *env) untilFree(name string, sessions ...*lease.Session) {
	c := e.client(e.b, nil)
	for {
		for _, s := range sessions {
			e.Must("Renew", s.Renew(e.ctx))
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
		e.Errorf("the record names the session %q, want %q", rec.Session, s.ID())
	}
	e.held(c, job)
	e.held(e.client(e.b, nil), job)
	e.WantErr("TryAcquire of a second handle of the session", suitetest.ErrOf(s.TryAcquire(e.ctx, job, nil)), lease.ErrHeld)
	e.release(g)
	plain := e.try(e.client(e.b, nil), job)
	e.higher(plain.Token(), g.Token())
	e.WantErr("TryAcquire of a session for a lock held without a session", suitetest.ErrOf(s.TryAcquire(e.ctx, job, nil)), lease.ErrHeld)
	e.release(plain)
	g = e.tryIn(s, job)
	locks := 20
	if store.TraitsOf(e.a).Delayed() {
		locks = 2
	}
	for i := range locks {
		e.tryIn(s, fmt.Sprint(job, i))
	}
	e.Must("SetData", g.SetData(e.ctx, []byte("data")))
	e.WantErr("Detach of a lock under a session", suitetest.ErrOf(g.Detach(e.ctx)), store.ErrInvalid)
	e.Must("Close", s.Close(e.ctx))
	if err := g.Err(); err != lease.ErrClosed {
		e.Errorf("the guard of a closed session: Err returned %v, want ErrClosed", err)
	}
	other := e.client(e.b, nil)
	if info, err := other.InspectSession(e.ctx, s.ID()); err != nil || info.Record.State != lease.Free {
		e.Errorf("the record of a closed session has the state %q (error: %v)", info.Record.State, err)
	}
	if !store.TraitsOf(e.a).Delayed() { // otherwise Close has no time to write all records
		if rec := e.state(job, lease.Free); rec.Session != "" {
			e.Errorf("the record of a free lock names the session %q", rec.Session)
		}
	}
	next := e.try(other, job)
	if string(next.Data()) != "data" {
		e.Errorf("the next grant has the data %q", next.Data())
	}
	for i := range locks {
		e.try(other, fmt.Sprint(job, i))
	}
	e.WantErr("TryAcquire of a closed session", suitetest.ErrOf(s.TryAcquire(e.ctx, job, nil)), lease.ErrClosed)
}

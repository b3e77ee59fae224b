package leasetest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// faultCases are the rules of lost requests and replies.
func faultCases() []testCase {
	return []testCase{
		{"AcquireReplyLost", "If the write of an acquire was applied but its reply was lost, the client holds the lock. It does not wait for its own grant, and leaves no lock without a holder.", func(e *env) {
			e.acquireUnder(first(faultstore.WriteOp, faultstore.Lose))
		}},
		{"AcquireRequestLost", "If the write of an acquire was lost, the client sends the write again.", func(e *env) {
			e.acquireUnder(first(faultstore.WriteOp, faultstore.Drop))
		}},
		{"AcquireLate", "If the first write of an acquire arrives late, after a second attempt has taken the lock, it changes nothing.", func(e *env) {
			e.acquireUnder(first(faultstore.WriteOp, faultstore.Late))
		}},
		{"AcquireGivenUp", "If a caller cancels an acquire with an unknown outcome, the store cannot apply the write later: the lock stays free.", caseGivenUp},
		{"AcquireReadFails", "A failed read does not mean that the record is absent. A write that was certainly not applied is an error. In both cases the client takes no lock.", caseReadFails},
		{"AcquireByAnother", "If a client has lost the reply to its acquire and then finds the grant of another client, it does not use that grant.", caseNotAdopted},
		{"RenewReplyLost", "A renewal counts if it was applied, even if its reply was lost or the transport sent it twice. If the request itself was lost, the lease continues, and the next renewal counts.", caseRenewLost},
		{"ReleaseReplyLost", "A release counts if it was applied, even if its reply was lost. The client does not release the grant of the next holder.", caseReleaseLost},
		{"ReleaseRequestLost", "If the request of a release was lost, the client sends it again.", func(e *env) {
			e.readBack()
			fs := e.faulty()
			g := e.try(e.client(fs, nil), job)
			fs.Set(first(faultstore.WriteOp, faultstore.Drop))
			e.release(g)
			e.state(job, lease.Free)
		}},
		{"ReleaseNever", "If a release does not reach the store, it returns an error. The guard ends in any case, and the lock becomes free after the TTL.", func(e *env) {
			fs := e.faulty()
			g := e.try(e.client(fs, func(o *lease.Options) { e.silent(o); o.ReleaseTimeout = e.TTL / 2 }), job)
			fs.Set(every(faultstore.WriteOp, "", faultstore.Drop))
			if err := g.Release(e.ctx); err == nil {
				e.Errorf("Release returned no error, but no request reached the store")
			}
			if g.Err() == nil {
				e.Errorf("the guard is still valid after its release")
			}
			began := time.Now()
			e.acquire(e.client(e.b, nil), job)
			e.between("the lock was taken", time.Since(began), 0, expiry(e.TTL)+e.TTL/2)
		}},
		{"Close", "Close releases each lease of the client, even if another release fails, and ends every wait.", caseClose},
	}
}

// acquireUnder checks that a lock is taken although the first write fails by the schedule.
func (e *env) acquireUnder(s faultstore.Schedule) {
	e.readBack()
	fs := e.faulty()
	for range 2 { // a new lock, and a free one
		fs.Set(s)
		began := time.Now()
		g := e.try(e.client(fs, nil), job)
		e.between("the lock was taken", time.Since(began), 0, e.long/2)
		if trust := g.Remaining(); trust > e.long-time.Since(began)+e.long/100 && e.Bubble {
			e.Errorf("the holder trusts its lease for %v, want at most the time that is left of the TTL", trust)
		}
		e.Must("Drain", fs.Drain(e.ctx))
		e.holds(g)
		e.held(e.client(e.b, nil), job)
		e.Must("Renew", g.Renew(e.ctx))
		e.release(g)
		e.state(job, lease.Free)
	}
}

func caseGivenUp(e *env) {
	e.readBack()
	e.release(e.try(e.client(e.a, nil), job))
	fs := e.faulty()
	fs.Set(first(faultstore.WriteOp, faultstore.Late))
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	st := store.Intercept(fs, func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if op.Kind.Write() {
			cancel() // the caller gives up
		}
		return err
	})
	if g, err := e.client(st, nil).TryAcquire(ctx, job, nil); err == nil {
		e.release(g) // the outcome was resolved in time
		return
	}
	e.state(job, lease.Free)
	e.Must("Drain", fs.Drain(e.ctx))
	e.state(job, lease.Free)
	e.release(e.try(e.client(e.b, nil), job))
}

func caseReadFails(e *env) {
	g := e.try(e.client(e.a, nil), job)
	fs := e.faulty()
	// Everything fails but the writes that create: the store itself refuses these.
	fs.Set(every(faultstore.ReadOp, "", faultstore.Fail))
	ctx, cancel := context.WithTimeout(e.ctx, e.TTL/2)
	defer cancel()
	if other, err := e.client(fs, nil).TryAcquire(ctx, job, nil); err == nil {
		e.Fatalf("TryAcquire succeeded, with token %d, although every read failed", other.Token())
	}
	e.holds(g)
	e.release(g)
	fs.Set(every(faultstore.WriteOp, "", faultstore.Fail))
	if _, err := e.client(fs, nil).TryAcquire(e.ctx, job, nil); err == nil || errors.Is(err, lease.ErrHeld) || store.OutcomeOf(err) != store.NotApplied {
		e.Errorf("TryAcquire whose writes fail returned %v, want an error with the outcome NotApplied", err)
	}
	e.state(job, lease.Free)
}

func caseNotAdopted(e *env) {
	e.readBack()
	e.release(e.try(e.client(e.a, nil), job))
	other := e.client(e.b, nil)
	var winner *lease.Guard
	st := store.Intercept(e.a, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if !op.Kind.Write() || winner != nil {
			return next(ctx, op)
		}
		// This request is lost, and another client writes before the lost one can be read back.
		if winner = e.steal(other); winner == nil {
			return next(ctx, op)
		}
		return store.MarkUnknown(errors.New("reply lost"))
	})
	if g, err := e.client(st, nil).TryAcquire(e.ctx, job, nil); !errors.Is(err, lease.ErrHeld) {
		if err == nil {
			e.Fatalf("two clients hold the lock, with the tokens %d and %d", winner.Token(), g.Token())
		}
		e.Fatalf("TryAcquire: %v, want ErrHeld", err)
	}
	e.holds(winner)
}

func caseRenewLost(e *env) {
	e.readBack()
	fs := e.faulty()
	repeat := false
	st := store.Intercept(fs, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if repeat && op.Kind.Write() {
			again := *op
			_ = next(ctx, &again) // the transport gets no reply, and sends it once more
		}
		return next(ctx, op)
	})
	g := e.try(e.client(st, func(o *lease.Options) { o.ManualRenewal = true }), job)
	renew := func() { e.Must("Renew", g.Renew(e.ctx)); e.holds(g) }

	fs.Set(first(faultstore.WriteOp, faultstore.Lose))
	renew()
	fs.Set(first(faultstore.WriteOp, faultstore.Drop))
	if err := g.Renew(e.ctx); errors.Is(err, lease.ErrLost) {
		e.Fatalf("Renew whose request was lost returned %v, but the lease must not be lost", err)
	}
	renew()
	fs.Set(first(faultstore.WriteOp, faultstore.Fail))
	if err := g.Renew(e.ctx); err == nil || errors.Is(err, lease.ErrLost) {
		e.Fatalf("Renew whose request failed returned %v, want an error that does not match ErrLost", err)
	}
	renew()
	repeat = true
	renew()
	e.release(g)
	e.state(job, lease.Free)
}

func caseReleaseLost(e *env) {
	e.readBack()
	fs := e.faulty()
	a, b := e.client(fs, nil), e.client(e.b, nil)
	h := e.handle(a, job)
	g := e.take(h)
	fs.Set(first(faultstore.WriteOp, faultstore.Lose))
	e.release(g)
	e.state(job, lease.Free)
	next := e.take(h)
	e.release(g)
	e.holds(next)
	e.release(next)

	// Another takes the lock between the release and its repetition.
	var other *lease.Guard
	armed := false
	st := store.Intercept(e.a, func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if !armed || other != nil || !op.Kind.Write() || err != nil {
			return err
		}
		if other = e.steal(b); other == nil {
			return nil
		}
		return store.MarkUnknown(errors.New("reply lost"))
	})
	g = e.try(e.client(st, func(o *lease.Options) { o.ManualRenewal = true }), job)
	armed = true
	e.release(g)
	e.holds(other)
}

// steal takes the lock in the middle of another's write, on whose goroutine it runs.
func (e *env) steal(c *lease.Client) *lease.Guard {
	g, err := c.TryAcquire(e.ctx, job, nil)
	e.OK("TryAcquire during the write of another client", err)
	return g
}

func caseClose(e *env) {
	fs := e.faulty()
	c := e.client(fs, func(o *lease.Options) {
		o.ReleaseTimeout = max(min(e.TTL, time.Second), 3*store.TraitsOf(fs).MinWriteTime)
	})
	names := []string{"one", "two", "three"}
	var guards []*lease.Guard
	for _, name := range names {
		guards = append(guards, e.try(c, name))
	}
	e.try(e.client(e.b, nil), job)
	waited := make(chan error, 1)
	go func() {
		_, err := c.Acquire(e.ctx, job, nil)
		waited <- err
	}()
	fs.Set(every(faultstore.WriteOp, "lock/one", faultstore.Drop))
	if err := c.Close(e.ctx); err == nil {
		e.Errorf("one release failed, but Close returned no error")
	}
	e.WantErr("a waiting Acquire", <-waited, lease.ErrClosed)
	for i, g := range guards {
		if g.Err() == nil {
			e.Errorf("a guard is still valid after the client was closed")
		}
		if i > 0 {
			e.state(names[i], lease.Free)
		}
	}
	e.Must("a second Close", c.Close(e.ctx))
	e.WantErr("TryAcquire of a closed client", suitetest.ErrOf(c.TryAcquire(e.ctx, "two", nil)), lease.ErrClosed)
	e.state("two", lease.Free)
}

package leasetest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// faultCases are the rules of lost requests and replies.
func faultCases() []testCase {
	return []testCase{
		{"AcquireReplyLost", "An acquire whose write was applied and whose reply was lost holds the lock: it does not wait for itself, nor leave a lock that no client holds.", func(e *env) {
			e.acquireUnder(first(faultstore.WriteOp, faultstore.Lose))
		}},
		{"AcquireRequestLost", "An acquire whose write was lost sends it again.", func(e *env) {
			e.acquireUnder(first(faultstore.WriteOp, faultstore.Drop))
		}},
		{"AcquireLate", "A write of an acquire that is applied late, after the lock was taken by a second try, changes nothing.", func(e *env) {
			e.acquireUnder(first(faultstore.WriteOp, faultstore.Late))
		}},
		{"AcquireGivenUp", "An acquire that is given up while its outcome is unknown cannot be applied later: the lock stays free.", caseGivenUp},
		{"AcquireReadFails", "A read that fails is not \"absent\", and a write that fails for certain is an error: nothing is taken.", caseReadFails},
		{"AcquireByAnother", "An acquire that finds another's grant after its own reply was lost does not adopt it.", caseNotAdopted},
		{"RenewReplyLost", "A renewal whose reply was lost, or which a transport has repeated, has renewed; one that was lost itself is not a loss, and the next one renews.", caseRenewLost},
		{"ReleaseReplyLost", "A release whose reply was lost has released, and is not repeated on the next holder.", caseReleaseLost},
		{"ReleaseRequestLost", "A release whose request was lost is sent again.", func(e *env) {
			e.readBack()
			fs := e.faulty()
			g := e.try(e.client(fs, nil), job)
			fs.Set(first(faultstore.WriteOp, faultstore.Drop))
			e.release(g)
			e.state(job, lease.Free)
		}},
		{"ReleaseNever", "A release that does not reach the store says so; the guard is over all the same, and the lock is free after its TTL.", func(e *env) {
			fs := e.faulty()
			g := e.try(e.client(fs, func(o *lease.Options) { e.silent(o); o.ReleaseTimeout = e.TTL / 2 }), job)
			fs.Set(every(faultstore.WriteOp, "", faultstore.Drop))
			if err := g.Release(e.ctx); err == nil {
				e.errorf("a release that never arrived has no error")
			}
			if g.Err() == nil {
				e.errorf("the guard is still trusted")
			}
			began := time.Now()
			e.acquire(e.client(e.b, nil), job)
			e.between("taken", time.Since(began), 0, expiry(e.TTL)+e.TTL/2)
		}},
		{"Close", "Closing a client releases all its leases, each by itself, and ends every wait.", caseClose},
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
		e.between("taken", time.Since(began), 0, e.long/2)
		if trust := g.Remaining(); trust > e.long-time.Since(began)+e.long/100 && e.Bubble {
			e.errorf("the lease is trusted for %v", trust)
		}
		e.must("Drain", fs.Drain(e.ctx))
		e.holds(g)
		e.held(e.client(e.b, nil), job)
		e.must("Renew", g.Renew(e.ctx))
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
	e.must("Drain", fs.Drain(e.ctx))
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
		e.fatalf("a lock was given, with token %d, while nothing could be read", other.Token())
	}
	e.holds(g)
	e.release(g)
	fs.Set(every(faultstore.WriteOp, "", faultstore.Fail))
	if _, err := e.client(fs, nil).TryAcquire(e.ctx, job, nil); err == nil || errors.Is(err, lease.ErrHeld) || store.OutcomeOf(err) != store.NotApplied {
		e.errorf("an acquire whose writes fail: %v", err)
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
			e.fatalf("two holders, with the tokens %d and %d", winner.Token(), g.Token())
		}
		e.fatalf("TryAcquire: %v, want ErrHeld", err)
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
	renew := func() { e.must("Renew", g.Renew(e.ctx)); e.holds(g) }

	fs.Set(first(faultstore.WriteOp, faultstore.Lose))
	renew()
	fs.Set(first(faultstore.WriteOp, faultstore.Drop))
	if err := g.Renew(e.ctx); errors.Is(err, lease.ErrLost) {
		e.fatalf("a renewal that did not arrive: %v", err)
	}
	renew()
	fs.Set(first(faultstore.WriteOp, faultstore.Fail))
	if err := g.Renew(e.ctx); err == nil || errors.Is(err, lease.ErrLost) {
		e.fatalf("a renewal that failed: %v", err)
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
	g, err := h.TryAcquire(e.ctx)
	e.must("TryAcquire", err)
	fs.Set(first(faultstore.WriteOp, faultstore.Lose))
	e.release(g)
	e.state(job, lease.Free)
	next, err := h.TryAcquire(e.ctx)
	e.must("TryAcquire", err)
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
	if err != nil {
		e.errorf("TryAcquire in between: %v", err)
	}
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
		e.errorf("one release failed, and Close has no error")
	}
	if err := <-waited; !errors.Is(err, lease.ErrClosed) {
		e.errorf("a waiting Acquire ended with %v, want ErrClosed", err)
	}
	for i, g := range guards {
		if g.Err() == nil {
			e.errorf("a guard of a closed client is still trusted")
		}
		if i > 0 {
			e.state(names[i], lease.Free)
		}
	}
	e.must("a second Close", c.Close(e.ctx))
	if _, err := c.TryAcquire(e.ctx, "two", nil); !errors.Is(err, lease.ErrClosed) {
		e.errorf("TryAcquire of a closed client: %v, want ErrClosed", err)
	}
	e.state("two", lease.Free)
}

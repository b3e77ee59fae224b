package lease

import (
	"context"

	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
)

// Handle takes and releases one lock. It is re-entrant: while it holds the lock, each Acquire and
// TryAcquire returns another guard of the same grant at once, without a request. The lease ends
// when the last of these guards is released. No other handle can hold the lock at the same time,
// not even a handle of the same process. A handle starts no goroutine and needs no Close. Any
// number of goroutines may use it.
type Handle struct {
	k holding.Holder
}

func (h *Handle) space() *cell.Space { return h.k.Cell.Space }

// job returns the job of a handle with LockOptions.Period, or nil.
func (h *Handle) job() *job {
	j, _ := h.k.Job.(*job)
	return j
}

// Name returns the name of the lock.
func (h *Handle) Name() string { return h.k.Name() }

// TryAcquire takes the lock if it is free, or if its holder is known to be dead. It does not
// wait. If another handle holds the lock, the error is a [*HeldError].
//
// If no other handle has held the lock since this handle's last grant, TryAcquire sends one
// write. Otherwise it sends at most a read and a write, and more if other clients write at the
// same time. If the outcome of the write is unknown, TryAcquire takes at most a TTL to find the
// outcome.
//
// The context bounds only the call. If the context ends later, the lease continues. If the context
// ends during the call, TryAcquire makes sure that no write of the call can be applied later, and
// then returns. That takes up to Options.ReleaseTimeout.
func (h *Handle) TryAcquire(ctx context.Context) (*Guard, error) {
	return h.take(ctx, h.k.TryAcquire)
}

// Acquire takes the lock. It waits until the lock is free, its holder is dead, or the context ends.
// If the context ends, the error matches its cause; if the lock was held, the error also matches
// [ErrHeld]. After a temporary error of the store, Acquire tries again, within
// Options.StoreTimeout. It returns all other errors. It never takes over an unreadable record. See
// [Handle.TryAcquire] for the use of the context.
//
// Goroutines that wait for one lock through one client take turns, in the order of arrival: the
// first reads the store for all of them. So together they send the requests of one waiter.
// Between clients there is no order.
//
// If a handle knows that other handles use the lock, it pauses before it takes the lock again, so
// that other handles can take it. The handle pauses for MaxPoll, or for 10 ms if the store reports
// changes. A handle cannot see waiters that never had the lock. So on a store that does not report
// changes, the handle pauses for a tenth of the time for which it held the lock, at most MaxPoll.
// If this tenth is less than MinPoll, the handle does not pause.
func (h *Handle) Acquire(ctx context.Context) (*Guard, error) {
	if err := h.waitsForItself(ctx); err != nil {
		return nil, err
	}
	return h.take(ctx, h.k.Acquire)
}

// take takes the lock with the function by, and returns what users see of the guard.
func (h *Handle) take(ctx context.Context, by func(context.Context) (*belief.Guard, error)) (guard *Guard, _ error) {
	ctx, done := h.trace(ctx, nil)
	g, err := by(ctx)
	if g != nil {
		guard = &Guard{h: h, b: g}
	}
	returned := false
	defer func() {
		if g != nil && !returned { // done has panicked, and the caller gets no guard
			_ = g.Release(context.WithoutCancel(ctx))
		}
	}()
	done(guard, err)
	returned = true
	return guard, err
}

// trace calls Options.Trace, if it is set.
func (h *Handle) trace(ctx context.Context, g *Guard) (context.Context, func(*Guard, error)) {
	trace, _ := h.space().Set.Trace.(func(context.Context, string, *Guard) (context.Context, func(*Guard, error)))
	if trace == nil {
		return ctx, func(*Guard, error) {}
	}
	return trace(ctx, h.Name(), g)
}

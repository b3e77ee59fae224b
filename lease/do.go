package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/store"
)

// Do acquires the lock with the given name, runs f while the client holds the lock, and releases
// the lock. It waits for the lock like [Client.Acquire], unless LockOptions.NoWait is set. It does
// the same as [Handle.Do] on a new handle.
func (c *Client) Do(ctx context.Context, name string, f func(ctx context.Context, g *Guard) error, o *LockOptions) error {
	return c.do(ctx, name, nil, f, o)
}

func (c *Client) do(ctx context.Context, name string, s *Session, f func(context.Context, *Guard) error, o *LockOptions) error {
	h, err := c.handle(name, s, o, methodDo)
	if err != nil {
		return err
	}
	guard, err := o.acquire(h, ctx)
	if err != nil {
		return err
	}
	return guard.do(ctx, f)
}

// Do acquires the lock like [Handle.Acquire], runs f once in the calling goroutine, and releases
// the lock. If Do does not get the lock, it returns the error of Acquire and does not run f.
//
// The context of f has the values and the deadline of the caller's context. It ends when the
// caller's context ends or the lease ends. If the lease ends, the reason is the cause of the
// context. When its context ends, f should stop:
//
//   - If the caller's context ends, Do renews the lease until f has returned, without a time limit.
//   - If the lease is lost, f has Options.Grace to stop before another client may hold the lock.
//   - [Client.Close] frees the lock at once. So before Close, end the caller's context and wait for
//     Do.
//   - If a waiter asks the holder to yield (see [Client.RequestYield]), the context of f ends,
//     unless [LockOptions.OnYieldRequest] is [IgnoreYieldRequests]. Do keeps the lock until f has
//     returned.
//   - If f releases or detaches its guard, its context ends, and f continues without the lock.
//
// Do returns nil only if f returned nil, the lease lasted until then, and the lock was released.
// Otherwise the error matches each of these that applies:
//
//   - [ErrLost]: the lease was lost before f returned, so another holder may have worked at the
//     same time. If the client was closed before f returned, the error matches [ErrClosed]
//     instead.
//   - The cause of the caller's context: that context ended, and f returned an error.
//   - [ErrYieldRequested]: a waiter asked the holder to yield, and f returned an error.
//   - The error of f. If f stopped because of a lost lease or a request to yield, the error does
//     not match [context.Canceled], because the caller has cancelled nothing.
//   - [ErrReleaseFailed]: the release failed, or its outcome is unknown. If the error matches
//     only this one, f returned nil.
//
// The release also works after the end of the caller's context; see [Guard.Release]. If f panics or
// ends its goroutine, Do releases the lock.
//
// If f passes its context to a Do or Acquire of another handle for the same lock, that call would
// wait for the guard of f for ever. So it returns [store.ErrInvalid]. A call of the same handle
// returns another guard of the same grant at once.
func (h *Handle) Do(ctx context.Context, f func(ctx context.Context, g *Guard) error) error {
	guard, err := h.Acquire(ctx)
	if err != nil {
		return err
	}
	return guard.do(ctx, f)
}

// do runs f and releases the guard.
func (g *Guard) do(ctx context.Context, f func(context.Context, *Guard) error) (err error) {
	w := g.b.NewWork()
	stop := context.AfterFunc(g.Context(), func() { w.End(g.Err()) })
	ignore := func() bool { return true }
	if YieldPolicy(g.h.k.Opts.OnYieldRequest) == YieldOnRequest {
		ignore = context.AfterFunc(g.b.Grant().YieldContext(), func() { w.End(g.yieldsOnRequest()) })
	}
	returned := false
	defer func() { // if f panics, too
		if !returned {
			err = errNotReturned
		}
		g.SetRunResult(err)
		stop()
		ignore()
		over := g.Err()
		var asked error // why ctx asked f to stop
		if ctx.Err() != nil {
			asked = context.Cause(ctx)
		}
		w.End(ErrReleased)
		err = result(err, asked, context.Cause(w.Context), over, g.Release(ctx))
		if g.h.job() != nil && err == nil && (over == ErrReleased || over == ErrDetached) {
			err = fmt.Errorf("%w before the function returned: the record of the job does not say how the run ended", over)
		}
	}()
	err = f(w, g)
	returned = true
	return err
}

// errNotReturned is what the record of a job says after a panic.
var errNotReturned = errors.New("the function did not return, because it panicked or its goroutine ended")

// result is the error of a Do: own is the error of f, and asked and over say why the caller's context
// and the lease had ended when f returned, if they had, ended why the context of f had, and
// release the error of the release.
func result(own, asked, ended, over, release error) error {
	var why error
	switch {
	case errors.Is(release, ErrLost):
		why = release
	case errors.Is(over, ErrClosed):
		why = over
	case own != nil && asked == nil && errors.Is(ended, ErrYieldRequested):
		why = ended
	case own != nil:
		why = asked
	}
	if own != nil && why != nil && asked == nil {
		own = stopped{own}
	}
	switch {
	case why == nil || errors.Is(own, why):
		why = own
	case own != nil:
		why = fmt.Errorf("%w: %w", why, own)
	}
	if release != nil && !errors.Is(release, ErrLost) {
		release = fmt.Errorf("%w: %w", ErrReleaseFailed, release)
		if why != nil {
			return errors.Join(why, release)
		}
		return release
	}
	return why
}

// stopped is the error of a function that the loss of its lease, or an ask, has stopped. It does not
// match [context.Canceled]: the caller has canceled nothing.
type stopped struct{ err error }

func (e stopped) Error() string { return e.err.Error() }

// Is matches what the error of the function matches, but for the end of its context.
func (e stopped) Is(target error) bool {
	return target != context.Canceled && errors.Is(e.err, target)
}

// As finds what the error of the function has.
func (e stopped) As(target any) bool { return errors.As(e.err, target) }

// waitsForItself refuses to wait for a lock that a function around ctx holds, or whose guard's
// context ctx is made of, through another handle: it would wait until ctx ends.
func (h *Handle) waitsForItself(ctx context.Context) error {
	if g := belief.HeldAround(ctx, &h.k.Cell); g != nil {
		return fmt.Errorf("%w: the caller holds lock %q already, in this function or through the guard of this context (token %d), so the wait would never end", store.ErrInvalid, h.k.Name(), g.Token())
	}
	return nil
}

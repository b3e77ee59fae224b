package lease

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Guard is the proof of holding a lock. Work that it guards runs under its
// context, and passes its token to every store that can refuse an old one. A guard
// may be used by any number of goroutines.
//
// Trust in the lease ends TTL minus margin minus grace after the last renewal that
// is known to have been applied was sent. No other client takes the lock before the
// TTL has passed.
type Guard struct {
	g *grant

	// Guarded by the mutex of the grant.
	ctx    context.Context         // its values are the guard's; with cancel it is the guard's own
	cancel context.CancelCauseFunc // nil until the context is needed
	cause  error                   // why the guard has ended, nil until it has

	wasLastHolder bool // no other handle has held the lock since the guard before
	released      bool // guarded in the same way
	last          bool // guarded in the same way: it was the last guard of the grant that was released
}

// Handle returns the handle that the guard was acquired through.
func (g *Guard) Handle() *Handle { return g.g.h }

// Grace returns how long guarded work may take to stop after the guard's context
// has ended.
func (g *Guard) Grace() time.Duration { return g.g.c.set.Grace }

// GraceRemaining returns how much of the grace is left for guarded work to stop in: all of
// it while the lease is trusted, what the TTL leaves of it after the lease has expired or
// was broken, and nothing when another may hold the lock at once: it was stolen, removed,
// broken with immediate effect, released, closed or detached.
func (g *Guard) GraceRemaining() time.Duration {
	gr := g.g
	gr.check()
	now, sent := gr.c.clock.sinceStart(), gr.lastSent()
	gr.mu.Lock()
	defer gr.mu.Unlock()
	if gr.taken {
		return 0
	}
	set := gr.c.set
	return max(0, min(set.Grace, sent+set.TTL-set.Margin-now))
}

// Name returns the lock's name.
func (g *Guard) Name() string { return g.g.h.name }

// Token returns the fencing token of the grant. It is greater than that of every
// earlier grant of this lock, and stays the same when the lease is renewed. It
// can be read when the lease is over; compare [Guard.Err].
func (g *Guard) Token() uint64 {
	g.g.check()
	return g.g.token
}

// Context returns a context that carries the values of the one the lock was
// acquired with, and ends when the lease does or this guard is released. Its cause
// is [ErrReleased], [ErrClosed], [ErrDetached] or a [*LostError]. Its Err looks at
// the clocks itself. An Acquire of the same lock with this context, or one made of it,
// through another handle would wait for this guard: it is refused with [store.ErrInvalid].
func (g *Guard) Context() context.Context {
	g.g.check()
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	if g.cancel == nil {
		inner, cancel := context.WithCancelCause(context.WithoutCancel(g.ctx))
		if g.ctx, g.cancel = (guardContext{inner, g}), cancel; g.cause != nil {
			cancel(g.cause)
		}
	}
	return g.ctx
}

// end ends the guard. The caller holds the mutex of the grant.
func (g *Guard) end(cause error) {
	if g.cause != nil {
		return
	}
	g.cause = cause
	if g.cancel != nil {
		g.cancel(cause)
	}
}

// Err returns nil while the lease is trusted and this guard was not released, and
// else the cause of its context. It looks at the clocks and sends nothing.
func (g *Guard) Err() error {
	g.g.check()
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return g.cause
}

// Deadline returns when trust ends if no further renewal succeeds, by this
// machine's wall clock as it is now: for display. Work has Options.Grace more to
// stop in.
func (g *Guard) Deadline() time.Time { return g.g.deadline() }

// Remaining returns how long the lease is still trusted if no further renewal
// succeeds; zero when it is over.
func (g *Guard) Remaining() time.Duration { return g.g.check() }

// WasLastHolder reports whether no other handle has held the lock since this handle's
// last grant, so that what was cached under that grant is still good. It is false
// for the first grant of a handle, and whenever it is not certain.
func (g *Guard) WasLastHolder() bool { return g.wasLastHolder }

// Data returns a copy of the data in the record, nil if there is none: what was
// set last, by this or an earlier grant.
func (g *Guard) Data() []byte {
	g.g.mu.Lock()
	defer g.g.mu.Unlock()
	return bytes.Clone(g.g.tries.rec.Data)
}

// SetData stores data in the record, durably, where every client can read it with
// [Client.Inspect]; nil removes it. Readers and holders of slots are refused, with
// [store.ErrInvalid]. It lasts beyond the grant. The write renews
// the lease, too. More than [MaxData] bytes are refused with [store.ErrTooLarge]. An
// error that is no [ErrLost] leaves it open whether the data was or will be stored,
// unless [store.OutcomeOf] says that it was not.
func (g *Guard) SetData(ctx context.Context, data []byte) error {
	if err := g.Err(); err != nil {
		return err
	}
	if g.g.isMember() {
		return fmt.Errorf("%w: lock %q: its data belongs to a holder that has it alone", store.ErrInvalid, g.Name())
	}
	data = bytes.Clone(data)
	return g.rewrite(ctx, func(r *Record) error { return r.setData(data) }, func() bool { return bytes.Equal(g.Data(), data) })
}

// rewrite changes the record of the grant, until done says that it is changed.
func (g *Guard) rewrite(ctx context.Context, change func(*Record) error, done func() bool) error {
	unclear := false // whether a write may yet be applied
	pause := g.g.c.backoff(g.g.c.set.MinPoll, g.g.c.set.MaxPoll)
	for {
		err := g.g.renew(ctx, true, change)
		if err == nil && done() {
			return nil
		}
		unclear = unclear || err != nil && store.OutcomeOf(err) == store.Unknown
		if err == nil || g.Err() == nil && !store.Permanent(err) && ctx.Err() == nil {
			// This write was not applied, or an earlier one was.
			if waited := pause.wait(ctx); waited == nil {
				continue
			} else if err == nil {
				err = waited
			}
		}
		if unclear {
			err = store.MarkUnknown(fmt.Errorf("%w: %w", ErrUnresolved, err))
		}
		return err
	}
}

// AllowRerun makes the release of this guard's grant take back [Options.MinInterval], and the run
// of a job (see [Client.Once]), in the same request: the next grant may begin at once, and the
// run does not count. It is for work that was not done.
func (g *Guard) AllowRerun() { g.g.rerunAllowed.Store(true) }

// Renew renews the lease now, in one request, besides the renewals that a guard
// makes by itself. With Options.ManualRenewal it is the only one. An error that matches
// [ErrLost] ends the lease; after any other it lasts until its deadline, and Renew
// can be called again. A store that does not answer is waited for until ctx or the trust
// ends.
func (g *Guard) Renew(ctx context.Context) error {
	if err := g.Err(); err != nil {
		return err
	}
	if s := g.g.h.under; s != nil {
		err := s.Renew(ctx)
		return cmp.Or(g.Err(), err)
	}
	return g.g.renew(ctx, true, nil)
}

// Release ends this guard, its context first. The last guard of a grant ends the
// renewals, waits for a write in flight, and frees the lock in the store; but for a handle
// with [LockOptions.Linger], which keeps the lease for that time.
//
// Of ctx only the values count. Release works when ctx has ended already, and a deadline
// of ctx does not shorten it: a release with a moment left would leave the lock taken for
// a TTL, where one that comes after the deadline frees it. The call is bounded by
// Options.ReleaseTimeout.
//
// A nil error means that the lock was freed, that it is kept, or that other guards of the
// handle stay valid. A [*LostError] says that the lease had been lost before. Any other error
// says that the store may not know yet, and others wait until the lease expires;
// for this program the lease is over in every case. Calling it again returns the
// same.
func (g *Guard) Release(ctx context.Context) error {
	g.g.check()
	gr := g.g
	most := gr.h.opts.Linger
	gr.mu.Lock()
	if gr.tries.rec.Linger == 0 { // it was handed over: others do not know that asking pays
		most = 0
	}
	if !g.released {
		g.end(ErrReleased)
		gr.guards = slices.DeleteFunc(gr.guards, func(other *Guard) bool { return other == g })
		g.released, g.last = true, len(gr.guards) == 0 && !gr.becomeIdle(most)
		gr.releasing = gr.releasing || g.last
	}
	last, cause := g.last, g.cause
	gr.mu.Unlock()
	if last {
		return gr.release(ctx, ErrReleased)
	}
	return lostOnly(cause)
}

func lostOnly(err error) error {
	if lost, ok := err.(*LostError); ok {
		return lost
	}
	return nil
}

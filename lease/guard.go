package lease

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/store"
)

// Guard is the proof that a client holds a lock. Run the guarded work under the guard's context,
// and pass its token to every store that can refuse lower tokens. Any number of goroutines may
// use a guard.
//
// The trust in the lease ends TTL - Margin - Grace after the client sent its last renewal that is
// known to be applied. No other client takes the lock before the TTL has passed.
type Guard struct {
	h *Handle
	b *belief.Guard
}

// Handle returns the handle of the guard.
func (g *Guard) Handle() *Handle { return g.h }

// Grace returns Options.Grace: the time within which guarded work must stop after the end of the
// guard's context.
func (g *Guard) Grace() time.Duration { return g.h.space().Set.Grace }

// GraceRemaining returns how much of the grace is left. While the lease is trusted, the result is
// the whole grace. After the lease has expired or was broken, the result is the rest of the
// grace. The result is zero if another client may already hold the lock: the lock was taken over,
// the record was removed, or the grant was broken with immediate effect. After a release, a close
// or a detach the result is zero, too.
func (g *Guard) GraceRemaining() time.Duration { return g.b.Grant().GraceRemaining() }

// Name returns the name of the lock.
func (g *Guard) Name() string { return g.h.k.Name() }

// Token returns the fencing token of the grant. It is higher than the token of every earlier
// grant of this lock, and renewals do not change it. A reader has the token of the last writer.
// After the end of the lease, Token still returns this token; see [Guard.Err].
func (g *Guard) Token() uint64 {
	g.b.Grant().Check()
	return g.b.Grant().Token()
}

// Context returns a context that ends when the lease ends or this guard is released. It has the
// values of the context that was passed to Acquire or TryAcquire. Its cause is [ErrReleased],
// [ErrClosed], [ErrDetached] or a [*LostError]. Its method Err also checks the clocks. If the work
// passes this context to an Acquire of the same lock through another handle, the Acquire would wait
// for this guard for ever. So it returns [store.ErrInvalid].
func (g *Guard) Context() context.Context { return g.b.Context() }

// While the lease is trusted and this guard is not released, Err returns nil. Later it returns the
// cause of the guard's context. Err checks the clocks and sends no request.
func (g *Guard) Err() error { return g.b.Err() }

// Deadline returns the time at which the trust ends if no further renewal succeeds. The time is
// by this machine's present wall clock, for display. After the deadline, the work has
// Options.Grace to stop.
func (g *Guard) Deadline() time.Time { return g.b.Grant().Deadline() }

// Remaining returns how long the lease is still trusted if no further renewal succeeds. It is
// zero when the lease is over.
func (g *Guard) Remaining() time.Duration { return g.b.Grant().Check() }

// WasLastHolder reports whether no other handle has held the lock since this handle's last grant.
// If the result is true, data that the program cached during that grant is still valid. The
// result is false for the first grant of a handle, and if the client is not certain.
func (g *Guard) WasLastHolder() bool { return g.b.WasLastHolder() }

// TakeoverReason returns why the grant of this guard could end another grant that had not been released; see
// [EventTakenOver]. It is empty if there was no such grant.
func (g *Guard) TakeoverReason() string { return g.b.Grant().TakeoverReason() }

// Data returns a copy of the data in the record, or nil if there is none. This grant or an
// earlier grant has written the data.
func (g *Guard) Data() []byte { return bytes.Clone(g.b.Grant().Record().Data) }

// SetData stores data durably in the record. Every client can read the data with [Client.Inspect].
// Nil removes the data. The data remains after the end of the grant. The write also renews the
// lease. If data has more than [MaxData] bytes, the error matches [store.ErrTooLarge]. For the
// guards of readers and of slots, the error matches [store.ErrInvalid]. If the error does not match
// [ErrLost], [store.OutcomeOf] says whether the data was certainly not stored.
func (g *Guard) SetData(ctx context.Context, data []byte) error {
	if err := g.Err(); err != nil {
		return err
	}
	if g.b.Grant().IsMember() {
		return fmt.Errorf("%w: lock %q has several holders; only a holder that has the lock alone can write data", store.ErrInvalid, g.Name())
	}
	data = bytes.Clone(data)
	return g.rewrite(ctx, func(r *Record) error { return lockrec.SetData(r, data) }, func() bool { return bytes.Equal(g.Data(), data) })
}

// rewrite changes the record of the grant, until done says that it is changed.
func (g *Guard) rewrite(ctx context.Context, change func(*Record) error, done func() bool) error {
	unclear := false // whether a write may yet be applied
	pause := g.h.space().Backoff(g.h.space().Set.MinPoll, g.h.space().Set.MaxPoll)
	for {
		err := g.b.Grant().Renew(ctx, true, change)
		if err == nil && done() {
			return nil
		}
		unclear = unclear || err != nil && store.OutcomeOf(err) == store.Unknown
		if err == nil || g.Err() == nil && !store.Permanent(err) && ctx.Err() == nil {
			// This write was not applied, or an earlier one was.
			if waited := pause.Wait(ctx); waited == nil {
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

// AllowRerun is for work that was not done: call it before the release. Then the next grant may
// begin at once after the release, even if Options.MinInterval is set. If the grant is a run of a
// job (see [Client.Once]), the run does not count, and the job can run again in the same period.
// The release needs no further request for this.
func (g *Guard) AllowRerun() { g.b.Grant().AllowRerun() }

// Renew renews the lease now, in one request. Without Options.ManualRenewal the client also renews
// the lease automatically. An error that matches [ErrLost] ends the lease. After any other error
// the lease lasts until its deadline, and the caller may call Renew again. If the store does not
// answer, Renew waits until its own context or the guard's context ends.
func (g *Guard) Renew(ctx context.Context) error {
	if err := g.Err(); err != nil {
		return err
	}
	if s := g.h.k.Under; s != nil {
		err := s.Renew(ctx)
		return cmp.Or(g.Err(), err)
	}
	return g.b.Grant().Renew(ctx, true, nil)
}

// Release ends the context of this guard, and then the guard. If no other guard of the grant is
// left, Release ends the renewals, waits for a write in flight, and frees the lock in the store. A
// handle with LockOptions.Linger frees the lock only after that time.
//
// Release also works after the end of its context. It ignores the context's deadline, because a
// release without enough time would leave the lock held for a TTL. It uses the values of the
// context. Release takes at most Options.ReleaseTimeout, and a moment for the store to return.
//
// A nil error means one of three things: the lock is free, its handle keeps it (Linger), or other
// guards of the grant are left. A [*LostError] says that the lease was lost before. After any other
// error the lock may still be held in the store, and other clients wait until the lease expires. In
// all cases the lease is over for this program. A second call returns the same error.
func (g *Guard) Release(ctx context.Context) error {
	ctx, done := g.h.trace(ctx, g)
	err := g.b.Release(ctx)
	done(g, err)
	return err
}

// Slot returns the number of the guard's slot of a semaphore; the first slot has the number 1.
// No other grant has that slot until the guard is released or lost. If the lock is not a
// semaphore, Slot returns 0.
func (g *Guard) Slot() int { return g.b.Grant().Slot() }

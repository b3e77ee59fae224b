package trylock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Guard is the proof that a handle has its lock. Run the guarded work under the guard's context, and pass its
// token to every store that can refuse lower tokens. Any number of goroutines may use a guard.
type Guard struct {
	grant  *grant
	ctx    context.Context // without the clocks
	cancel context.CancelCauseFunc

	released, last bool // guarded by the mutex of the grant
}

// Name returns the key of the lock.
func (g *Guard) Name() string { return g.grant.h.key }

// Token returns the generation of the grant. It is higher than the token of every earlier grant of this lock, and
// renewals do not change it. If the backend has no generation, the token is 0: then it is no fencing token.
func (g *Guard) Token() uint64 { return g.grant.generation }

// WasLastHolder reports whether no other handle has held the lock since this handle's last grant. If the result is
// true, data that the program cached during that grant is still valid. The result is false for the first grant of
// a handle, if the client is not certain, and if the backend has no generation.
func (g *Guard) WasLastHolder() bool { return g.grant.wasLast }

// Context returns a context that ends when the lease ends or this guard is released. It has the values of the
// context that was passed to Acquire or TryAcquire. Its cause is [lease.ErrReleased] or a [*lease.LostError] with
// the reason [lease.ErrExpired] or [lease.ErrTakenOver]. Its method Err also checks the clocks.
func (g *Guard) Context() context.Context { return guardContext{g.ctx, g} }

// Err returns nil while the lease is trusted and this guard is not released. Later it returns the cause of the
// guard's context. Err checks the clocks and sends no request.
func (g *Guard) Err() error {
	g.grant.check()
	return context.Cause(g.ctx)
}

// Remaining returns how long the lease is still trusted if no further renewal succeeds. It is zero when the lease
// is over.
func (g *Guard) Remaining() time.Duration { return g.grant.check() }

// Release ends the context of this guard. If no other guard of the grant is left, Release ends the renewals and
// frees the lock in the store. It also works after the end of its context, and takes at most
// Options.ReleaseTimeout and a moment for the backend to return.
//
// A nil error means that the lock is free, or that other guards of the grant are left. A [*lease.LostError] says
// that the lease was lost before. After any other error the lock may stay held until the TTL is over. In all cases
// the lease is over for this program. A second call returns the same error.
func (g *Guard) Release(ctx context.Context) error {
	gr := g.grant
	gr.check()
	gr.mu.Lock()
	first := !g.released
	if first {
		g.released = true
		g.cancel(lease.ErrReleased) // without effect if the lease is lost
		delete(gr.guards, g)
		g.last = len(gr.guards) == 0
		gr.releasing = gr.releasing || g.last
	}
	gr.mu.Unlock()
	switch {
	case g.last && first:
		gr.result = gr.release(ctx)
		close(gr.over)
		return gr.result
	case g.last:
		<-gr.over
		return gr.result
	}
	if lost := (*lease.LostError)(nil); errors.As(context.Cause(g.ctx), &lost) {
		return lost
	}
	return nil
}

// guardContext is a context that reads the clocks each time it is queried: a process may be stopped past the end of
// its lease, and its timers may fire late.
type guardContext struct {
	context.Context
	guard *Guard
}

// Err implements context.Context.
func (c guardContext) Err() error {
	c.guard.grant.check()
	return c.Context.Err()
}

// grant is one period in which a handle has its lock. The guards of the handle share it.
type grant struct {
	h          *Handle
	id         string // the holder of the lock in the store
	generation uint64
	wasLast    bool
	stop       context.CancelFunc // ends the renewals
	renewed    chan struct{}      // closed when the goroutine of the renewals has ended
	over       chan struct{}      // closed when the release is over
	result     error              // of the release, once it is over

	mu        sync.Mutex      // never held across a call
	sent      time.Duration   // when the last call was sent that is known to be applied
	ended     error           // why the grant ended; nil while it is trusted
	problem   error           // of the last renewal
	hangs     bool            // a renewal was left behind
	guards    map[*Guard]bool // those that are not released
	releasing bool            // every guard was released
	timer     *time.Timer     // reads the clocks
}

func newGrant(ctx context.Context, h *Handle, id string, generation uint64, wasLast bool, sent time.Duration) *grant {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	g := &grant{
		h: h, id: id, generation: generation, wasLast: wasLast, stop: stop, sent: sent,
		renewed: make(chan struct{}), over: make(chan struct{}), guards: map[*Guard]bool{},
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(h.set.checkInterval(), g.tick)
	go g.renew(ctx)
	return g
}

// tick reads the clocks. It waits for no call.
func (g *grant) tick() {
	left := g.check()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.timer.Reset(max(time.Millisecond, min(g.h.set.checkInterval(), left)))
	}
}

// check ends the grant if its time is over, and returns the trust that is left.
func (g *grant) check() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.checkLocked()
}

func (g *grant) checkLocked() time.Duration {
	if g.ended != nil {
		return 0
	}
	left := g.sent + g.h.set.trust() - g.h.clock.SinceStart()
	if left <= 0 {
		g.loseLocked(lease.ErrExpired, g.problem)
	}
	return max(left, 0)
}

// loseLocked ends a grant that was not released, unless it has ended before.
func (g *grant) loseLocked(reason, cause error) {
	g.endLocked(&lease.LostError{Name: g.h.key, Token: g.generation, Reason: reason, Cause: cause})
}

// endLocked ends the grant: the contexts of all guards first, then the renewals.
func (g *grant) endLocked(cause error) {
	if g.ended != nil {
		return
	}
	g.ended = cause
	for guard := range g.guards {
		guard.cancel(cause)
	}
	g.timer.Stop()
	g.stop()
}

// join returns another guard of the grant, or nil if the grant is over.
func (g *grant) join(ctx context.Context) *Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.releasing || g.checkLocked() <= 0 {
		return nil
	}
	guard := &Guard{grant: g}
	guard.ctx, guard.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g.guards[guard] = true
	return guard
}

// renew renews the lease until the grant ends.
func (g *grant) renew(ctx context.Context) {
	defer close(g.renewed)
	for failures := 0; ; {
		if backoff.Sleep(ctx, g.pause(failures)) != nil {
			return
		}
		left := g.check()
		if left <= 0 {
			return
		}
		sent := g.h.clock.SinceStart()
		// A call that hangs is left behind only when the grant ends: calls of one grant follow each other.
		inTime, cancel := context.WithTimeout(ctx, max(left/2, g.h.set.TTL/10))
		r, err := g.h.call(inTime, ctx, g.id, g.h.set.TTL)
		cancel()
		isOurs := r.obtained && r.generation == g.generation
		g.mu.Lock()
		switch {
		case err != nil:
			failures++
			g.problem, g.hangs = err, r.hangs
		case !isOurs:
			g.loseLocked(lease.ErrTakenOver, nil)
		case g.checkLocked() > 0: // a later reply does not count: another holder may have had the lock
			failures, g.sent, g.problem = 0, sent, nil
		}
		g.mu.Unlock()
		if r.obtained && !isOurs { // another holder has had the lock, and this call has taken it
			_, _ = g.h.free(ctx, g.id, sent+g.h.set.trust())
		}
	}
}

// pause is the time until the next renewal.
func (g *grant) pause(failures int) time.Duration {
	set := &g.h.set
	if failures > 0 {
		return backoff.Jittered(failures, set.MinPoll, max(set.MinPoll, min(set.RenewInterval, g.check()/3)))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	jitter := 1 + renewalJitter*(2*rand.Float64()-1)
	return g.sent + time.Duration(jitter*float64(set.RenewInterval)) - g.h.clock.SinceStart()
}

// release frees the lock after the last guard was released.
func (g *grant) release(ctx context.Context) error {
	g.mu.Lock()
	g.endLocked(lease.ErrReleased)
	deadline := g.sent + g.h.set.trust()
	g.mu.Unlock()
	<-g.renewed
	if g.ended != lease.ErrReleased { // neither changes any more
		return g.ended
	}
	r, err := g.h.free(ctx, g.id, deadline)
	switch {
	case err == nil && (!r.obtained || r.generation != 0 && r.generation != g.generation):
		return &lease.LostError{Name: g.h.key, Token: g.generation, Reason: lease.ErrTakenOver}
	case err == nil && g.hangs:
		err = fmt.Errorf("%w: a renewal has not returned", store.ErrUnavailable)
	case err == nil:
		return nil
	}
	return store.MarkUnknown(fmt.Errorf("the release of lock %q is not confirmed, so it can stay held for %v: %w", g.h.key, g.h.set.TTL, err))
}

package trylock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Backend is a store with a try-lock. Any number of goroutines may use it.
type Backend interface {
	// TryLock takes or renews the lock with this key for this holder, in one atomic step of the store:
	//
	//   - If no holder has the lock, or the lease of its holder has expired, this holder gets a lease with this
	//     duration.
	//   - If this holder has the lock, or was its last holder, its lease now ends after this duration. It ends
	//     earlier than before if the duration is shorter. With the duration 0 it ends at once.
	//   - If the lease of another holder has not expired, TryLock changes nothing. obtained is false.
	//
	// The duration is in whole milliseconds. No lease ends before its duration is over, counted from the
	// beginning of the call that was applied last. If obtained is true, the generation is a number that rises by
	// one whenever the holder changes, and never returns to a lower number. A call of the same holder does not
	// change it. The first generation is 1 or more. A backend without a generation returns 0.
	//
	// After an error, the call may have been applied, unless the error matches [store.ErrInvalid] or states
	// in another way that it was not applied; see [store.OutcomeOf]. TryLock returns soon after the end of its
	// context. The store may apply a call after TryLock has returned only if the duration begins when the store
	// applies the call. Otherwise a late call would make the lease of a later call shorter. So a backend that
	// computes the end of the lease by the clock of the caller applies no call after its return.
	TryLock(ctx context.Context, key, holder string, duration time.Duration) (generation uint64, obtained bool, err error)
}

// Handle takes and releases one lock. Any number of goroutines may use it. While it has the lock, each Acquire
// and TryAcquire returns another guard of the same grant at once, without a request. No other handle has the lock
// at the same time, not even a handle of the same process. A handle needs no Close.
type Handle struct {
	backend Backend
	key     string
	set     Options
	clock   *sysclock.Clock
	calls   abandon.Calls

	turn chan struct{} // has room for the goroutine that tries to take the lock
	poll chan struct{} // has room for the goroutine that waits for other holders

	// The goroutine that has the turn uses these three.
	id      string        // of the next grant: no call that ends a lease, and no call that hangs, has this id
	inDoubt bool          // an attempt with this id has no certain result
	tried   time.Duration // when the last such attempt was sent

	mu    sync.Mutex    // never held across a call
	grant *grant        // the last one; nil before the first
	began chan struct{} // closed when the next grant begins
	last  uint64        // the generation of the last grant
}

// New returns a handle for the lock with that key. A key has 1 to [MaxKey] bytes of UTF-8 text. Nil options mean
// the defaults. An error matches [store.ErrInvalid]. New sends no request.
func New(backend Backend, key string, opts *Options) (*Handle, error) {
	set, err := checked(key, opts)
	if err != nil {
		return nil, err
	}
	h := &Handle{
		backend: backend, key: key, set: set, clock: sysclock.NewClock(sysclock.Read, sysclock.ReadAwake),
		turn: make(chan struct{}, 1), poll: make(chan struct{}, 1), began: make(chan struct{}),
	}
	h.renewID()
	return h, nil
}

// Name returns the key of the lock.
func (h *Handle) Name() string { return h.key }

// TryAcquire takes the lock if the store gives it, with one call. It does not wait for other holders: if another
// holder has the lock, the error matches [lease.ErrHeld].
//
// The context bounds only the call. If the context ends later, the lease continues. If it ends first, the error contains
// its [store.Cause]. If the call has no certain result, TryAcquire frees the lock, which takes at most
// Options.ReleaseTimeout and a moment for the backend to return. If that succeeds, or if the store applied no call,
// [store.OutcomeOf] returns [store.NotApplied] for the error. Otherwise the lock can stay held until the TTL is over.
func (h *Handle) TryAcquire(ctx context.Context) (*Guard, error) {
	guard, _, err := h.attempt(ctx, true)
	return guard, err
}

// Acquire takes the lock. It waits until the store gives the lock. If the context ends first, the error contains the
// [store.Cause] of the context, and matches [lease.ErrHeld] if the last reply said that another holder has the lock. After an
// error of the backend, Acquire tries again, unless [store.Permanent] says that this does not help. Each call
// begins with short pauses; see [Options].MinPoll. Of all goroutines that wait through one handle, one sends
// requests. See [Handle.TryAcquire] for the use of the context, and for calls without a certain result.
func (h *Handle) Acquire(ctx context.Context) (*Guard, error) {
	select {
	case h.poll <- struct{}{}:
		defer func() { <-h.poll }()
		return h.wait(ctx)
	case <-ctx.Done():
		return nil, store.MarkNotApplied(fmt.Errorf("lock %q: %w", h.key, store.Cause(ctx)))
	}
}

// wait is [Handle.Acquire] for the goroutine that sends the requests.
func (h *Handle) wait(ctx context.Context) (*Guard, error) {
	for try, inDoubt := 1, false; ; try++ {
		h.mu.Lock()
		began := h.began
		h.mu.Unlock()
		guard, isHeld, err := h.attempt(ctx, false)
		switch {
		case err == nil:
			return guard, nil
		case isHeld:
			inDoubt = false
		case store.OutcomeOf(err) != store.NotApplied:
			inDoubt = true
		}
		again := !store.Permanent(err)
		if again && backoff.SleepOrWake(ctx, backoff.Jittered(try, h.set.MinPoll, h.set.MaxPoll), began) == nil {
			continue
		}
		if again {
			err = fmt.Errorf("%w; the last attempt: %w", store.Cause(ctx), err)
		}
		if inDoubt {
			return nil, h.giveUp(ctx, err)
		}
		return nil, h.marked(err)
	}
}

// attempt joins the grant of the handle, or makes one call to take the lock. If the call has no certain result,
// only frees the lock if the caller makes no other attempt. isHeld says that the reply named another holder: an error
// of the backend is no such reply, whatever it matches.
func (h *Handle) attempt(ctx context.Context, only bool) (guard *Guard, isHeld bool, err error) {
	fail := func(err error) (*Guard, bool, error) {
		return nil, err == lease.ErrHeld, store.MarkNotApplied(fmt.Errorf("lock %q: %w", h.key, err))
	}
	if err := store.Cause(ctx); err != nil {
		return fail(err)
	}
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return fail(store.Cause(ctx))
	}
	if guard := h.join(ctx); guard != nil {
		return guard, false, nil
	}
	sent := h.clock.SinceStart()
	inTime, cancel := context.WithTimeout(ctx, min(h.set.trust()/2, maxCall))
	defer cancel()
	r, err := h.call(inTime, inTime, h.id, h.set.TTL)
	if err == nil && !r.obtained {
		h.inDoubt = false // no earlier attempt has the lock
		return fail(lease.ErrHeld)
	}
	if err == nil {
		if guard, err = h.begin(ctx, r.generation, sent); err == nil {
			return guard, false, nil
		}
	}
	err = fmt.Errorf("lock %q: %w", h.key, err)
	if r.hangs {
		h.renewID() // the goroutine of the call frees the lock
	} else if r.obtained || store.OutcomeOf(err) != store.NotApplied {
		h.inDoubt, h.tried = true, sent
	}
	if only {
		if cause := store.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w; %w", cause, err)
		}
		err = h.resolve(ctx, err)
	}
	return nil, false, err
}

// begin begins the grant of an attempt that has obtained the lock. It refuses a generation that is not new, and a
// reply after the end of the trust. The caller has the turn.
func (h *Handle) begin(ctx context.Context, generation uint64, sent time.Duration) (*Guard, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if generation != 0 && generation <= h.last {
		return nil, fmt.Errorf("%w: its generation went from %d to %d, so it is no token: its record was removed or restored; make a new handle",
			store.ErrCorrupt, h.last, generation)
	}
	g := newGrant(ctx, h, h.id, generation, h.last != 0 && generation == h.last+1, sent)
	guard := g.join(ctx)
	if guard == nil {
		return nil, fmt.Errorf("%w: the reply came after the end of the trust in the lease", store.ErrUnavailable)
	}
	h.renewID()
	h.grant, h.last = g, generation
	close(h.began)
	h.began = make(chan struct{})
	return guard, nil
}

// giveUp is called at the end of a wait without success. It frees the lock if an attempt may have taken it.
func (h *Handle) giveUp(ctx context.Context, err error) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
		return h.resolve(ctx, err)
	default: // a TryAcquire makes an attempt with the same id, and resolves it
		return store.MarkUnknown(err)
	}
}

// resolve frees the lock if an attempt may have taken it, and marks err with the outcome. The caller has the turn.
func (h *Handle) resolve(ctx context.Context, err error) error {
	if h.inDoubt {
		id := h.id
		h.renewID()
		if _, problem := h.free(ctx, id, h.tried+h.set.trust()); problem != nil {
			return store.MarkUnknown(fmt.Errorf("%w; the lock can stay held for %v: %w", err, h.set.TTL, problem))
		}
	}
	return h.marked(err)
}

// marked returns the error of an attempt, of which no call can take the lock any more except those that hang.
func (h *Handle) marked(err error) error {
	if h.calls.Abandoned() > 0 {
		return store.MarkUnknown(err)
	}
	return store.MarkNotApplied(err)
}

// renewID makes another holder id. The caller has the turn.
func (h *Handle) renewID() {
	h.id, h.inDoubt = rand.Text(), false
	if h.set.Holder != "" {
		h.id = h.set.Holder + " " + h.id
	}
}

// join returns a guard of the present grant, or nil if there is none.
func (h *Handle) join(ctx context.Context) *Guard {
	h.mu.Lock()
	g := h.grant
	h.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.join(ctx)
}

// reply is the result of a call.
type reply struct {
	generation uint64
	obtained   bool
	hangs      bool // the call was left behind, and may still be applied
}

// call calls the backend with ctx. The call is left behind if it has not returned soon after the end of the context
// until. If it returns later and may have taken the lock, its goroutine frees the lock.
func (h *Handle) call(ctx, until context.Context, id string, d time.Duration) (reply, error) {
	const (
		returned = 1
		left     = 2
	)
	var state atomic.Int32
	sent := h.clock.SinceStart()
	r, err := abandon.Do(until, &h.calls, h.key, func() (reply, error) {
		taken := true // perhaps, if the backend ends the goroutine
		defer func() {
			if !state.CompareAndSwap(0, returned) && d > 0 && taken {
				_, _ = h.free(ctx, id, sent+h.set.trust())
			}
		}()
		generation, obtained, err := h.backend.TryLock(uncaused{ctx}, h.key, id, d)
		taken = err == nil && obtained || store.OutcomeOf(err) == store.Unknown
		return reply{generation: generation, obtained: err == nil && obtained}, err
	})
	if err != nil && state.CompareAndSwap(0, left) {
		r.hangs = store.OutcomeOf(err) != store.NotApplied // otherwise the call was not sent
	}
	return r, err
}

// uncaused is a context without its cause. A backend, as package net/http, may return the cause of its context. It can
// be the error of another call, and must not look like the answer to this one.
type uncaused struct{ context.Context }

// Value implements [context.Context]. [context.Cause] finds a cause through Value.
func (c uncaused) Value(key any) any { return context.WithoutCancel(c.Context).Value(key) }

// errTooLate says that a lease was not freed, because its trust had ended.
var errTooLate = errors.New("the trust in the lease ended before its release, so the lock is left to expire")

// free ends the lease of an id by calls with the duration 0, until one is answered. It sends none after the end
// of the trust, because it would take an expired lease of another holder. If an earlier one of these calls may
// have been applied, the reply says nothing about the lease: then its generation is 0, and obtained is true.
func (h *Handle) free(ctx context.Context, id string, deadline time.Duration) (r reply, err error) {
	left := deadline - h.clock.SinceStart()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(h.set.ReleaseTimeout, left))
	defer cancel()
	for try, repeated := 1, false; ; try++ {
		if h.clock.SinceStart() >= deadline {
			return r, errors.Join(err, errTooLate)
		}
		inTime, cancel := context.WithTimeout(ctx, h.set.ReleaseTimeout/2)
		r, err = h.call(inTime, inTime, id, 0)
		cancel()
		if err == nil && repeated {
			return reply{obtained: true}, nil
		} else if err == nil {
			return r, nil
		}
		repeated = repeated || store.OutcomeOf(err) != store.NotApplied
		if store.Permanent(err) || backoff.Wait(ctx, try, h.set.MinPoll, h.set.MaxPoll) != nil {
			return r, err
		}
	}
}

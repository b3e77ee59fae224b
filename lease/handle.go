package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/lease/internal/membership"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// Handle takes and releases one lock. It is re-entrant: while it holds the lock, each Acquire and
// TryAcquire returns another guard of the same grant at once, without a request. The lease ends
// when the last of these guards is released. No other handle can hold the lock at the same time,
// not even a handle of the same process. A handle owns no goroutine and needs no Close. Any
// number of goroutines may use it.
type Handle struct {
	c    *Client
	cell *cell.Cell // of the record
	name string

	under *Session // whose locks the handle takes, nil for plain leases
	own   *Session // whose record it is, nil for locks and for sessions of others

	mu        sync.Mutex
	grant     *belief.Grant   // the current grant, or the last one
	abandoned map[string]bool // grants that were sent and never handed out
	began     time.Duration   // when grant began
	passed    bool            // another process has held the lock since the grant before
	contended bool            // others were met when the lock was taken last

	place membership.Place // in the wait for the lock

	// slot is taken during an attempt, so that the goroutines of a handle make one
	// attempt at a time and the later ones join the grant of the first. No goroutine
	// keeps the slot while it waits for the lock. It is nil while none is in alone.
	slot  chan struct{}
	inner int // goroutines in alone

	job  *job // with LockOptions.Period, or nil
	opts *LockOptions

	// campaign is the data that a claim writes, for the handle of an [Election]. Any other
	// claim keeps the data that it finds.
	campaign atomic.Pointer[[]byte]
}

// Name returns the name of the lock.
func (h *Handle) Name() string { return h.name }

// maxContenders is [cell.MaxRounds] where the lock has several holders, who all write its record.
const maxContenders = 64

// TryAcquire takes the lock if it is free, or if its holder is known to be dead. It does not
// wait. If another handle holds the lock, the error is a [*HeldError].
//
// If no other handle has held the lock since this handle's last grant, TryAcquire sends one
// write. Otherwise it sends at most a read and a write, and more if other clients write at the
// same time. If the outcome of the write is unknown, TryAcquire takes at most a TTL to find the
// outcome.
//
// ctx bounds only the call. If ctx ends later, the lease continues. If ctx ends during the call,
// TryAcquire first makes sure that no earlier write of the call can be applied. That takes up to
// Options.ReleaseTimeout.
func (h *Handle) TryAcquire(ctx context.Context) (*Guard, error) {
	ctx, cancel := h.bind(ctx)
	defer cancel(nil)
	h.place.Waits(1)
	guard, err := h.attempt(ctx, false)
	left := h.leaveQueue(ctx)
	if err != nil && ctx.Err() != nil {
		err = cancelled(ctx, h.name, err)
	}
	if err != nil && left != nil {
		err = errors.Join(err, left)
	}
	return guard, err
}

// Acquire takes the lock. It waits until the lock is free, its holder is dead, or ctx ends. If
// ctx ends, the error matches the cause of ctx; if the lock was held, it also matches [ErrHeld].
// After a temporary error of the store, Acquire tries again, within Options.StoreTimeout. It
// returns all other errors. It never takes over an unreadable record. See [Handle.TryAcquire]
// for the use of ctx.
//
// Goroutines that wait for one lock through one client take turns, in the order of arrival: the
// first reads the store for all of them. So together they send the requests of one waiter.
// Between clients there is no order.
//
// If a handle knows of other handles that use the lock, it waits before it takes the lock again.
// So other handles can take the lock. The handle waits for MaxPoll, or for 10 ms if the store
// reports changes. A handle cannot see waiters that never had the lock. So on a store that does
// not report changes, the handle waits for a tenth of the time for which it held the lock, at
// most MaxPoll. If this tenth is less than MinPoll, the handle does not wait.
func (h *Handle) Acquire(ctx context.Context) (_ *Guard, err error) {
	if err := h.waitsForItself(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := h.bind(ctx)
	defer cancel(nil)
	ctx, stop := h.c.space.WithStoreTimeout(ctx, h.event(event.Unresponsive))
	defer stop()
	if ctx.Err() != nil {
		return nil, cancelled(ctx, h.name, h.ended(ctx, nil))
	}
	if guard, _ := h.joinGrant(ctx); guard != nil {
		return guard, nil
	}
	h.place.Waits(1)
	defer func() {
		if left := h.leaveQueue(ctx); err != nil {
			err = errors.Join(err, left)
		}
	}()
	l, w := h.c.waiting.Enter(&h.place)
	defer l.Leave(w)
	if guard, err := h.enterFairQueue(ctx, w); guard != nil || err != nil {
		return guard, err
	}
	// What failed out of turn is not sent again before the turn: until then nothing is asked for
	// this waiter, but by the one that has the turn.
	patience := cell.StoreTimeoutOf(ctx)
	for {
		patience.Share(&l.Unanswered)
		select {
		case <-w.Turn:
			return h.acquire(ctx, l, w)
		case <-w.Wake:
			patience.Share(&cell.Unanswered{})
			if guard, _ := h.joinGrant(ctx); guard != nil {
				return guard, nil
			}
			if guard, err := h.woken(ctx); guard != nil || err != nil {
				return guard, err
			}
		case <-ctx.Done():
			return nil, cancelled(ctx, h.name, h.ended(ctx, l))
		}
	}
}

// ended is the error of a wait that ends before it was its turn.
func (h *Handle) ended(ctx context.Context, l *waiting.Queue) error {
	err := fmt.Errorf("lock %q: %w", h.name, context.Cause(ctx))
	if l == nil {
		return err
	}
	return lastSeen(err, l)
}

// acquire is Acquire by the goroutine whose turn it is.
func (h *Handle) acquire(ctx context.Context, l *waiting.Queue, w *waiting.Waiter) (*Guard, error) {
	h.cell.Adopt(l.Last)
	met := false // whether another's grant was in the way
	var err error
	for {
		if l.Pausing() {
			l.Await(ctx, w, h.cell, h.awaitSession)
		} else {
			l.Rest(ctx, h.reacquireDelay(), w, h.cell, h.awaitSession)
		}
		if ctx.Err() != nil {
			return nil, cancelled(ctx, h.name, cmp.Or(err, h.ended(ctx, l)))
		}
		sure := l.EndPause(ctx, h.cell)
		var guard *Guard
		guard, err = h.attemptOver(ctx, sure, true)
		l.Last = h.cell.Known()
		if err == nil {
			h.c.space.Health.Pause(&l.Unanswered)
			h.noteContention(met, guard)
			if l.Shared() {
				l.NoteHeld(h.held(l.Last, 0))
			}
			return guard, nil
		}
		var held *HeldError
		if errors.As(err, &held) {
			l.NoteHeld(held)
			met = met || !h.c.owns(held.Record.Grant)
			h.place.Suits(&held.Record, h.opts.Slots)
		}
		switch {
		case ctx.Err() != nil:
			return nil, cancelled(ctx, h.name, lastSeen(err, l))
		case held != nil:
			if id := lockrec.Possession(&held.Record); l.Notified != id || id == "" {
				l.Notified = id
				l.SawHeld(held.Record.TTL)
				e := h.event(event.Waiting)
				e.Token, e.Holder, e.Since, e.Wait = held.Record.Token, holdersOf(&held.Record), held.Record.Granted, held.Wait
				h.c.space.Emit(e)
			}
			h.requestIdleYield(ctx, l)
			h.notifyBroken(ctx, l)
			h.c.space.Health.Pause(&l.Unanswered)
			l.BeginPause(h.cell, h.place.Look(held.Wait))
		case store.Permanent(err):
			return nil, err // and no ErrHeld: waiting for the holder helps nothing
		default:
			err = lastSeen(err, l)
			l.PauseAfterError()
		}
	}
}

// event returns an event of the lock, or of the session.
func (h *Handle) event(kind event.Kind) event.Event {
	session := ""
	if h.under != nil {
		session = h.under.ID()
	}
	return h.cell.Event(kind, session)
}

// lastSeen adds who held the lock last to an error that does not tell it.
func lastSeen(err error, l *waiting.Queue) error {
	held := l.Held()
	if held == nil || errors.Is(err, ErrHeld) || errors.Is(err, ErrAlreadyRan) {
		return err
	}
	return errors.Join(err, held)
}

// bind makes ctx end with the client, and with the session that the handle is under.
func (h *Handle) bind(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	bound, cancel := h.c.space.Bind(ctx)
	if h.under == nil {
		return bound, cancel
	}
	stop := context.AfterFunc(h.under.Context(), func() { cancel(h.under.Err()) })
	return bound, func(cause error) {
		stop()
		cancel(cause)
	}
}

// cancelled makes err tell why ctx ended.
func cancelled(ctx context.Context, name string, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("waiting for lock %q: %w: %w", name, cause, err)
}

// enterFairQueue enters the lock's queue at once, though it is not the handle's turn to look at the
// store, where the order of arrival counts. It returns an error only if waiting is of no use.
func (h *Handle) enterFairQueue(ctx context.Context, w *waiting.Waiter) (*Guard, error) {
	if !h.opts.Fair && !h.opts.Shared {
		return nil, nil
	}
	select {
	case <-w.Turn:
		return nil, nil
	default:
	}
	for pause := h.c.space.Backoff(5*time.Millisecond, 200*time.Millisecond); ; {
		guard, err := h.attempt(ctx, true)
		if err == nil || store.Permanent(err) {
			return guard, err
		}
		if !errors.Is(err, ErrHeld) || h.place.Entry() != "" || pause.Wait(ctx) != nil {
			return nil, nil
		}
	}
}

// woken takes the lock if another handle of the client has seen that it was handed over.
func (h *Handle) woken(ctx context.Context) (*Guard, error) {
	if !h.place.IsShown() {
		return nil, nil
	}
	for pause := h.c.space.Backoff(h.c.space.Set.MinPoll, h.c.space.Set.MaxPoll); ; {
		guard, err := h.attempt(ctx, true)
		if err == nil || store.Permanent(err) {
			return guard, err
		}
		// Its turn will come; but not before it has taken what was handed to it, if those
		// before it in the line stand behind it in the queue.
		if errors.Is(err, ErrHeld) || h.place.Entry() == "" || pause.Wait(ctx) != nil {
			return nil, nil
		}
	}
}

// alone waits for the handle's slot, or until ctx ends. The caller calls leave.
func (h *Handle) alone(ctx context.Context) (leave func()) {
	h.mu.Lock()
	if h.inner++; h.slot == nil {
		h.slot = make(chan struct{}, 1)
	}
	slot, taken := h.slot, false
	h.mu.Unlock()
	select {
	case slot <- struct{}{}:
		taken = true
	case <-ctx.Done():
	}
	return func() {
		if taken {
			<-slot
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.inner--; h.inner == 0 {
			h.slot = nil
		}
	}
}

// attempt takes the lock if that is possible now. It enters the lock's queue where queue allows
// that and the handle needs it.
func (h *Handle) attempt(ctx context.Context, queue bool) (*Guard, error) {
	return h.attemptOver(ctx, nil, queue)
}

// attemptOver is attempt where it is known that the state sure is there, or was there a moment ago,
// unless that is nil.
func (h *Handle) attemptOver(ctx context.Context, sure *cell.Seen, queue bool) (*Guard, error) {
	leave := h.alone(ctx)
	defer leave()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lock %q: %w", h.name, context.Cause(ctx))
	}
	if guard, err := h.joinGrant(ctx); guard != nil || err != nil {
		return guard, err
	}
	if h.under != nil {
		if err := h.under.ready(); err != nil {
			return nil, fmt.Errorf("lock %q: %w", h.name, err)
		}
	}
	now := h.cell.Known()
	fresh := sure != nil && now != nil && now.Version == sure.Version
	if shown := h.place.TakeShown(); shown != nil {
		now, fresh = shown, true
	}
	others := h.cell.Contention(cell.FreeConflicts)
	for round := 0; round < cell.MaxRounds || h.several(now) && round < maxContenders; round++ {
		if now == nil || !fresh && (h.place.Entry() != "" || h.job != nil || !h.goesOn(now, queue) && !h.c.peers.MayBeOver(ctx, now.Rec)) {
			if now == nil && h.guesses() {
				// If this guess, that there is no record, is wrong, the conflict shows the record.
				now = &cell.Seen{At: h.c.space.Clock.Monotonic(), Age: -1}
			} else {
				var err error
				if now, err = h.cell.Read(ctx); err != nil {
					return nil, err
				}
				fresh = true
			}
		}
		if h.several(now) || h.place.Entry() != "" {
			guard, next, wait, err := h.enter(ctx, now, queue)
			switch {
			case !fresh && (errors.Is(err, ErrSlotCount) || errors.Is(err, ErrWrongKind) || errors.Is(err, ErrFull)):
				// What is remembered refuses nothing: the record may be another by now.
			case guard != nil || err != nil:
				return guard, err
			case next != nil:
				now, fresh = next, true
				if entry := h.place.Entry(); entry != "" && next.Names(entry) {
					continue // it was written
				}
				if lockrec.IsRenewed(next.Rec) {
					others.Free = 0
				}
				newer, err := others.Conflict(ctx)
				if ctx.Err() != nil {
					return nil, h.held(now, h.c.space.Set.MinPoll)
				}
				if err != nil {
					return nil, err
				}
				if newer != nil {
					now = newer
				}
				continue
			case fresh:
				return nil, h.held(now, wait)
			}
			if now, err = h.cell.Read(ctx); err != nil {
				return nil, err
			}
			fresh = true
			continue
		}
		verdict := h.evaluate(ctx, now)
		if verdict.Err != nil {
			return nil, verdict.Err
		}
		if verdict.Next != nil {
			now, fresh = verdict.Next, true
			continue
		}
		if h.job != nil {
			if err := h.due(ctx, now, verdict.Open); err != nil {
				return nil, err
			}
		}
		if !verdict.Open {
			if fresh {
				return nil, h.held(now, verdict.Wait)
			}
			var err error
			if now, err = h.cell.Read(ctx); err != nil {
				return nil, err
			}
			fresh = true
			continue
		}
		guard, next, err := h.claim(ctx, now, verdict.Reason)
		if guard != nil || err != nil {
			return guard, err
		}
		now, fresh = h.cell.Note(next), true
	}
	return nil, h.held(now, h.c.space.Set.MinPoll)
}

// goesOn reports whether the handle enters the queue over the state s, in which it has left the
// lock to others just now, without another look. If they have written meanwhile, it conflicts;
// where writes wait that takes longer than a look.
func (h *Handle) goesOn(s *cell.Seen, queue bool) bool {
	return queue && h.several(s) && h.c.space.Set.Traits.MinWriteTime == 0 && h.c.space.Clock.Monotonic().Sub(s.At) < h.c.space.Set.MinPoll
}

// guesses reports whether a handle that knows nothing of its record tries to create it without
// reading first.
func (h *Handle) guesses() bool {
	if h.own != nil {
		return true
	}
	return h.job == nil && (h.c.space.Set.Traits.ConflictCarriesState || h.c.space.Set.AssumeNew) && !h.c.space.Set.CheckTokenFloor
}

// joinGrant returns a guard of the grant that the handle holds already, or neither
// guard nor error. A release under way is waited for.
func (h *Handle) joinGrant(ctx context.Context) (*Guard, error) {
	h.mu.Lock()
	g := h.grant
	h.mu.Unlock()
	if g == nil {
		return nil, nil
	}
	g.Check()
	if guard := h.join(ctx, g); guard != nil {
		return guard, nil
	}
	releasing := g.Releasing()
	if releasing == nil {
		return nil, nil
	}
	select {
	case <-releasing:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("lock %q: %w", h.name, context.Cause(ctx))
	}
}

// lastHeld is the error of a wait for the lock, with the state that the handle saw last.
func (h *Handle) lastHeld() *HeldError {
	last := h.cell.Known()
	if last == nil {
		last = &cell.Seen{}
	}
	return h.held(last, 0)
}

const (
	// watchedReacquireDelay is for how long a handle leaves the lock to others whom the store
	// wakes: longer than that takes.
	watchedReacquireDelay = 10 * time.Millisecond

	// reacquirePart is for which part of its last grant a handle leaves the lock to others
	// when it knows of none: it cannot know of all.
	reacquirePart = 10
)

// reacquireDelay says how long the handle leaves the lock, which it has released, to others.
func (h *Handle) reacquireDelay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grant == nil {
		return 0
	}
	set, last := h.c.space.Set, h.cell.Known()
	if last == nil || last.Rec == nil || last.Rec.State != Free || h.grant.ID() != last.Rec.Grant {
		return 0
	}
	since := h.c.space.Clock.Monotonic().Sub(last.At)
	var yield time.Duration
	switch watched := h.c.space.Watches(); {
	case h.grant.YieldRequested(): // for as long as a waiter needs that does not hear of it
		yield = set.MaxPoll
	case watched && h.contended:
		yield = watchedReacquireDelay
	case watched:
	case h.contended:
		yield = set.MaxPoll
	default:
		if part := (h.c.space.Clock.SinceStart() - h.began - since) / reacquirePart; part >= set.MinPoll {
			yield = min(part, set.MaxPoll)
		}
	}
	return yield - since
}

// noteContention notes whether others were met on the way to a grant: while it was waited for, or
// since the handle's last one.
func (h *Handle) noteContention(others bool, guard *Guard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.contended = others || h.passed && !guard.WasLastHolder()
}

// noted wakes the goroutines of the client for which the state s of the lock is news.
func (h *Handle) noted(s *cell.Seen) {
	if h.own != nil {
		return
	}
	h.c.waiting.Show(h.cell, s)
	if s.Rec == nil || s.Rec.State != Free {
		return
	}
	h.mu.Lock()
	released := h.abandoned[s.Rec.Grant] || h.grant != nil && h.grant.ID() == s.Rec.Grant
	h.mu.Unlock()
	if released {
		h.c.waiting.Freed(h.cell)
	}
}

func (h *Handle) held(s *cell.Seen, wait time.Duration) *HeldError {
	e := &HeldError{Name: h.name, Store: h.c.space.Set.Traits.Name, Wait: wait, own: h.place.Entry()}
	if s.Rec != nil {
		e.Record = *s.Rec
	} else {
		e.Record = Record{Name: h.name, State: Free}
	}
	return e
}

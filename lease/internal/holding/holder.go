package holding

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

// Holder takes and releases one lock. The guards of one grant share it.
//
// A program can hold many locks. So a holder has little while its lock is only held.
type Holder struct {
	Cell cell.Cell // of the record
	*scope

	mu    sync.Mutex
	grant *belief.Grant // the current grant, or the last one

	*inUse // nil while it is not needed; see use
}

// scope is what holders have in common that take their locks in the same way. It is never changed.
type scope struct {
	c     *Client
	Under *Session // whose locks the handle takes, nil for plain leases
	own   *Session // whose record it is, nil for locks and for sessions of others
	Job   Job      // of a periodic job, or nil
	Opts  Options

	// campaign is the data that a claim writes, for a candidate of an election. Any other
	// claim keeps the data that it finds. It is nil for others than candidates.
	campaign *atomic.Pointer[[]byte]
}

// inUse is what a holder needs while goroutines take its lock, or when others want the lock.
type inUse struct {
	users     int             // goroutines that use it
	passed    bool            // another process has held the lock since the grant before
	contended bool            // others were met when the lock was taken last
	abandoned map[string]bool // grants that were sent and never handed out

	place membership.Place // in the wait for the lock

	// slot is taken during an attempt, so that the goroutines of a handle make one
	// attempt at a time and the later ones join the grant of the first. No goroutine
	// keeps the slot while it waits for the lock.
	slot chan struct{}
}

// Name returns the name of the lock.
func (h *Holder) Name() string { return h.Cell.Name() }

// Customize gives a new holder options, and its job unless that is nil.
func (h *Holder) Customize(opts Options, job Job) {
	h.scope = &scope{c: h.c, Under: h.Under, own: h.own, Job: job, Opts: opts}
	if opts.Candidate {
		h.campaign = &atomic.Pointer[[]byte]{}
	}
}

// Campaign sets the data that the next claim of a candidate writes.
func (h *Holder) Campaign(value []byte) { h.campaign.Store(&value) }

// campaigns returns the data that a claim writes; nil if that is none.
func (h *Holder) campaigns() *[]byte {
	if h.campaign == nil {
		return nil
	}
	return h.campaign.Load()
}

// use makes inUse usable, until done is called.
func (h *Holder) use() (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used().users++
	return h.unuse
}

func (h *Holder) unuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users--; h.users == 0 && h.abandoned == nil && !h.passed && !h.contended && !h.place.HasWaited() {
		h.inUse = nil
	}
}

// used returns what the holder has in use. The caller holds h.mu.
func (h *Holder) used() *inUse {
	if h.inUse == nil {
		h.inUse = &inUse{slot: make(chan struct{}, 1)}
		h.place.Init(&h.Cell, h.c.Waiting)
	}
	return h.inUse
}

// Options say how a holder takes its lock.
type Options struct {
	Shared bool          // as a reader
	Slots  int           // one slot of so many; 0: no semaphore
	Fair   bool          // in the order of arrival
	Linger time.Duration // for how long the grant is kept without guards

	Candidate      bool // of an election
	OnYieldRequest int  // a lease.YieldPolicy, which a holder does not use
}

// Job is what the record of a lock has of a periodic job.
type Job interface {
	// Due returns nil if a run may begin in the state s, where open reports whether the lock can be
	// taken, or if the last run may still continue.
	Due(ctx context.Context, s *cell.Seen, open bool) error

	Begin(rec *lockrec.Record)        // puts the run that Due allowed into the record of its grant
	Before(grant string) *lockrec.Run // the run before that of a grant
}

// TryAcquire takes the lock if that is possible now.
func (h *Holder) TryAcquire(ctx context.Context) (_ *belief.Guard, err error) {
	ctx, cancel := h.bind(ctx)
	defer cancel(nil)
	ctx = h.begins(ctx)
	defer func() { h.emitFailed(ctx, err, false) }()
	defer h.use()()
	h.place.Waits(1)
	guard, err := h.attemptOver(ctx, nil, false, false)
	defer h.forgetPacked()
	left := h.leaveQueue(ctx)
	if err != nil && ctx.Err() != nil {
		err = Cancelled(ctx, h.Name(), err)
	}
	if err != nil && left != nil {
		err = errors.Join(err, left)
	}
	return guard, err
}

// Acquire waits until the lock can be taken, or ctx ends.
func (h *Holder) Acquire(ctx context.Context) (_ *belief.Guard, err error) {
	ctx, cancel := h.bind(ctx)
	defer cancel(nil)
	ctx, stop := h.c.Space.WithStoreTimeout(ctx, h.event(event.Unresponsive))
	defer stop()
	ctx = h.begins(ctx)
	if ctx.Err() != nil {
		err := Cancelled(ctx, h.Name(), h.Ended(ctx, nil))
		h.emitFailed(ctx, err, false)
		return nil, err
	}
	if guard, _ := h.joinGrant(ctx); guard != nil {
		return guard, nil
	}
	defer h.use()()
	h.place.Waits(1)
	defer func() {
		if left := h.leaveQueue(ctx); err != nil {
			err = errors.Join(err, left)
		}
		h.forgetPacked()
	}()
	l, w := h.c.Waiting.Enter(&h.place)
	defer func() {
		if err != nil {
			h.emitFailed(ctx, err, l.StopsWaiting())
		}
		l.Leave(w)
	}()
	if h.Opts.Fair || h.Opts.Shared {
		if guard, err := h.enterFairQueue(ctx, w); guard != nil || err != nil {
			return guard, err
		}
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
			return nil, Cancelled(ctx, h.Name(), h.Ended(ctx, l))
		}
	}
}

// forgetPacked makes the cell forget the record of a grant that keeps it packed.
func (h *Holder) forgetPacked() {
	h.mu.Lock()
	g := h.grant
	h.mu.Unlock()
	if g == nil {
		return
	}
	if v := g.Packed(); v != "" {
		h.Cell.Forget(v)
	}
}

// beginsKey is the key of the time in a context when a call began to take a lock.
type beginsKey struct{}

// begins returns a context for a call that takes the lock, so that its event has the time that it took.
func (h *Holder) begins(ctx context.Context) context.Context {
	if len(h.c.Space.Events) == 0 {
		return ctx
	}
	return context.WithValue(ctx, beginsKey{}, h.c.Space.Clock.SinceStart())
}

// took returns how long the call with this context has taken; zero for a session.
func (h *Holder) took(ctx context.Context) time.Duration {
	began, ok := ctx.Value(beginsKey{}).(time.Duration)
	if !ok || h.own != nil {
		return 0
	}
	return h.c.Space.Clock.SinceStart() - began
}

// emitFailed sends the event of a call that failed to take the lock.
func (h *Holder) emitFailed(ctx context.Context, err error, stopsWaiting bool) {
	if err == nil || len(h.c.Space.Events) == 0 {
		return
	}
	e := h.event(event.Failed)
	e.Took, e.StopsWaiting, e.Err = h.took(ctx), stopsWaiting, err
	h.c.Space.Emit(e)
}

// maxContenders is [cell.MaxRounds] where the lock has several holders, who all write its record.
const maxContenders = 64

// Ended is the error of a wait that ends before it was its turn.
func (h *Holder) Ended(ctx context.Context, l *waiting.Queue) error {
	err := fmt.Errorf("lock %q: %w", h.Name(), store.Cause(ctx))
	if l == nil {
		return err
	}
	return lastSeen(err, l)
}

// acquire is Acquire by the goroutine whose turn it is.
func (h *Holder) acquire(ctx context.Context, l *waiting.Queue, w *waiting.Waiter) (*belief.Guard, error) {
	h.Cell.Adopt(l.Last)
	met, stale := false, false // another's grant was in the way; the state that was seen last was probably replaced
	var err error
	for {
		if l.Pausing() {
			l.Await(ctx, w, &h.Cell, h.awaitSession)
		} else {
			stale = l.Rest(ctx, h.reacquireDelay(), w, &h.Cell, h.awaitSession) || stale
		}
		if ctx.Err() != nil {
			return nil, Cancelled(ctx, h.Name(), cmp.Or(err, h.Ended(ctx, l)))
		}
		sure := l.EndPause(ctx, &h.Cell)
		var guard *belief.Guard
		guard, err = h.attemptOver(ctx, sure, stale, true)
		l.Last, stale = h.Cell.Known(), false
		if err == nil {
			h.c.Space.Health.Pause(&l.Unanswered)
			h.noteContention(met, guard)
			if l.Last != nil && l.Shared() {
				l.NoteHeld(h.held(l.Last, 0))
			}
			return guard, nil
		}
		var held *HeldError
		if errors.As(err, &held) {
			l.NoteHeld(held)
			met = met || !h.c.owns(held.Record.Grant)
			h.place.Suits(&held.Record, h.Opts.Slots)
		}
		switch {
		case ctx.Err() != nil:
			return nil, Cancelled(ctx, h.Name(), lastSeen(err, l))
		case held != nil:
			if id := lockrec.Possession(&held.Record); l.Notified != id || id == "" {
				l.Notified = id
				l.SawHeld(held.Record.TTL)
				e := h.event(event.Waiting)
				e.Token, e.Holder, e.Since, e.Wait = held.Record.Token, holdersOf(&held.Record), held.Record.Granted, held.Wait
				h.c.Space.Emit(e)
			}
			if s := l.Last; s != nil && s.Rec != nil {
				h.requestIdleYield(ctx, l, s)
				h.notifyBroken(ctx, l, s)
			}
			h.c.Space.Health.Pause(&l.Unanswered)
			l.BeginPause(&h.Cell, h.place.Look(held.Wait))
		case store.Permanent(err):
			return nil, err // and no ErrHeld: waiting for the holder helps nothing
		default:
			// If the store refused the claim, the lock may have a holder by now. A claim over what was
			// seen before would only keep this holder from its renewals.
			stale = true
			err = lastSeen(err, l)
			l.PauseAfterError()
		}
	}
}

// event returns an event of the lock, or of the session.
func (h *Holder) event(kind event.Kind) event.Event {
	session := ""
	if h.Under != nil {
		session = h.Under.ID()
	}
	return h.Cell.Event(kind, session)
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
func (h *Holder) bind(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	bound, cancel := h.c.Space.Bind(ctx)
	if h.Under == nil {
		return bound, cancel
	}
	stop := context.AfterFunc(h.Under.Context(), func() { cancel(h.Under.Err()) })
	return bound, func(cause error) {
		stop()
		cancel(cause)
	}
}

// Cancelled makes err tell why ctx ended.
func Cancelled(ctx context.Context, name string, err error) error {
	if errors.Is(err, context.Cause(ctx)) {
		return err
	}
	return fmt.Errorf("waiting for lock %q: %w: %w", name, store.Cause(ctx), err)
}

// enterFairQueue enters the lock's queue at once, though it is not the handle's turn to look at the
// store, where the order of arrival counts. It returns an error only if waiting is of no use.
func (h *Holder) enterFairQueue(ctx context.Context, w *waiting.Waiter) (*belief.Guard, error) {
	select {
	case <-w.Turn:
		return nil, nil
	default:
	}
	return h.outOfTurn(ctx, h.c.Space.Backoff(5*time.Millisecond, 200*time.Millisecond), func(held bool) bool { return held && h.place.Entry() == "" })
}

// woken takes the lock if another handle of the client has seen that it was handed over, or the store
// has woken this one.
func (h *Holder) woken(ctx context.Context) (*belief.Guard, error) {
	if !h.place.IsDue() {
		return nil, nil
	}
	// Its turn will come; but not before it has taken what was handed to it, if those before it in
	// the line stand behind it in the queue.
	return h.outOfTurn(ctx, h.c.Space.Backoff(h.c.Space.Set.MinPoll, h.c.Space.Set.MaxPoll), func(held bool) bool { return !held && h.place.Entry() != "" })
}

// outOfTurn attempts to take the lock, and again after an error for as long as again says so. again
// gets whether the lock was held. It returns an error only if waiting is of no use.
func (h *Holder) outOfTurn(ctx context.Context, pause *cell.RetryPause, again func(held bool) bool) (*belief.Guard, error) {
	for {
		guard, err := h.attemptOver(ctx, nil, false, true)
		if err == nil || store.Permanent(err) {
			return guard, err
		}
		if !again(errors.Is(err, ErrHeld)) || pause.Wait(ctx) != nil {
			return nil, nil
		}
	}
}

// alone waits for the handle's slot, or until ctx ends. The caller passes the result to leave.
func (h *Holder) alone(ctx context.Context) (taken bool) {
	select {
	case h.slot <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave gives the slot to the next, if alone has taken it.
func (h *Holder) leave(taken bool) {
	if taken {
		<-h.slot
	}
}

// attemptOver takes the lock if that is possible now. It enters the lock's queue where queue allows
// that and the handle needs it. It is known that the state sure is there, or was there a moment ago,
// unless that is nil. With look, it reads the record before it decides anything.
func (h *Holder) attemptOver(ctx context.Context, sure *cell.Seen, look, queue bool) (*belief.Guard, error) {
	defer h.leave(h.alone(ctx))
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lock %q: %w", h.Name(), store.Cause(ctx))
	}
	if guard, err := h.joinGrant(ctx); guard != nil || err != nil {
		return guard, err
	}
	if h.Under != nil {
		if err := h.Under.ready(); err != nil {
			return nil, fmt.Errorf("lock %q: %w", h.Name(), err)
		}
	}
	a := attempt{h: h, queue: queue, now: h.Cell.Known(), others: h.Cell.Contention(cell.FreeConflicts)}
	a.fresh = sure != nil && a.now != nil && a.now.Version == sure.Version
	if shown := h.place.TakeShown(); shown != nil {
		a.now, a.fresh = shown, true
	}
	a.look = look || h.place.Entry() != "" || h.Job != nil // before anything is decided
	for round := 0; round < cell.MaxRounds || h.several(a.now) && round < maxContenders; round++ {
		err := a.read(ctx)
		var guard *belief.Guard
		switch {
		case err != nil:
		case h.several(a.now) || h.place.Entry() != "":
			guard, err = a.tryAsMember(ctx)
		default:
			guard, err = a.tryAlone(ctx)
		}
		if guard != nil || err != nil {
			return guard, err
		}
	}
	return nil, h.held(a.now, h.c.Space.Set.MinPoll)
}

// attempt is one attempt of a handle to take its lock. Its methods return neither a guard nor an error
// if the attempt continues.
type attempt struct {
	h      *Holder
	queue  bool       // the handle may enter the lock's queue
	now    *cell.Seen // the state that decides; nil: none is known
	fresh  bool       // now was read, or is known to be unchanged
	look   bool       // a state that is not fresh decides nothing
	others cell.Contention
}

// read reads the record, unless the state that the handle knows may decide.
func (a *attempt) read(ctx context.Context) (err error) {
	h := a.h
	switch {
	case a.now == nil && !a.look && h.guesses():
		// If this guess, that there is no record, is wrong, the conflict shows the record.
		a.now = &cell.Seen{At: h.c.Space.Clock.Monotonic(), Age: -1}
	case a.now == nil || !a.fresh && (a.look || !h.goesOn(a.now, a.queue) && !h.c.Peers.MayBeOver(ctx, a.now.Rec)):
		a.now, err = h.Cell.Read(ctx)
		a.fresh = true
	}
	return err
}

// tryAsMember takes the lock, or enters its queue, where the rules of locks with several holders apply.
func (a *attempt) tryAsMember(ctx context.Context) (*belief.Guard, error) {
	h := a.h
	guard, next, wait, err := h.enter(ctx, a.now, a.queue)
	switch {
	case !a.fresh && (errors.Is(err, lockrec.ErrSlotCount) || errors.Is(err, lockrec.ErrWrongKind) || errors.Is(err, lockrec.ErrFull)):
		a.look = true // what is remembered refuses nothing: the record may be another by now
		return nil, nil
	case guard != nil || err != nil:
		return guard, err
	case next == nil && a.fresh:
		return nil, h.held(a.now, wait)
	case next == nil:
		a.look = true
		return nil, nil
	}
	a.now, a.fresh = next, true
	if entry := h.place.Entry(); entry != "" && next.Names(entry) {
		return nil, nil // it was written
	}
	if lockrec.IsRenewed(next.Rec) {
		a.others.Free = 0
	}
	newer, err := a.others.Conflict(ctx, next.Rec)
	if ctx.Err() != nil {
		return nil, h.held(a.now, h.c.Space.Set.MinPoll)
	}
	a.now = cmp.Or(newer, a.now)
	return nil, err
}

// tryAlone takes a lock that has no members, and of which the handle becomes the only holder.
func (a *attempt) tryAlone(ctx context.Context) (*belief.Guard, error) {
	h := a.h
	verdict := h.evaluate(ctx, a.now)
	if verdict.Err != nil {
		return nil, verdict.Err
	}
	if verdict.Next != nil {
		a.now, a.fresh = verdict.Next, true
		return nil, nil
	}
	if h.Job != nil {
		if err := h.Job.Due(ctx, a.now, verdict.Open); err != nil {
			return nil, err
		}
	}
	switch {
	case !verdict.Open && a.fresh:
		return nil, h.held(a.now, verdict.Wait)
	case !verdict.Open:
		a.look = true
		return nil, nil
	}
	guard, next, err := h.claim(ctx, a.now, verdict.Reason)
	if guard == nil && err == nil {
		a.now, a.fresh = h.Cell.Note(next), true
	}
	return guard, err
}

// goesOn reports whether the handle enters the queue over the state s, in which it has left the
// lock to others just now, without another look. If they have written meanwhile, it conflicts;
// where writes wait that takes longer than a look.
func (h *Holder) goesOn(s *cell.Seen, queue bool) bool {
	return queue && h.several(s) && !h.c.Space.Set.Traits.Delayed() && h.c.Space.Clock.Monotonic().Sub(s.At) < h.c.Space.Set.MinPoll
}

// guesses reports whether a handle that knows nothing of its record tries to create it without
// reading first.
func (h *Holder) guesses() bool {
	if h.own != nil {
		return true
	}
	return h.Job == nil && (h.c.Space.Set.Traits.ConflictCarriesState || h.c.Space.Set.AssumeNew) && !h.c.Space.Set.CheckTokenFloor
}

// joinGrant returns a guard of the grant that the handle holds already, or neither
// guard nor error. A release under way is waited for.
func (h *Holder) joinGrant(ctx context.Context) (*belief.Guard, error) {
	h.mu.Lock()
	g := h.grant
	h.mu.Unlock()
	if g == nil {
		return nil, nil
	}
	g.Check()
	if guard := g.Join(ctx); guard != nil {
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
		return nil, fmt.Errorf("lock %q: %w", h.Name(), store.Cause(ctx))
	}
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
func (h *Holder) reacquireDelay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grant == nil {
		return 0
	}
	set, last := h.c.Space.Set, h.Cell.Known()
	if last == nil || last.Rec == nil || last.Rec.State != lockrec.Free || h.grant.ID() != last.Rec.Grant {
		return 0
	}
	since := h.c.Space.Clock.Monotonic().Sub(last.At)
	var yield time.Duration
	switch watched := h.c.Space.Watches(); {
	case h.grant.YieldRequested(): // for as long as a waiter needs that does not hear of it
		yield = set.MaxPoll
	case watched && h.contended:
		yield = watchedReacquireDelay
	case watched:
	case h.contended:
		yield = set.MaxPoll
	default:
		if part := last.Rec.Renewed.Sub(last.Rec.Granted) / reacquirePart; part >= set.MinPoll {
			yield = min(part, set.MaxPoll)
		}
	}
	return yield - since
}

// noteContention notes whether others were met on the way to a grant: while it was waited for, or
// since the handle's last one.
func (h *Holder) noteContention(others bool, guard *belief.Guard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.contended = others || h.passed && !guard.WasLastHolder()
}

// Noted wakes the goroutines of the client for which the state s of the lock is news.
func (o *owner) Noted(s *cell.Seen) {
	h := (*Holder)(o)
	if h.own != nil {
		return
	}
	h.c.Waiting.Show(&h.Cell, s)
	if s.Rec == nil || s.Rec.State != lockrec.Free {
		return
	}
	h.mu.Lock()
	released := h.hasAbandoned(s.Rec.Grant) || h.grant != nil && h.grant.ID() == s.Rec.Grant
	h.mu.Unlock()
	if released {
		h.c.Waiting.Freed(&h.Cell)
	}
}

// held is the error of a lock that is held in the state s.
func (h *Holder) held(s *cell.Seen, wait time.Duration) *HeldError {
	return NewHeldError(&h.Cell, s, wait, h.place.Entry())
}

// NewHeldError returns the error of a lock that is held in the state s. own is the waiter's own entry
// in its queue.
func NewHeldError(of *cell.Cell, s *cell.Seen, wait time.Duration, own string) *HeldError {
	e := &HeldError{Name: of.Name(), Store: of.Space.Set.Traits.Name, Wait: wait, own: own}
	if s.Rec != nil {
		e.Record = *s.Rec
	} else {
		e.Record = lockrec.Record{Name: of.Name(), State: lockrec.Free}
	}
	return e
}

// Package belief is about the time during which a holder trusts a record: its deadline, its renewals,
// the contexts that end with it, and the release. It does not know how a lock is taken.
package belief

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
)

// Owner is the handle of a grant: the user of its cell. Its methods wait for nothing, except Depart.
type Owner interface {
	Ended(cause error)                // the grant has ended; called once
	Renewed()                         // a renewal was applied
	Named(locks []string)             // the record of a session names these locks
	Wanted()                          // others want the lock
	Released(g *Grant)                // the release of the grant is over
	Remember(t *cell.Tries, g *Grant) // the outcome of a release under a session is not known
	Session() *Grant                  // of the session that its locks are under; nil if they are plain

	// Depart takes a grant that is one of several out of the record. It returns the record by which
	// another client has ended the grant, or nil.
	Depart(ctx context.Context, base *cell.Seen, grant string) (ended *cell.Seen, _ error)
}

// Terms are what is fixed of a grant when it begins.
type Terms struct {
	Grant         string // its id
	Token         uint64 // its fencing token
	WasLastHolder bool   // the grant before was of the same handle
	Special
}

// Special are the terms that few grants under a session have.
type Special struct {
	Member   *lockrec.Member // what it holds, if it is one of several; nil for the only holder
	Linger   time.Duration   // for how long it is kept without guards
	Before   *lockrec.Run    // the run before that
	Periodic bool            // it is a run of a periodic job
	TookOver string          // why it could end a grant that was not released
}

// Grant is one period in which a handle holds its lock. The guards of the handle share it. The trust
// in a grant under a session is that in the session's own grant.
//
// A program can hold many locks under one session. So a grant that is only held is small: all that it
// needs to be renewed, to write or to end is in its activity.
type Grant struct {
	cell    *cell.Cell
	token   uint64
	Place   uint32 // among the locks of the session, which guards it
	counter uint32 // of a packed grant: the number in its id

	mu     sync.Mutex // never held across I/O
	guard  *Guard     // the last that has joined, and through it the others
	packed string     // the record of a grant with a counter; see pack

	*activity // changed once at most, under mu; see acts
}

// activity is what a grant needs that is renewed, writes, or is waited for. The mutex of the grant
// guards it.
type activity struct {
	Special
	wasLast   bool          // Terms.WasLastHolder
	id        string        // of a grant without a counter
	sent      time.Duration // when the last write known to be applied was sent
	ended     error         // why the grant ended; nil while the holder may believe in it
	isCut     bool          // the grant writes no more
	atRisk    bool
	wanted    bool // others wait for it, so that it is not kept
	releasing bool // every guard was released
	finishing bool // a release is under way
	detached  bool
	taken     bool // another client may hold the lock
	isOver    bool // the release is over

	// The goroutine that has the turn to write the record alone changes these two. It changes
	// them under mu. So either the turn or mu is enough to read them.
	firm  bool        // the record survives a power cut
	tries *cell.Tries // the record, and renewals over it, of unknown outcome; nil while it is packed

	idle        *time.Timer        // frees the idle grant, when no guard is left and the lock is kept; otherwise nil
	unlisten    context.CancelFunc // ends the goroutine that watches the store, if there is one
	request     *lockrec.Record    // the record with the request to yield that the holder has read; nil if none
	yieldCtx    context.Context    // ends when request is set; nil until it is needed
	signalYield context.CancelFunc // ends yieldCtx
	problem     error              // of the last renewal
	timer       *time.Timer        // reads the clocks
	renewer     *time.Timer        // begins to renew; nil if the user does that
	inFlight    context.CancelFunc // ends the write in flight
	renewals    sync.WaitGroup
	result      error

	rerunAllowed bool         // the next grant may follow at once; see AllowRerun
	ending       *lockrec.Run // the end of its run, as the release writes it; see SetRunResult

	patterns atomic.Pointer[[]*lockrec.Record] // of a session: records of its locks; see pack

	// Few grants are waited for, so that each of these is made when it is needed.
	writes   chan struct{} // see turn
	stopped  chan struct{} // see stop
	finished chan struct{} // see over
}

// noActivity is shared by the grants that are only held: most of those under sessions. It is never
// changed.
var noActivity activity

// acts gives the grant an activity of its own. The caller holds g.mu.
func (g *Grant) acts() {
	if g.activity == &noActivity {
		g.activity = &activity{}
	}
}

// owner is the handle of the grant.
func (g *Grant) owner() Owner { return g.cell.User.(Owner) }

// session is the grant of the session that the lock is under; nil for a plain grant.
func (g *Grant) session() *Grant { return g.owner().Session() }

// Begin begins the belief in the grant that is in the record of the state now. The user of the cell
// is its owner. The trust counts from the time sent. firm says whether that state survives a power
// cut.
func Begin(ctx context.Context, c *cell.Cell, now *cell.Seen, sent time.Duration, firm bool, terms Terms) *Grant {
	g := &Grant{cell: c, token: terms.Token, activity: &noActivity}
	s := g.session()
	if s != nil && terms.Special == (Special{}) && g.pack(s, now, terms) {
		return g // the session renews, and watches the time
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acts()
	g.Special, g.wasLast, g.id, g.sent, g.firm, g.tries = terms.Special, terms.WasLastHolder, terms.Grant, sent, firm, c.Over(now)
	if s != nil {
		return g
	}
	g.timer = time.AfterFunc(c.Space.Set.ClockCheckInterval(), g.tick)
	if !c.Space.Set.ManualRenewal {
		values := cell.WithoutEnd(ctx)
		g.renewals.Add(1)
		g.renewer = time.AfterFunc(g.renewalDelay(sent), func() { g.renewAll(values) })
	}
	return g
}

// tick reads the clocks. It waits for no I/O.
func (g *Grant) tick() {
	left := g.Check()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.timer.Reset(max(time.Millisecond, min(g.cell.Space.Set.ClockCheckInterval(), left)))
	}
}

// Check ends the grant if its time is over, and returns the trust that is left.
func (g *Grant) Check() time.Duration {
	if s := g.session(); s != nil {
		left := s.Check()
		if left <= 0 {
			g.Follow(s.Cause())
		}
		if g.Cause() != nil {
			return 0
		}
		return left
	}
	set := g.cell.Space.Set
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return 0
	}
	now := g.cell.Space.Clock.SinceStart()
	left := g.sent + set.Trust() - now
	if left <= 0 {
		problem := g.problem
		g.mu.Unlock()
		g.lose(&LostError{Reason: ErrExpired, Cause: problem})
		return 0
	}
	risk := !g.atRisk && now >= g.sent+set.RenewInterval+(set.Trust()-set.RenewInterval)/2
	if risk {
		g.atRisk = true
	}
	problem := g.problem
	g.mu.Unlock()
	if risk {
		g.Emit(event.AtRisk, 0, problem)
	}
	return left
}

// lose ends a grant that was not released.
func (g *Grant) lose(lost *LostError) {
	e := g.event(event.Lost)
	if g.isIdle() {
		e.Kind = event.Released // the grant was idle: no guard loses it
	}
	lost.Name, lost.Session, lost.Token = e.Name, e.Session, g.token
	if g.Halt(lost) {
		e.Token, e.Err = g.token, lost
		g.cell.Space.Emit(e)
	}
}

// Emit sends an event of the grant. took is how long what has happened has taken.
func (g *Grant) Emit(kind event.Kind, took time.Duration, err error) {
	if len(g.cell.Space.Events) == 0 {
		return // it saves the readings of the clocks
	}
	e := g.event(kind)
	e.Token, e.Took, e.Err = g.token, took, err
	if kind != event.Released {
		e.Deadline = g.Deadline()
	}
	g.cell.Space.Emit(e)
}

// event returns an event of the lock, or of the session.
func (g *Grant) event(kind event.Kind) event.Event {
	session := ""
	if s := g.session(); s != nil {
		session = s.cell.Name()
	}
	return g.cell.Event(kind, session)
}

// Halt ends the grant: the contexts of all guards first, then the renewals. It reports whether this
// call did it.
func (g *Grant) Halt(cause error) bool {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return false
	}
	g.acts()
	g.ended = cause
	g.detached = cause == ErrDetached
	g.taken = mayBeTaken(cause)
	for guard := g.guard; guard != nil; guard = guard.state().next {
		guard.end(cause)
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	if g.renewer != nil && g.renewer.Stop() {
		g.renewals.Done()
	}
	if g.stopped != nil {
		close(g.stopped)
	}
	idle := g.endIdle()
	if g.unlisten != nil {
		g.unlisten()
	}
	g.mu.Unlock()
	if s := g.session(); idle && (s == nil || s.Cause() == nil) { // no guard is left whose release would free the lock
		go func() { _ = g.Release(context.Background(), cause) }()
	}
	g.owner().Ended(cause)
	return true
}

// mayBeTaken reports whether another client may hold the lock as soon as a lease has ended for that
// cause. After an expiry, or a break without immediate effect, others first wait for the rest of
// the TTL.
func mayBeTaken(cause error) bool {
	lost, ok := cause.(*LostError)
	return !ok || lost.Reason != ErrExpired && (lost.Reason != ErrBroken || lost.now)
}

// over is closed when the release of the grant is over.
func (g *Grant) over() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.acts(); g.finished == nil {
		if g.finished = make(chan struct{}); g.isOver {
			close(g.finished)
		}
	}
	return g.finished
}

// turn has room for the goroutine that writes the record.
func (g *Grant) turn() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.acts(); g.writes == nil {
		g.tries, g.writes = g.known(), make(chan struct{}, 1)
	}
	return g.writes
}

// stop is closed when the grant ends.
func (g *Grant) stop() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.acts(); g.stopped == nil {
		g.stopped = make(chan struct{})
		if g.ended != nil {
			close(g.stopped)
		}
	}
	return g.stopped
}

func (g *Grant) IsDetached() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.detached
}

// Slot returns the number of the slot of a semaphore that the grant holds; 0 if the lock is none.
func (g *Grant) Slot() int {
	if m := g.special().Member; m != nil {
		return m.Slot
	}
	return 0
}

// special returns the special terms of the grant.
func (g *Grant) special() Special {
	if g.counter != 0 {
		return Special{}
	}
	return g.Special // the activity is the grant's own from the beginning
}

// ID returns the id of the grant.
func (g *Grant) ID() string {
	if g.counter != 0 {
		return lockrec.GrantID(g.session().cell.Name(), uint64(g.counter))
	}
	return g.id // the activity is the grant's own from the beginning
}

// TakeoverReason returns why the grant could end another; see lease.Guard.TakeoverReason.
func (g *Grant) TakeoverReason() string { return g.special().TookOver }

// Token returns the fencing token of the grant.
func (g *Grant) Token() uint64 { return g.token }

// Name returns the name of the lock.
func (g *Grant) Name() string { return g.cell.Name() }

// Record returns the record of the grant as its holder knows it.
func (g *Grant) Record() *lockrec.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known().Rec
}

// GraceRemaining returns how much of the grace is left; see lease.Guard.GraceRemaining.
func (g *Grant) GraceRemaining() time.Duration {
	g.Check()
	now, sent := g.cell.Space.Clock.SinceStart(), g.lastSent()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken {
		return 0
	}
	set := g.cell.Space.Set
	return max(0, min(set.Grace, sent+set.TTL-set.Margin-now))
}

// OwnOver reports whether the grant is over for the handle itself: its guards were all released. A
// grant that was lost while its guards still exist may have work that is stopping: then OwnOver
// returns how long the lease would have lasted.
func (g *Grant) OwnOver() (over bool, wait time.Duration) {
	now, sent := g.cell.Space.Clock.SinceStart(), g.lastSent()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil || g.detached {
		return false, 0 // attempts join a live grant; and a detached one continues in a ticket
	}
	left := sent + g.cell.Space.Set.TTL - now
	return g.releasing || left <= 0, max(left, 0)
}

// InDoubt reports whether the outcome of the last renewal is not known, and the problem with it.
func (g *Grant) InDoubt() (doubt bool, problem error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known().InDoubt(), g.problem
}

// Releasing returns a channel that is closed when the release of the grant is over, or nil if no
// release is under way.
func (g *Grant) Releasing() <-chan struct{} {
	g.mu.Lock()
	releasing := g.releasing
	g.mu.Unlock()
	if !releasing {
		return nil
	}
	return g.over()
}

// isReleased reports whether the release of the grant is over, and has succeeded.
func (g *Grant) isReleased() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.isOver && g.result == nil
}

func (g *Grant) fail(err error) {
	g.mu.Lock()
	g.acts()
	g.problem = err
	g.mu.Unlock()
}

// Deadline is the end of trust by the wall clock.
func (g *Grant) Deadline() time.Time {
	now := g.cell.Space.Clock.SinceStart()
	return g.cell.Space.Clock.Wall().Add(g.lastSent() + g.cell.Space.Set.Trust() - now)
}

// lastSent is when the write was sent from which the trust counts. For a lock under a session that
// is the last renewal of the session.
func (g *Grant) lastSent() time.Duration {
	if s := g.session(); s != nil {
		g = s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// Cause returns why the grant has ended; nil while the holder may believe in it.
func (g *Grant) Cause() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ended
}

// Follow ends a grant under a session that has ended.
func (g *Grant) Follow(cause error) {
	if lost, ok := cause.(*LostError); ok {
		own := *lost
		g.lose(&own)
		return
	}
	g.Halt(cause)
}

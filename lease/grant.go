package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// grant is one period in which a handle holds its lock. The guards of the handle share it.
type grant struct {
	h      *Handle
	c      *Client
	id     string
	token  uint64
	member *Member // of a lock with several holders, nil for others
	before *Run    // the last run before that of this grant; see [LockOptions.Period]

	mu          sync.Mutex    // never held across I/O
	sent        time.Duration // when the last write known to be applied was sent
	guards      []*Guard
	idle        *time.Timer        // frees the idle grant, when no guard is left and the lock is kept; otherwise nil
	unlisten    context.CancelFunc // ends the goroutine that watches the store, if there is one
	ended       error              // why the grant ended; nil while the holder may believe in it
	yieldStatus *YieldStatus       // the request to yield that the holder has read; nil if none
	yieldCtx    context.Context    // ends when yieldStatus is set; nil until it is needed
	signalYield context.CancelFunc // ends yieldCtx
	problem     error              // of the last renewal
	timer       *time.Timer
	inFlight    context.CancelFunc // ends the write in flight
	isCut       bool               // the grant writes no more
	atRisk      bool
	wanted      bool // others wait for it, so that it is not kept
	releasing   bool // every guard was released
	detached    bool
	taken       bool // another client may hold the lock

	wasLastHolder bool // the grant before this one was of this handle, too

	// The goroutine that has the turn to write the record alone changes the next two. It changes
	// them under mu. So either the turn or mu is enough to read them.
	firm  bool        // the record survives a power cut
	tries *cell.Tries // the record, and renewals over it, of unknown outcome

	rerunAllowed atomic.Bool         // the next grant may follow at once; see [Guard.AllowRerun]
	finishing    atomic.Bool         // a release is under way
	ending       atomic.Pointer[Run] // the end of its run, as the release writes it; see [Guard.SetRunResult]
	renewals     sync.WaitGroup
	result       error

	// Few grants are waited for, so that each of these is made when it is needed. mu guards them.
	writes   chan struct{} // see turn
	stopped  chan struct{} // see stop
	finished chan struct{} // see over
}

func newGrant(ctx context.Context, h *Handle, base, now *cell.Seen, m Member, sent time.Duration, firm bool) *grant {
	g := &grant{
		h: h, c: h.c, id: m.Grant, token: m.Token, sent: sent,
		firm: firm, tries: h.cell.Over(now.Version, now.Rec),
	}
	if m.Mode == ModeShared || m.Mode == ModeSlot {
		g.member = &m
	}
	if h.job != nil {
		g.before = h.job.before[g.id]
	}
	h.mu.Lock()
	g.wasLastHolder = h.grant != nil && base.Rec != nil && base.Rec.Grant == h.grant.id && !h.grant.isDetached()
	h.mu.Unlock()
	if h.under != nil {
		return g // the session renews, and watches the time
	}
	g.mu.Lock()
	g.timer = time.AfterFunc(g.c.space.Set.ClockCheckInterval(), g.tick)
	g.mu.Unlock()
	if !h.c.space.Set.ManualRenewal {
		g.renewals.Go(func() { g.renewAll(context.WithoutCancel(ctx)) })
	}
	return g
}

// tick reads the clocks. It waits for no I/O.
func (g *grant) tick() {
	left := g.check()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended == nil {
		g.timer.Reset(max(time.Millisecond, min(g.c.space.Set.ClockCheckInterval(), left)))
	}
}

// check ends the grant if its time is over, and returns the trust that is left.
func (g *grant) check() time.Duration {
	if s := g.h.under; s != nil {
		left := s.grant().check()
		if left <= 0 {
			g.follow(s.cause())
		}
		if g.cause() != nil {
			return 0
		}
		return left
	}
	now := g.c.space.Clock.SinceStart()
	set := g.c.space.Set
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return 0
	}
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
		g.emit(EventAtRisk, problem)
	}
	return left
}

// lose ends a grant that was not released.
func (g *grant) lose(lost *LostError) {
	e := g.h.event(EventLost)
	if g.isIdle() {
		e.Kind = EventReleased // the grant was idle: no guard loses it
	}
	lost.Name, lost.Session, lost.Token = e.Name, e.Session, g.token
	if g.halt(lost) {
		e.Token, e.Err = g.token, lost
		g.c.emit(e)
	}
}

// emit sends an event of the grant.
func (g *grant) emit(kind EventKind, err error) {
	e := g.h.event(kind)
	e.Token, e.Err = g.token, err
	if kind != EventReleased {
		e.Deadline = g.deadline()
	}
	g.c.emit(e)
}

// event returns an event of the lock, or of the session.
func (h *Handle) event(kind EventKind) Event {
	switch {
	case h.own != nil:
		switch kind {
		case EventAcquired:
			kind = EventOpened
		case EventReleased:
			kind = EventClosed
		}
		return Event{Kind: kind, Session: h.name}
	case h.under != nil:
		return Event{Kind: kind, Name: h.name, Session: h.under.ID()}
	}
	return Event{Kind: kind, Name: h.name}
}

// halt ends the grant: the contexts of all guards first, then the renewals. It reports whether this
// call did it.
func (g *grant) halt(cause error) bool {
	g.mu.Lock()
	if g.ended != nil {
		g.mu.Unlock()
		return false
	}
	g.ended = cause
	g.detached = cause == ErrDetached
	g.taken = mayBeTaken(cause)
	for _, guard := range g.guards {
		guard.end(cause)
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	if g.stopped != nil {
		close(g.stopped)
	}
	idle := g.endIdle()
	if g.unlisten != nil {
		g.unlisten()
	}
	g.mu.Unlock()
	if s := g.h.under; idle && (s == nil || s.cause() == nil) { // no guard is left whose release would free the lock
		go func() { _ = g.release(context.Background(), cause) }()
	}
	if s := g.h.own; s != nil {
		s.end(cause)
	}
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
func (g *grant) over() chan struct{} { return g.made(&g.finished, 0) }

// turn has room for the goroutine that writes the record.
func (g *grant) turn() chan struct{} { return g.made(&g.writes, 1) }

func (g *grant) made(ch *chan struct{}, size int) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *ch == nil {
		*ch = make(chan struct{}, size)
	}
	return *ch
}

// stop is closed when the grant ends.
func (g *grant) stop() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped == nil {
		g.stopped = make(chan struct{})
		if g.ended != nil {
			close(g.stopped)
		}
	}
	return g.stopped
}

func (g *grant) isDetached() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.detached
}

// standing returns the state of the register as the grant knows it. It is called when no goroutine
// writes for the grant any more.
func (g *grant) standing() *cell.Seen {
	turn := g.turn()
	turn <- struct{}{}
	defer func() { <-turn }()
	return &cell.Seen{Version: g.tries.Base, Rec: g.tries.Rec, At: g.c.space.Clock.Monotonic(), Age: -1}
}

func (g *grant) fail(err error) {
	g.mu.Lock()
	g.problem = err
	g.mu.Unlock()
}

// deadline is the end of trust by the wall clock.
func (g *grant) deadline() time.Time {
	now := g.c.space.Clock.SinceStart()
	return g.c.space.Clock.Wall().Add(g.lastSent() + g.c.space.Set.Trust() - now)
}

// lastSent is when the write was sent from which the trust counts. For a lock under a session that
// is the last renewal of the session.
func (g *grant) lastSent() time.Duration {
	if s := g.h.under; s != nil {
		g = s.grant()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sent
}

// guard returns a new guard of the grant, or nil if it is over.
func (g *grant) guard(ctx context.Context) *Guard {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended != nil || g.releasing {
		return nil
	}
	guard := &Guard{g: g, ctx: cell.Unbound(ctx), wasLastHolder: g.endIdle() || g.wasLastHolder}
	g.guards = append(g.guards, guard)
	return guard
}

// guardContext is a context that reads the clocks each time it is queried. A process may be stopped
// past the end of its lease, and its timers may fire late. Err and Done report the end
// nevertheless.
type guardContext struct {
	context.Context
	guard *Guard
}

func (c guardContext) Err() error {
	c.guard.g.check()
	return c.Context.Err()
}

// Value gives waitsForItself the guard.
func (c guardContext) Value(key any) any {
	v := c.Context.Value(key)
	if key == (workKey{}) {
		around, _ := v.(*work)
		return &work{g: c.guard, around: around}
	}
	return v
}

package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// EventKind names what happened to a lease.
type EventKind string

// The events of a lease.
const (
	// EventWaiting: an Acquire found the lock held and waits. It is sent once for each grant that
	// the client waits for, not for each goroutine that waits.
	EventWaiting EventKind = "waiting"

	// EventUnresponsive: the store has answered no request, or no write, of the client's waiters
	// for [UnresponsiveAfter]. It is sent again every 5 s while that lasts, once for all waiters of
	// the client, and only with Options.StoreTimeout.
	EventUnresponsive EventKind = "store unresponsive"

	// EventAcquired: a grant began.
	EventAcquired EventKind = "acquired"

	// EventTakenOver: the grant that began ended another one that had not been released. It is sent
	// just before EventAcquired.
	EventTakenOver EventKind = "taken over"

	// EventRenewed: a renewal was applied.
	EventRenewed EventKind = "renewed"

	// EventAtRisk: a renewal is due, and half of the trust that was left then has passed without
	// one. It is sent once until the next renewal.
	EventAtRisk EventKind = "at risk"

	// EventLost: the lease ended before it was released. The guard's context has ended already.
	EventLost EventKind = "lost"

	// EventYieldRequested: the holder was asked to yield; see [Client.RequestYield]. It is sent
	// once for each grant.
	EventYieldRequested EventKind = "yield requested"

	// EventReleased: the lease was released. If Err is set, the write that frees the lock may not
	// be applied; then the lease expires in the store.
	EventReleased EventKind = "released"

	// EventOpened and EventClosed: a session was opened, or closed. If Err is set, the write of the
	// session's record may not be applied; then the session expires in the store.
	EventOpened EventKind = "session opened"
	EventClosed EventKind = "session closed"

	// EventRevoked: this client has revoked a session of another client, to take a lock that is
	// under it. That session was not renewed in time, or its process is dead.
	EventRevoked EventKind = "session revoked"
)

// When a client reports that the store does not answer; see [EventUnresponsive].
const (
	UnresponsiveAfter  = 3 * time.Second
	unresponsiveRepeat = 5 * time.Second
)

// Event is what happened to one lock, or to a session.
type Event struct {
	Kind     EventKind
	Time     time.Time     // when it happened, by the wall clock
	Name     string        // of the lock; empty if the event is about a session
	Session  string        // the session that the event is about, or that the lock is or will be under
	Token    uint64        // of the grant; when waiting, of the grant waited for
	Holder   string        // when waiting or taking over: the holder of that grant; of a request to yield: the client that requests
	Reason   string        // when taking over: why the old grant was over; of a request to yield: its reason
	Deadline time.Time     // end of the holder's trust, by the wall clock, for display
	Since    time.Time     // when waiting: when that grant began, by its holder's clock
	Wait     time.Duration // when waiting: until a takeover, if the holder is dead; when the store does not answer: until the waiter gives up
	Err      error         // when at risk, lost or released: the error behind it, if any; when the store does not answer: the last error, or nil
	Dropped  int           // how many events were dropped since the last delivered one
}

// maxEvents is how many events wait for a busy handler or logger. Half of it is kept for events
// that change what a holder may do.
const maxEvents = 512

// emit hands an event to the listeners. It waits for nothing: each listener has a queue.
func (c *Client) emit(e Event) {
	e.Time = c.clock.wall()
	for _, l := range c.listeners {
		l.enqueue(e)
	}
}

// listener calls one handler with events, one after the other, in a goroutine that exists while the
// queue has events. Leases never wait for it: when the queue is full, events are dropped and
// counted.
type listener struct {
	tell func(Event)

	mu     sync.Mutex
	queue  []Event
	busy   chan struct{} // while there is a goroutine; closed at its end
	closed bool
	missed int    // since the last event that was queued
	total  uint64 // of those dropped
}

func listeners(o *Options) []*listener {
	var all []*listener
	if o.OnEvent != nil {
		all = append(all, &listener{tell: o.OnEvent})
	}
	if o.Logger != nil {
		all = append(all, &listener{tell: func(e Event) { e.log(o.Logger) }})
	}
	return all
}

func (l *listener) enqueue(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := maxEvents
	if e.Kind == EventRenewed || e.Kind == EventWaiting || e.Kind == EventUnresponsive {
		room /= 2
	}
	if l.closed || len(l.queue) >= room {
		l.missed++
		l.total++
		return
	}
	e.Dropped, l.missed = l.missed, 0
	l.queue = append(l.queue, e)
	if l.busy == nil {
		l.busy = make(chan struct{})
		go l.drain()
	}
}

func (l *listener) drain() {
	rests := false
	defer func() {
		if !rests { // the handler ended the goroutine
			go l.drain()
		}
	}()
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			close(l.busy)
			l.busy, rests = nil, true
			l.mu.Unlock()
			return
		}
		e := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		l.tell(e)
	}
}

// flush waits until the handlers have returned from all earlier events, or ctx ends.
func (l *listener) flush(ctx context.Context) error {
	for {
		l.mu.Lock()
		busy := l.busy
		l.mu.Unlock()
		if busy == nil {
			return nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close drops what is left in the queue, and every event from now on.
func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.total += uint64(len(l.queue))
	l.queue = nil
}

// log writes the event to a logger.
func (e *Event) log(logger *slog.Logger) {
	level := slog.LevelDebug
	switch e.Kind {
	case EventTakenOver, EventAtRisk, EventRevoked:
		level = slog.LevelWarn
	case EventLost:
		level = slog.LevelError
	case EventAcquired, EventYieldRequested, EventReleased, EventOpened, EventClosed:
		level = slog.LevelInfo
	}
	ctx := context.Background()
	if !logger.Enabled(ctx, level) {
		return
	}
	record := slog.NewRecord(e.Time, level, "lease "+string(e.Kind), 0)
	if e.Name != "" {
		record.AddAttrs(slog.String("lock", e.Name), slog.Uint64("token", e.Token))
	}
	if e.Session != "" {
		record.AddAttrs(slog.String("session", e.Session))
	}
	if e.Holder != "" {
		record.AddAttrs(slog.String("holder", e.Holder))
	}
	if e.Reason != "" {
		record.AddAttrs(slog.String("reason", e.Reason))
	}
	if e.Err != nil {
		record.AddAttrs(slog.Any("err", e.Err))
	}
	if e.Dropped > 0 {
		record.AddAttrs(slog.Int("missed", e.Dropped))
	}
	_ = logger.Handler().Handle(ctx, record)
}

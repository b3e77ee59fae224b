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
	// EventWaiting: an Acquire found the lock held and waits. Once for each grant
	// that the client waits for, however many of its goroutines do.
	EventWaiting EventKind = "waiting"

	// EventUnresponsive: the store has answered no request, or no write, of those who wait for
	// [UnresponsiveAfter], and then again every 5 s. It is sent once for all who wait
	// through the client. Only with Options.StoreTimeout.
	EventUnresponsive EventKind = "store silent"

	// EventAcquired: a grant began.
	EventAcquired EventKind = "acquired"

	// EventTakenOver: the grant that began ended one that had not been released.
	// It comes just before EventAcquired.
	EventTakenOver EventKind = "taken over"

	// EventRenewed: a renewal was applied.
	EventRenewed EventKind = "renewed"

	// EventAtRisk: half of the trust that was left when the renewal fell due has
	// passed without one. Once until the next renewal.
	EventAtRisk EventKind = "at risk"

	// EventLost: the lease ended although it was not released. The guard's
	// context has ended already.
	EventLost EventKind = "lost"

	// EventYieldRequested: the holder was asked to give way; see [Client.RequestYield]. Once for each grant.
	EventYieldRequested EventKind = "asked"

	// EventReleased: the lease was released. With an Err the free record may not be in
	// the store; then the lease expires there.
	EventReleased EventKind = "released"

	// EventOpened and EventClosed: a session was opened, or closed. With an Err the record
	// may not say so; then the session expires there.
	EventOpened EventKind = "session opened"
	EventClosed EventKind = "session closed"

	// EventRevoked: this client has ended the session of another client, which was not
	// renewed or whose process is dead, to take a lock that is under it.
	EventRevoked EventKind = "session fenced"
)

// When a client reports that the store does not answer; see [EventUnresponsive].
const (
	UnresponsiveAfter  = 3 * time.Second
	unresponsiveRepeat = 5 * time.Second
)

// Event tells of one lock, or of a session.
type Event struct {
	Kind     EventKind
	Time     time.Time     // when it happened, by the wall clock
	Name     string        // of the lock; empty if it tells of a session
	Session  string        // the session that it tells of, or that the lock is or will be under
	Token    uint64        // of the grant; when waiting, of the grant waited for
	Holder   string        // when waiting or taking over: whose grant it is or was; when asked: the client that asks
	Reason   string        // when taking over: how the old grant was known to be over; when asked: why
	Deadline time.Time     // end of the holder's trust, by the wall clock, for display
	Since    time.Time     // when waiting: when that grant began, by its holder's clock
	Wait     time.Duration // when waiting: until a takeover, if the holder is dead; when silent: until it gives up
	Err      error         // when at risk, lost, released: why, if there is more to say; when silent: the last error, or nil
	Dropped  int           // how many events were dropped since the one delivered before
}

// maxEvents is how many events wait for a handler, or for a logger, that is busy. Half
// of it is kept for events that change what a holder may do.
const maxEvents = 512

// emit tells of an event. It waits for nothing: each listener has a queue.
func (c *Client) emit(e Event) {
	e.Time = c.clock.wall()
	for _, l := range c.listeners {
		l.enqueue(e)
	}
}

// listener tells one handler of events, one after the other, in a goroutine that exists
// while there is something to tell. What happens to the leases never waits for it: when
// the queue is full, events are dropped and counted.
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

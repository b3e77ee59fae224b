package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// EventKind names what happened to a lease.
type EventKind string

// The events of a lease.
const (
	// EventWaiting: an Acquire found the lock held, and waits. For each grant that the client
	// waits for, it sends this event once, even if several goroutines wait.
	EventWaiting EventKind = "waiting"

	// EventUnresponsive: for the time [UnresponsiveAfter] the store has answered no request, or
	// no write, of the client's waiters. The client repeats the event every 5 s, once for all
	// its waiters. It sends this event only with Options.StoreTimeout.
	EventUnresponsive EventKind = "store unresponsive"

	// EventAcquired: a grant began.
	EventAcquired EventKind = "acquired"

	// EventTakenOver: the new grant ended another grant that had not been released. The client
	// sends it just before EventAcquired.
	EventTakenOver EventKind = "taken over"

	// EventRenewed: a renewal was applied.
	EventRenewed EventKind = "renewed"

	// EventAtRisk: a renewal was due but has not succeeded, and half of the time between the due
	// time and the deadline has passed. The client sends this event at most once until the next
	// renewal.
	EventAtRisk EventKind = "at risk"

	// EventLost: the lease ended before it was released. The guard's context has ended already.
	EventLost EventKind = "lost"

	// EventYieldRequested: another client asked the holder to yield; see [Client.RequestYield].
	// The client sends it once for each grant.
	EventYieldRequested EventKind = "yield requested"

	// EventReleased: the lease was released. If Err is set, the store may not have applied the
	// write that frees the lock. Then the lease expires in the store.
	EventReleased EventKind = "released"

	// EventOpened and EventClosed: a session was opened, or closed. If Err is set, the store may
	// not have applied the write of the session's record. Then the session expires in the store.
	EventOpened EventKind = "session opened"
	EventClosed EventKind = "session closed"

	// EventRevoked: this client has revoked a session of another client, to take a lock under
	// that session. The session was not renewed in time, or its process is dead.
	EventRevoked EventKind = "session revoked"
)

// If the store has answered nothing for the time UnresponsiveAfter, a client sends
// [EventUnresponsive].
const UnresponsiveAfter = cell.UnresponsiveAfter

// Event reports what happened to one lock, or to a session.
type Event struct {
	Kind     EventKind
	Time     time.Time     // when it happened, by the wall clock
	Name     string        // name of the lock; empty if the event is about a session
	Session  string        // session of the event, or of the lock
	Token    uint64        // token of the grant; for a waiter, token of the grant that it waits for
	Holder   string        // for a waiter: holder of the lock; for a takeover: holder of the old grant; for a request to yield: the requesting client
	Reason   string        // for a takeover: why the old grant was over; for a request to yield: its reason
	Deadline time.Time     // time until which the holder trusts its lease, by the wall clock, for display
	Since    time.Time     // for a waiter: start of the grant that it waits for, by the holder's clock
	Wait     time.Duration // for a waiter: time until the takeover if the holder is dead; for an unresponsive store: time until the waiter gives up
	Err      error         // error that caused the risk, the loss or the failure of a release, if any; for an unresponsive store: the last error, or nil
	Dropped  int           // number of events that were dropped since the last delivered event
}

// maxEvents is how many events wait for a busy handler or logger. Half of it is kept for events
// that change what a holder may do.
const maxEvents = 512

// emit hands an event to the listeners. It waits for nothing: each listener has a queue.
func (c *Client) emit(e Event) {
	e.Time = c.space.Clock.Wall()
	for _, l := range c.listeners {
		l.enqueue(e)
	}
}

// unresponsive returns the function that sends e with the time that is left until a wait ends, and
// the last error of the store.
func (c *Client) unresponsive(e Event) func(left time.Duration, last error) {
	return func(left time.Duration, last error) {
		e.Wait, e.Err = left, last
		c.emit(e)
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

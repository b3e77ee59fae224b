// Package event hands what happened to leases to those who listen. Leases never wait for them.
package event

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Kind is lease.EventKind.
type Kind string

// The kinds of events; package lease documents them.
const (
	Waiting        Kind = "waiting"
	Unresponsive   Kind = "store unresponsive"
	Acquired       Kind = "acquired"
	TakenOver      Kind = "taken over"
	Renewed        Kind = "renewed"
	AtRisk         Kind = "at risk"
	Lost           Kind = "lost"
	YieldRequested Kind = "yield requested"
	Released       Kind = "released"
	Failed         Kind = "not acquired"
	Opened         Kind = "session opened"
	Closed         Kind = "session closed"
	Revoked        Kind = "session revoked"
)

// Event has the fields of lease.Event, which documents them.
type Event struct {
	Kind     Kind
	Time     time.Time
	Name     string
	Session  string
	Token    uint64
	Holder   string
	Reason   string
	Deadline time.Time
	Since    time.Time
	Wait     time.Duration
	Err      error
	Dropped  int

	Took         time.Duration
	StopsWaiting bool
}

// maxEvents is how many events wait for a busy handler or logger. Half of it is kept for events
// that change what a holder may do.
const maxEvents = 512

// Listeners are the handlers of the events of one client.
type Listeners []*listener

// Add adds a handler of all events.
func (all *Listeners) Add(handle func(Event)) { *all = append(*all, &listener{tell: handle}) }

// AddLogger adds a logger of all events.
func (all *Listeners) AddLogger(logger *slog.Logger) { all.Add(func(e Event) { e.log(logger) }) }

// Emit hands an event to the listeners. It waits for nothing: each listener has a queue.
func (all Listeners) Emit(e Event) {
	for _, l := range all {
		l.enqueue(e)
	}
}

// Flush waits until the handlers have returned from all earlier events, or ctx ends.
func (all Listeners) Flush(ctx context.Context) error {
	var errs []error
	for _, l := range all {
		errs = append(errs, l.flush(ctx))
	}
	return errors.Join(errs...)
}

// Close drops what is left in the queues, and every event from now on.
func (all Listeners) Close() {
	for _, l := range all {
		l.close()
	}
}

// Dropped returns the number of events that were dropped, by all listeners together.
func (all Listeners) Dropped() (n uint64) {
	for _, l := range all {
		l.mu.Lock()
		n += l.total
		l.mu.Unlock()
	}
	return n
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

func (l *listener) enqueue(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := maxEvents
	if e.Kind == Renewed || e.Kind == Waiting || e.Kind == Unresponsive || e.Kind == Failed {
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
	case TakenOver, AtRisk, Revoked:
		level = slog.LevelWarn
	case Lost:
		level = slog.LevelError
	case Acquired, YieldRequested, Released, Opened, Closed:
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

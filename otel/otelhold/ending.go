package otelhold

import (
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

const (
	// MaxEnding is the largest number of spans that wait for the exporter. At this number, new spans are
	// not recorded.
	MaxEnding = 4096

	// patience is how long a call waits until its spans have ended.
	patience = time.Second
)

// ending ends spans, one after the other, in a goroutine that exists while there are any. The end of a span can
// wait for an exporter, and the request of a renewal must not.
type ending struct {
	mu    sync.Mutex
	queue []func()
	busy  bool // there is a goroutine

	stuck atomic.Bool // a call has waited in vain
}

// isFull reports whether no further span should begin.
func (e *ending) isFull() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue) >= MaxEnding
}

// end ends a span with the present time.
func (e *ending) end(span trace.Span) {
	if !span.IsRecording() {
		return // it was not sampled
	}
	at := trace.WithTimestamp(time.Now())
	e.add(func() { span.End(at) })
}

// endAndWait is end, and waits until this span and the earlier ones have ended, but not long. So a program that
// shuts its provider down after a call loses no span of the call.
func (e *ending) endAndWait(span trace.Span) {
	if !span.IsRecording() {
		return
	}
	at, done := trace.WithTimestamp(time.Now()), make(chan struct{})
	e.add(func() {
		span.End(at)
		e.stuck.Store(false)
		close(done)
	})
	if e.stuck.Load() {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		e.stuck.Store(true)
	}
}

func (e *ending) add(end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = append(e.queue, end)
	if !e.busy {
		e.busy = true
		go e.run()
	}
}

func (e *ending) run() {
	for {
		e.mu.Lock()
		if len(e.queue) == 0 {
			e.queue, e.busy = nil, false
			e.mu.Unlock()
			return
		}
		end := e.queue[0]
		e.queue = e.queue[1:]
		e.mu.Unlock()
		end()
	}
}

package cell

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// If the store has answered nothing for the time UnresponsiveAfter, it is reported, and then again
// after each UnresponsiveRepeat.
const (
	UnresponsiveAfter  = 3 * time.Second
	UnresponsiveRepeat = 5 * time.Second
)

// storeHealth is for how long a client's store has not answered the waiters. One goroutine that
// waits long for its answer proves nothing: the program itself may have sent thousands of requests
// before. So the answers to all waiters count.
//
// An answered read shows only that reads are answered. On a full disk they are, and writes are not.
type storeHealth struct {
	mu       sync.Mutex
	answered time.Time // when a request was answered last
	wrote    time.Time // when a write was
	reported time.Time // when an event was sent last
	err      error     // of the last request that failed
}

// Unanswered is what a wait has requested of the store without an answer. A wait is one of three:
// the first goroutine of a wait queue for all of them, one out of its turn, or an opening of a
// session. The mutex of the client's storeHealth guards it.
type Unanswered struct {
	request time.Time // the first request that was sent since an answer; zero: none
	write   time.Time // the first write that has failed since a write was answered; zero: none
	paused  time.Time // since when there is nothing to write; zero: there is something, or no write has failed
}

// StoreTimeout ends a context when the store has not answered for long.
type StoreTimeout struct {
	limit time.Duration
	late  time.Duration // how long a request may have to wait by design
	space *Space
	s     *storeHealth
	began time.Time
	end   context.CancelCauseFunc
	event event.Event // that reports that the store does not answer

	of    *Unanswered // guarded by s.mu, as is the rest
	timer *time.Timer // nil when the timeout has ended
}

type storeTimeoutKey struct{}

// unresponsiveError ends a context whose store timeout has passed. It matches [ErrUnresponsive] and
// [store.ErrUnavailable], and states no outcome: the write that it interrupts may have been
// applied.
type unresponsiveError struct {
	limit  time.Duration
	writes bool  // only writes are unanswered
	last   error // the last error of the store before; may be nil
}

func (e *unresponsiveError) Error() string {
	what := "request"
	if e.writes {
		what = "write"
	}
	return fmt.Sprintf("the store has answered no %s for %v", what, e.limit)
}

func (e *unresponsiveError) Is(target error) bool {
	return target == ErrUnresponsive || target == store.ErrUnavailable
}

// WithStoreTimeout returns a context that ends with Options.StoreTimeout. Without that option it
// lasts as long as ctx does. While the store does not answer and the timeout has not passed, the
// event is sent, with the time left and the last error.
func (c *Space) WithStoreTimeout(ctx context.Context, e event.Event) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	if c.Set.StoreTimeout <= 0 {
		return ctx, func() { end(nil) }
	}
	p := &StoreTimeout{
		limit: max(c.Set.StoreTimeout, 2*c.Set.Traits.MinWriteTime), late: c.Set.WriteTime(), space: c, s: &c.Health, began: time.Now(), end: end,
		of:    &Unanswered{},
		event: e,
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.timer = time.AfterFunc(min(p.limit, UnresponsiveAfter), p.check)
	return context.WithValue(ctx, storeTimeoutKey{}, p), func() {
		p.stop()
		end(nil)
	}
}

func StoreTimeoutOf(ctx context.Context) *StoreTimeout {
	p, _ := ctx.Value(storeTimeoutKey{}).(*StoreTimeout)
	return p
}

func (p *StoreTimeout) stop() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// check reports a store that does not answer, or ends the wait.
func (p *StoreTimeout) check() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.timer == nil {
		return
	}
	now := time.Now()
	silent, writes := p.unansweredFor(now)
	left := p.limit - silent
	switch {
	case left <= 0:
		p.timer = nil
		p.end(&unresponsiveError{p.limit, writes, p.s.err})
		return
	case silent < UnresponsiveAfter:
		p.timer.Reset(min(left, UnresponsiveAfter-silent))
		return
	case now.Sub(p.s.reported) >= UnresponsiveRepeat:
		p.s.reported = now
		e := p.event
		e.Wait, e.Err = left, p.s.err
		p.space.Emit(e)
	}
	p.timer.Reset(min(left, UnresponsiveRepeat))
}

// unansweredFor returns how long the store has not answered, and whether only its writes fail. The
// caller holds s.mu.
func (p *StoreTimeout) unansweredFor(now time.Time) (silent time.Duration, writes bool) {
	if sent := p.of.request; !sent.IsZero() {
		silent = now.Sub(latest(sent, p.began, p.s.answered).Add(p.late))
	}
	if sent := p.of.write; !sent.IsZero() && p.of.paused.IsZero() {
		if d := now.Sub(latest(sent, p.began, p.s.wrote).Add(p.late)); d > silent {
			silent, writes = d, true
		}
	}
	return max(silent, 0), writes
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// Share makes p one of several that wait for the same answers.
func (p *StoreTimeout) Share(of *Unanswered) {
	if p == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.of = of
}

// sent notes that a request is sent now.
func (p *StoreTimeout) sent(now time.Time) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.of.request.IsZero() {
		p.of.request = now
	}
}

// answered notes the result of a request that was sent at that time.
func (p *StoreTimeout) answered(sent time.Time, write bool, err error) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	now := time.Now()
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
		p.s.answered, p.of.request = now, time.Time{}
		if write {
			p.s.wrote, p.s.err = now, nil
			p.of.write, p.of.paused = time.Time{}, time.Time{}
		}
		return
	}
	p.s.err = err
	if p.of.request.IsZero() {
		p.of.request = sent
	}
	switch {
	case !write:
	case p.of.write.IsZero(), p.s.wrote.After(p.of.paused) && !p.of.paused.IsZero():
		p.of.write, p.of.paused = sent, time.Time{}
	case !p.of.paused.IsZero():
		p.of.write, p.of.paused = p.of.write.Add(sent.Sub(p.of.paused)), time.Time{}
	}
}

// Pause notes that the waits of an unanswered have nothing to read or to write for now.
func (s *storeHealth) Pause(of *Unanswered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.request = time.Time{}
	if !of.write.IsZero() && of.paused.IsZero() {
		of.write, of.paused = latest(of.write, s.wrote), time.Now()
	}
}

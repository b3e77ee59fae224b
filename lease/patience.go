package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// silence is what a client knows of how long its store has been silent for those who wait. One
// goroutine that waits long for its answer tells nothing: the program itself may have sent
// thousands of requests before. So the answers to all who wait count.
//
// An answered read shows only that reads are answered. On a full disk they are, and no write is.
type silence struct {
	mu       sync.Mutex
	answered time.Time // when a request was answered last
	wrote    time.Time // when a write was
	reported time.Time // when an event was sent last
	err      error     // of the last request that failed
}

// unanswered is what a wait has asked of the store without an answer: the first goroutine of a line
// for all of them, one out of its turn, or an opening of a session. The mutex of the client's silence guards it.
type unanswered struct {
	request time.Time // the first request that was sent since an answer; zero: none
	write   time.Time // the first write that has failed since a write was answered; zero: none
	paused  time.Time // since when there is nothing to write; zero: there is, or none has failed
}

// patience ends a context when the store has been silent for long.
type patience struct {
	limit time.Duration
	late  time.Duration // for which a request may have to wait by design
	s     *silence
	began time.Time
	end   context.CancelCauseFunc
	tell  func(left time.Duration, last error) // that the store is silent

	of    *unanswered // guarded by s.mu, as is the rest
	timer *time.Timer // nil when it has ended
}

type patienceKey struct{}

// silentError ends a context whose patience is over. It matches [ErrSilent] and [store.ErrUnavailable],
// and states no outcome: the write that it interrupts may have been applied.
type silentError struct {
	limit  time.Duration
	writes bool  // reads are answered
	last   error // the last one before; may be nil
}

func (e *silentError) Error() string {
	what := "request"
	if e.writes {
		what = "write"
	}
	return fmt.Sprintf("the store has answered no %s for %v", what, e.limit)
}

func (e *silentError) Is(target error) bool {
	return target == ErrSilent || target == store.ErrUnavailable
}

// withPatience returns a context that ends with the options' patience. Without one it
// lasts as long as ctx does. The event, with the rest of the patience and the last error, is sent
// while the store is silent for shorter than that.
func (c *Client) withPatience(ctx context.Context, e Event) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	if c.set.Patience <= 0 {
		return ctx, func() { end(nil) }
	}
	p := &patience{
		limit: max(c.set.Patience, 2*c.set.traits.WriteTime), late: c.set.writeTime(), s: &c.silence, began: time.Now(), end: end,
		of: &unanswered{},
		tell: func(left time.Duration, last error) {
			e.Wait, e.Err = left, last
			c.emit(e)
		},
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.timer = time.AfterFunc(min(p.limit, FirstSilence), p.look)
	return context.WithValue(ctx, patienceKey{}, p), func() {
		p.stop()
		end(nil)
	}
}

func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}

func (p *patience) stop() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// look tells of a store that is silent, or ends the wait.
func (p *patience) look() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.timer == nil {
		return
	}
	now := time.Now()
	silent, writes := p.silent(now)
	left := p.limit - silent
	switch {
	case left <= 0:
		p.timer = nil
		p.end(&silentError{p.limit, writes, p.s.err})
		return
	case silent < FirstSilence:
		p.timer.Reset(min(left, FirstSilence-silent))
		return
	case now.Sub(p.s.reported) >= NextSilence:
		p.s.reported = now
		p.tell(left, p.s.err)
	}
	p.timer.Reset(min(left, NextSilence))
}

// silent returns for how long the store has been silent, and whether only its writes fail. The
// caller holds s.mu.
func (p *patience) silent(now time.Time) (silent time.Duration, writes bool) {
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

// share makes p one of several that wait for the same answers.
func (p *patience) share(of *unanswered) {
	if p == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.of = of
}

// sends notes that a request is sent, and returns when.
func (p *patience) sends() time.Time {
	now := time.Now()
	if p != nil {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		if p.of.request.IsZero() {
			p.of.request = now
		}
	}
	return now
}

// hears notes what became of a request that was sent at that time.
func (p *patience) hears(sent time.Time, write bool, err error) {
	if p == nil {
		return
	}
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

// rest notes that the waits of an unanswered have nothing to ask for, nor to write, for now.
func (s *silence) rest(of *unanswered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of.request = time.Time{}
	if !of.write.IsZero() && of.paused.IsZero() {
		of.write, of.paused = latest(of.write, s.wrote), time.Now()
	}
}

package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// patience ends a context when the store has answered no request for long: the time
// counts from the first request that was sent since the last answer.
type patience struct {
	limit time.Duration
	end   context.CancelCauseFunc
	tell  func(left time.Duration) // that the store is silent

	mu    sync.Mutex
	timer *time.Timer // runs while a request has no answer
	since time.Time   // of that
}

type patienceKey struct{}

// silentError ends a context whose patience is over. It matches [ErrSilent] and [store.ErrUnavailable],
// and states no outcome: the write that it interrupts may have been applied.
type silentError struct{ limit time.Duration }

func (e *silentError) Error() string {
	return fmt.Sprintf("the store has answered no request for %v", e.limit)
}

func (e *silentError) Is(target error) bool {
	return target == ErrSilent || target == store.ErrUnavailable
}

// withPatience returns a context that ends with the options' patience. Without one it
// lasts as long as ctx does. tell hears of a store that is silent for shorter than that.
func (s *settings) withPatience(ctx context.Context, tell func(left time.Duration)) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	if s.Patience <= 0 {
		return ctx, func() { end(nil) }
	}
	p := &patience{limit: max(s.Patience, 2*s.traits.WriteTime), end: end, tell: tell}
	return context.WithValue(ctx, patienceKey{}, p), func() {
		p.answered()
		end(nil)
	}
}

func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}

// asked notes that a request is sent.
func (p *patience) asked() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		p.since = time.Now()
		p.timer = time.AfterFunc(min(p.limit, FirstSilence), p.due)
	}
}

// due tells of a store that is still silent, or ends the wait.
func (p *patience) due() {
	p.mu.Lock()
	if p.timer == nil {
		p.mu.Unlock()
		return // it has answered just now
	}
	left := p.limit - time.Since(p.since)
	if left > 0 {
		p.timer.Reset(min(left, NextSilence))
	}
	p.mu.Unlock()
	if left <= 0 {
		p.end(&silentError{p.limit})
		return
	}
	p.tell(left)
}

// answered notes that the store has answered.
func (p *patience) answered() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

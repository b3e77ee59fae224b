package trylock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease/trylock"
	"github.com/holdfast-go/holdfast/store"
)

// call is one call that the backend of the tests got.
type call struct {
	n        int // the first call is 1
	holder   string
	duration time.Duration
	at       time.Time
}

// frees reports whether the call ends a lease.
func (c call) frees() bool { return c.duration == 0 }

// fault is what happens to a call. The zero value is an ordinary call.
type fault struct {
	fail   bool          // it is refused, and not applied
	err    error         // it is refused with this error
	lost   bool          // the reply is lost
	before time.Duration // it is applied so much later
	after  time.Duration // the reply comes so much later
	hang   chan struct{} // it ignores its context, and is applied and answered when this is closed
	exit   bool          // it is applied, and ends its goroutine
	behind time.Duration // the reply is lost at once, and the call is applied so much later
}

var errLost = errors.New("the connection was cut")

// row is a lock in the memory of a server.
type row struct {
	holder     string
	expires    time.Time
	generation uint64
}

// server is a store with a try-lock in memory, which makes faults.
type server struct {
	callersClock bool // the end of a lease counts from the beginning of the call
	plain        bool // it has no generation

	mu    sync.Mutex
	rows  map[string]row
	calls []call
	fault func(c call) fault
	jump  time.Duration // of its wall clock
}

func (s *server) TryLock(ctx context.Context, key, holder string, d time.Duration) (uint64, bool, error) {
	s.mu.Lock()
	c := call{n: len(s.calls) + 1, holder: holder, duration: d, at: time.Now()}
	s.calls = append(s.calls, c)
	var f fault
	if s.fault != nil {
		f = s.fault(c)
	}
	s.mu.Unlock()
	wait := func(d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	switch {
	case f.fail:
		return 0, false, store.MarkNotApplied(errLost)
	case f.err != nil:
		return 0, false, f.err
	case f.hang != nil:
		<-f.hang
	case f.behind > 0:
		time.AfterFunc(f.behind, func() { s.apply(key, holder, d, c.at) })
		return 0, false, errLost
	case f.before > 0:
		if err := wait(f.before); err != nil {
			return 0, false, err
		}
	}
	generation, obtained := s.apply(key, holder, d, c.at)
	if f.exit {
		runtime.Goexit()
	}
	if f.after > 0 {
		if err := wait(f.after); err != nil {
			return 0, false, err
		}
	}
	if f.lost {
		return 0, false, errLost
	}
	return generation, obtained, nil
}

// apply is the statement of the store.
func (s *server) apply(key, holder string, d time.Duration, began time.Time) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().Add(s.jump)
	if s.callersClock {
		now = began.Add(s.jump)
	}
	r, ok := s.rows[key]
	switch {
	case ok && r.holder != holder && !r.expires.Before(now):
		return 0, false
	case !ok || r.holder != holder:
		r.holder, r.generation = holder, r.generation+1
	}
	r.expires = now.Add(d)
	if s.rows == nil {
		s.rows = map[string]row{}
	}
	s.rows[key] = r
	if s.plain {
		return 0, true
	}
	return r.generation, true
}

// setFault makes the faults of the next calls.
func (s *server) setFault(f func(c call) fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// isFree reports whether another holder could take the lock now.
func (s *server) isFree(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[key]
	return !ok || !r.expires.After(time.Now().Add(s.jump))
}

func (s *server) all() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[:len(s.calls):len(s.calls)]
}

// count returns the number of calls that match.
func (s *server) count(match func(call) bool) int {
	n := 0
	for _, c := range s.all() {
		if match(c) {
			n++
		}
	}
	return n
}

// nth makes a fault of the call n, counted from 1 over all calls.
func nth(n int, f fault) func(call) fault {
	return func(c call) fault {
		if c.n == n {
			return f
		}
		return fault{}
	}
}

// newHandle returns a handle with a lease of 10 s, which it trusts for 8 s.
func newHandle(t *testing.T, s *server) *trylock.Handle {
	t.Helper()
	return newHandleWith(t, s, trylock.Options{})
}

func newHandleWith(t *testing.T, s *server, o trylock.Options) *trylock.Handle {
	t.Helper()
	if o.TTL == 0 {
		o.TTL, o.Margin, o.RenewInterval = 10*time.Second, 2*time.Second, 3*time.Second
	}
	h, err := trylock.New(s, "job", &o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustTry(t *testing.T, h *trylock.Handle) *trylock.Guard {
	t.Helper()
	g, err := h.TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustRelease(t *testing.T, g *trylock.Guard) {
	t.Helper()
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// clocks are the clocks of one machine: those of the bubble, and what a test adds to them.
type clocks struct {
	mu                sync.Mutex
	jumped, suspended time.Duration
	stopped           time.Duration // of the monotonic clock
}

func (c *clocks) read() trylock.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return trylock.Reading{Mono: now.Add(-c.stopped), Wall: now.Round(0).Add(c.jumped), Suspended: c.suspended}
}

func (c *clocks) change(f func(c *clocks)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

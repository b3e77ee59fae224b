package holding

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/event"
	"github.com/holdfast-go/holdfast/store"
)

// Session is a session with the locks under it.
type Session struct {
	c     *Client
	h     *Holder       // of the session's record
	guard *belief.Guard // of the session's grant; set when that begins
	plain *scope        // of the locks under the session

	count   atomic.Uint64 // numbers the grants under the session
	closing atomic.Bool
	closed  chan struct{} // closed when Close is over
	result  error

	mu        sync.Mutex // never held across I/O, nor while that of a grant is taken
	over      bool       // the session has ended: no lock is added
	locks     []*belief.Grant
	claims    map[string]int // claims that are under way, by the name of the lock
	idle      chan struct{}  // closed when none is, where Close waits for that
	leftovers []*leftover
	tidying   sync.WaitGroup
	tidies    bool            // a goroutine tries to free the leftovers
	toCheck   map[string]bool // the locks whose records have to be read, since others have written into them
	checking  bool            // a goroutine reads them
	named     []string        // in the same way, when a renewal has taken them out of the session's record
}

// OpenSession opens a session. It tries again after a temporary error.
func (c *Client) OpenSession(ctx context.Context) (*Session, error) {
	ctx, cancel := c.Space.Bind(ctx)
	defer cancel(nil)
	ctx, stop := c.Space.WithStoreTimeout(ctx, event.Event{Kind: event.Unresponsive})
	defer stop()
	for pause := c.Space.Backoff(c.Space.Set.MinPoll, c.Space.Set.MaxPoll); ; {
		s, err := c.openSession(ctx)
		if err == nil || store.Permanent(err) {
			return s, err
		}
		if ctx.Err() != nil || pause.Wait(ctx) != nil {
			return nil, fmt.Errorf("opening a session: %w: %w", store.Cause(ctx), err)
		}
	}
}

// openSession tries once.
func (c *Client) openSession(ctx context.Context) (*Session, error) {
	key, err := c.Space.SessionKey(rand.Text())
	if err != nil {
		return nil, err
	}
	s := &Session{c: c, h: &Holder{}, closed: make(chan struct{})}
	s.plain = &scope{c: c, Under: s}
	s.h.init(key, &scope{c: c, own: s})
	defer s.h.use()()
	if _, err = s.h.attemptOver(ctx, nil, false, false); err != nil {
		return nil, err
	}
	return s, nil
}

// Grant returns the grant of the session's own record.
func (s *Session) Grant() *belief.Grant { return s.guard.Grant() }

// nextGrant returns the id of a new grant under the session.
func (s *Session) nextGrant() string {
	return lockrec.GrantID(s.ID(), s.count.Add(1))
}

// ready says why no lock can be taken under the session now, nil if one can: the session is
// over, or the outcome of its last renewal is not known.
func (s *Session) ready() error {
	if err := s.Err(); err != nil {
		return err
	}
	doubt, problem := s.Grant().InDoubt()
	if !doubt {
		return nil
	}
	if problem == nil {
		return fmt.Errorf("session %s: %w", s.h.Name(), ErrSessionInDoubt)
	}
	return store.MarkNotApplied(fmt.Errorf("session %s: %w: %w", s.h.Name(), ErrSessionInDoubt, problem))
}

// beginClaim counts a claim of a lock under the session, unless the session takes no lock now.
func (s *Session) beginClaim(name string) error {
	if err := s.ready(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.cause()
	}
	if s.claims == nil {
		s.claims = map[string]int{}
	}
	s.claims[name]++
	return nil
}

func (s *Session) endClaim(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[name]--; s.claims[name] == 0 {
		delete(s.claims, name)
	}
	if len(s.claims) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// add registers a lock that was granted under the session, unless the session is over.
func (s *Session) add(g *belief.Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		g.Place = uint32(len(s.locks))
		s.locks = append(s.locks, g)
	}
	return !s.over
}

func (s *Session) remove(g *belief.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.locks) - 1; int(g.Place) <= n && s.locks[g.Place] == g {
		last := s.locks[n]
		s.locks[g.Place], last.Place = last, g.Place
		s.locks = slices.Delete(s.locks, n, n+1)
	}
}

// all returns the locks that are not released, or not yet.
func (s *Session) all() []*belief.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.locks)
}

// cause is why the session has ended.
func (s *Session) cause() error { return s.Grant().Cause() }

// end ends the belief in all locks under the session, which has ended itself.
func (s *Session) end(cause error) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	for _, g := range s.all() {
		g.Follow(cause)
	}
}

// maxReleases bounds the requests that give the locks of a session back at the same time.
const maxReleases = 16

func (s *Session) close(ctx context.Context) error {
	ctx, cancel := s.c.Space.Ending(ctx)
	defer cancel()
	err := s.Grant().Release(ctx, cell.ErrClosed)
	releases := InParallel(s.all(), maxReleases, func(g *belief.Grant) error {
		if !g.ReleaseFirst(ctx, cell.ErrClosed) && !g.AwaitRelease(ctx) { // a release that began later may last longer
			return belief.ErrUnfinished
		}
		return nil // a lock that was not freed is a leftover
	})
	s.tidying.Wait() // it ends with the session
	freed := s.drain(ctx) && errors.Join(releases...) == nil
	s.mu.Lock()
	leftovers := s.leftovers
	s.leftovers = nil
	s.mu.Unlock()
	if errors.Is(err, belief.ErrLost) {
		return err // all is free when the session is fenced
	}
	withdrawn := InParallel(leftovers, maxReleases, func(l *leftover) error { return l.withdraw(ctx) })
	if freed && errors.Join(withdrawn...) == nil {
		return nil // each lock was freed by itself
	}
	return err
}

// drain waits until no claim is under way, and reports whether that was in time.
func (s *Session) drain(ctx context.Context) bool {
	s.mu.Lock()
	if len(s.claims) == 0 {
		s.mu.Unlock()
		return true
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// remember keeps a leftover: without that its lock would be taken for as long as the session
// lives.
func (s *Session) remember(l *leftover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftovers = append(s.leftovers, l)
	s.freeLeftovers()
}

// tidy reads the locks that its record names, and tries to free the leftovers again, after
// a renewal has shown that the store answers.
func (s *Session) tidy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueCheck(s.named...)
	s.named = nil
	s.startChecks()
	s.freeLeftovers()
}

// freeLeftovers tries to free the leftovers, once. The caller holds s.mu.
func (s *Session) freeLeftovers() {
	if s.over || s.tidies || len(s.leftovers) == 0 {
		return
	}
	all := s.leftovers
	s.leftovers, s.tidies = nil, true
	s.tidying.Go(func() {
		ctx, cancel := context.WithTimeout(s.Context(), s.c.Space.Set.ReleaseTimeout)
		defer cancel()
		errs := InParallel(all, maxReleases, func(l *leftover) error { return l.withdraw(ctx) })
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, l := range all {
			if errs[i] != nil {
				s.leftovers = append(s.leftovers, l)
			}
		}
		s.tidies = false
	})
}

// ID returns the random id of the session.
func (s *Session) ID() string { return s.h.Name() }

// Err reads the clocks, and returns why the session has ended.
func (s *Session) Err() error { return s.guard.Err() }

// Context returns a context that ends with the session.
func (s *Session) Context() context.Context { return s.guard.Context() }

// Renew renews the session now.
func (s *Session) Renew(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	return s.Grant().Renew(ctx, true, nil)
}

// Close ends the session, and then frees the records of its locks.
func (s *Session) Close(ctx context.Context) error {
	if !s.closing.CompareAndSwap(false, true) {
		<-s.closed
		return s.result
	}
	defer close(s.closed) // if a call of the store panics, too
	s.result = belief.ErrUnfinished
	s.result = s.close(ctx)
	return s.result
}

package holding

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
)

// notifySession names a lock in the record of a session, unless it is named there or the session is
// over. The caller has changed the lock's own record before.
func (c *Client) notifySession(ctx context.Context, id, name string) error {
	if own := c.Session(id); own != nil {
		own.checkLock(name)
		return nil
	}
	of, err := c.Space.Session(id)
	if err != nil {
		return err
	}
	base, err := of.Inspect(ctx)
	if err != nil {
		return err
	}
	waits := false // several goroutines wait: one write names the locks of all of them
	_, err = of.Change(ctx, base, lockrec.Cause{}, func(s *cell.Seen) (*lockrec.Record, error) {
		waits = waits || c.Space.IsContended(s.Rec)
		return lockrec.Notify(s.Rec, name, waits, s.Age), nil
	})
	return err
}

// NotifySessions is notifySession for several sessions.
func (c *Client) NotifySessions(ctx context.Context, name string, sessions []string) error {
	return errors.Join(InParallel(sessions, maxReleases, func(id string) error { return c.notifySession(ctx, id, name) })...)
}

// notifyBroken notifies the sessions that hold a broken lock, on behalf of a waiter for it, once
// for each break. The client that broke the lock may have died before it did so.
func (h *Holder) notifyBroken(ctx context.Context, l *waiting.Queue, s *cell.Seen) {
	if s.Rec.State != lockrec.Broken || s.Rec.Immediate || l.NotifiedBreak == s.Rec.Nonce {
		return
	}
	if h.c.NotifySessions(ctx, h.Name(), lockrec.SessionsOf(lockrec.Possessors(s.Rec))) == nil { // otherwise the next read tries again
		l.NotifiedBreak = s.Rec.Nonce
	}
}

// checkLock makes the session read the record of that lock now. It waits for nothing.
func (s *Session) checkLock(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueCheck(name)
	s.startChecks()
}

// queueCheck makes startChecks read the records of those locks. The caller holds s.mu.
func (s *Session) queueCheck(names ...string) {
	if s.toCheck == nil {
		s.toCheck = map[string]bool{}
	}
	for _, name := range names {
		s.toCheck[name] = true
	}
}

// addNamed notes the locks that the session's record names. They are read when the next renewal has
// removed the names. While a name is in the record, a client that writes into the record of that
// lock does not name it again.
func (s *Session) addNamed(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.named = append(s.named, names...)
}

// IsChecked reports whether the session has read a lock's record that it had to read.
func (s *Session) IsChecked(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.checking && !s.toCheck[name] && !s.toCheck[lockrec.AllLocks]
}

// startChecks begins to read the records that are due, unless that is under way. After the next
// renewal it reads again those that it could not read, and those that may show a claim that is
// under way. The caller holds s.mu.
func (s *Session) startChecks() {
	if s.over || s.checking || len(s.toCheck) == 0 {
		return
	}
	s.checking = true
	s.tidying.Go(func() {
		ctx, cancel := context.WithTimeout(s.Context(), s.c.Space.Set.TTL)
		defer cancel()
		for {
			s.mu.Lock()
			names, claims := s.toCheck, maps.Clone(s.claims)
			s.toCheck = nil
			s.mu.Unlock()
			left := s.checkOnce(ctx, names, claims)
			s.mu.Lock()
			more := len(s.toCheck) > 0 // named meanwhile
			s.queueCheck(left...)
			s.checking = more && ctx.Err() == nil
			again := s.checking
			s.mu.Unlock()
			if !again {
				return
			}
		}
	})
}

// checkOnce reads the records of those locks, and returns the names of those to be read again.
// claims are those that were under way before the reads.
func (s *Session) checkOnce(ctx context.Context, names map[string]bool, claims map[string]int) (left []string) {
	all := slices.DeleteFunc(s.all(), func(g *belief.Grant) bool { return !names[lockrec.AllLocks] && !names[g.Name()] })
	held, known := map[string]bool{}, map[string]bool{}
	for i, err := range InParallel(all, maxReleases, func(g *belief.Grant) error { return g.CheckUnderSession(ctx) }) {
		held[all[i].Name()], known[all[i].ID()] = true, true
		if err != nil {
			left = append(left, all[i].Name())
		}
	}
	var others []string
	for name := range names {
		if name != lockrec.AllLocks && !held[name] && claims[name] == 0 {
			others = append(others, name)
		}
	}
	for name := range claims {
		if names[name] || names[lockrec.AllLocks] {
			others = append(others, name)
		}
	}
	for i, err := range InParallel(others, maxReleases, func(name string) error { return s.freeOrphan(ctx, name, known) }) {
		if err != nil {
			left = append(left, others[i])
		}
	}
	return left
}

// freeOrphan frees a lock whose record names a grant of the session that no guard has: the record
// was restored from an older copy. Otherwise the lock would stay taken for as long as the session
// lives. freeOrphan returns an error if the grant belongs to a claim that is under way, or that has
// ended since the known grants were read. Then the record is to be read again.
func (s *Session) freeOrphan(ctx context.Context, name string, known map[string]bool) error {
	h, err := s.c.Holder(name, s)
	if err != nil {
		return err
	}
	now, err := h.Cell.Fetch(ctx)
	if err != nil || now.Rec == nil {
		return err
	}
	s.mu.Lock()
	claimed := s.claims[name] > 0 // read before the grants, where a claim registers its own
	s.mu.Unlock()
	for _, grant := range lockrec.GrantsOf(now.Rec, s.ID()) {
		switch {
		case known[grant]:
			continue
		case claimed || s.find(grant) != nil:
			return ErrSessionInDoubt
		}
		if err := h.leftover(now, grant).withdraw(ctx); err != nil {
			return err
		}
	}
	return nil
}

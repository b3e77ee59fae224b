package avisofile

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/group"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// After each commit the store leaves the lock free for a share of the time that the
	// commit took, between these bounds. In this time other programs can take the lock, and
	// callers that just got their answer can join the next commit.
	minGap   = 100 * time.Microsecond
	maxGap   = time.Millisecond
	gapShare = 16
)

// commitStats describes one period in which a store held the lock.
type commitStats struct {
	Calls         int           // calls that shared it
	Rewrites      int           // rewrites of the state file: 0 or 1
	FenceRewrites int           // rewrites of the fence file: 0, 1 or 2
	Bytes         int           // size of the new state file; 0 without a rewrite
	Waited        time.Duration // for the lock
	Held          time.Duration
	Err           error // the error of all calls, if they all failed
}

// op is a change in progress. The store's mutex guards its fields.
type op struct {
	change
	*group.Waiter
	answer answer
}

// run commits until no call waits any more.
func (s *Store) run() {
	for {
		time.Sleep(time.Until(s.next))
		start := time.Now()
		h, err := s.acquire()
		if h == nil && err == nil {
			return
		}
		held := time.Now()
		batch := s.take()
		c := commitStats{Calls: len(batch), Waited: held.Sub(start)}
		if err == nil {
			err = s.commit(h, batch, &c)
			h.release()
		}
		c.Held = time.Since(held)
		s.next = time.Now().Add(min(max(c.Held/gapShare, minGap), maxGap))
		if errors.Is(err, errMoved) && store.OutcomeOf(err) == store.NotApplied {
			s.mu.Lock()
			s.queue.PutBack(batch)
			s.mu.Unlock()
			continue
		}
		c.Err = err
		s.finish(batch, err)
		if s.opts.onCommit != nil {
			s.opts.onCommit(c)
		}
	}
}

// acquire takes the lock. If it returns neither a lock nor an error, no call waits any
// more and the goroutine must end.
func (s *Store) acquire() (*hold, error) {
	if !s.callsWait() {
		return nil, nil
	}
	h, err := s.lock.acquire(nil, s.callsWait)
	return h, store.MarkNotApplied(denied(err))
}

// commit carries out the batch under the lock. Its error concerns the whole batch, and
// states its outcome.
func (s *Store) commit(h *hold, batch []*op, c *commitStats) error {
	if !s.swept {
		if err := h.sweep(); err != nil {
			return store.MarkNotApplied(denied(err))
		}
		s.swept = true
	}
	v, p, err := s.fresh(nil)
	if err != nil {
		return store.MarkNotApplied(denied(err))
	}
	if !p.equal(h.path) {
		return store.MarkNotApplied(errMoved)
	}
	w := s.applyAll(batch, v)
	next, err := s.write(h, w, c)
	if err != nil {
		s.swept = false // a failed write may have left something
		next = nil      // the next call reads the files again
		if len(w.guards) > 0 && c.FenceRewrites > 0 && !errors.Is(err, errMoved) {
			err = store.MarkUnknown(err) // the new tokens and epochs stay
		}
	}
	s.mu.Lock()
	old := s.setLastView(next)
	s.mu.Unlock()
	old.closeUnless(next)
	return err
}

// applyAll carries out the calls in memory, one after the other.
func (s *Store) applyAll(batch []*op, v *view) *work {
	w := &work{base: v, entries: make(map[digest]*entry), guards: make(map[digest]guard)}
	// While this store has the lock, no other writer is in the middle of a change.
	// The next change of the file records that.
	w.fences, _ = v.fences.confirmed()
	for _, o := range batch {
		o.answer = w.apply(&o.change)
	}
	return w
}

// write makes the changes in w durable, in an order that is safe if the power is cut
// between any two steps: the fences, the state, then the mark that nothing is pending. It
// returns the view of the files after that.
//
// After a sync that failed it rewrites the files even if their content is right: a second
// sync can succeed although the first has lost data.
func (s *Store) write(h *hold, w *work, c *commitStats) (*view, error) {
	v := w.base
	next := &view{stateSnapshot: v.stateSnapshot, fenceSnapshot: v.fenceSnapshot, state: v.state, fences: w.fences}
	doubt := s.doubt.Swap(false)
	if err := s.writeBoth(h, w, next, doubt, c); err != nil {
		if doubt || store.OutcomeOf(err) == store.Unknown {
			s.doubt.Store(true)
		}
		next.closeUnless(v)
		return nil, err
	}
	if confirmed, pending := next.fences.confirmed(); pending {
		// If this fails, the next program that takes the lock finds the mark and removes
		// it.
		if err := s.writeFences(h, next, confirmed, c); err != nil {
			next.fences = confirmed
			s.doubt.Store(true)
		}
	}
	next.durable.Store(true)
	return next, nil
}

// writeBoth rewrites the files that have changed; after a failed sync it rewrites both.
func (s *Store) writeBoth(h *hold, w *work, next *view, doubt bool, c *commitStats) error {
	v := w.base
	if !v.durable.Load() {
		if err := v.fenceSnapshot.sync(); err != nil { // the new state will rely on it
			s.doubt.Store(true)
			return store.MarkNotApplied(err)
		}
	}
	// A change that was stopped has left its mark, for which readers take the lock.
	unmark := w.written && v.fenceSnapshot.pending
	if len(w.guards) > 0 || doubt && v.fenceSnapshot.info != nil || unmark {
		if err := s.writeFences(h, next, w.fences.with(w.guards), c); err != nil {
			return err
		}
	}
	if w.written || doubt && v.stateSnapshot.info != nil {
		return s.writeState(h, next, v.state.with(w.entries), c)
	}
	// Not v: a Get may have read the new fence file, and closed that of v.
	next.durable.Store(v.durable.Load())
	if err := next.sync(h.path); err != nil {
		return store.MarkUnknown(fmt.Errorf("the content of %s may not survive a power cut: %w", h.path.file(), err))
	}
	return nil
}

// writeFences rewrites the fence file.
func (s *Store) writeFences(h *hold, next *view, f fences, c *commitStats) error {
	m, err := h.replaceFences(f)
	if err != nil {
		return err
	}
	m.pending = f.pending()
	c.FenceRewrites++
	if c.FenceRewrites > 1 {
		next.fenceSnapshot.close() // this commit made it
	}
	next.fenceSnapshot, next.fences = m, f
	return nil
}

// writeState rewrites the state file.
func (s *Store) writeState(h *hold, next *view, state state, c *commitStats) error {
	content := encode(state)
	if len(content) > maxStateFile {
		return fmt.Errorf("%w: the new state file would have %d bytes; at most %d are allowed", store.ErrTooLarge, len(content), maxStateFile)
	}
	m, err := h.replace(h.path.file(), content, func() error { return h.writeBackup(next) })
	if err != nil {
		return err
	}
	c.Rewrites++
	c.Bytes = len(content)
	next.stateSnapshot, next.state = m, state
	return nil
}

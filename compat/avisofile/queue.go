package avisofile

import (
	"cmp"
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/group"
	"github.com/holdfast-go/holdfast/store"
)

// Calls that need the lock wait in a queue. While there are any, one goroutine takes the
// lock, carries out all calls that wait by then together, and answers them. If callers
// leave, it still finishes what it began, so that the memory always agrees with the disk.

// do queues a change and waits for its answer.
func (s *Store) do(ctx context.Context, c change) (answer, error) {
	if err := store.CheckContext(ctx); err != nil {
		return answer{}, err
	}
	o := &op{change: c, Waiter: group.NewWaiter()}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return answer{}, checkpoint.ErrClosed
	}
	if shown, ok := s.shown[c.key]; ok {
		o.LastShown = &shown
		o.Epoch = cmp.Or(o.Epoch, shown.Epoch)
	}
	s.queue.Add(o)
	if !s.running {
		s.running = true
		s.idle = make(chan struct{})
		go s.run()
	}
	s.mu.Unlock()
	answered, err := s.queue.Wait(ctx, o)
	if !answered {
		return answer{}, err
	}
	return o.answer, err
}

// callsWait reports whether a call waits. If none does, it marks the goroutine of the
// queue as ended. Once the context of Close has ended, it answers the waiting calls with
// ErrClosed.
func (s *Store) callsWait() bool {
	s.mu.Lock()
	waiting := s.queue.Take(nil)
	if s.killed {
		for _, o := range waiting {
			o.Finish(checkpoint.ErrClosed)
		}
		waiting = nil
	}
	if len(waiting) > 0 {
		s.queue.PutBack(waiting)
		s.mu.Unlock()
		return true
	}
	back := s.lock.leave() // before another goroutine can use s.lock
	s.running = false
	idle := s.idle
	last := s.dispose()
	s.mu.Unlock()
	giveBack(back)
	last.closeUnless(nil)
	close(idle)
	return false
}

// take removes the waiting calls from the queue, and marks them as sent.
func (s *Store) take() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch := s.queue.Take(nil)
	for _, o := range batch {
		o.Sent = true
	}
	return batch
}

// finish answers the calls of a batch. err, if not nil, is the answer to all.
func (s *Store) finish(batch []*op, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range batch {
		if err != nil {
			o.answer = answer{err: err}
		} else {
			s.note(o)
		}
		o.Finish(o.answer.err)
	}
}

// note remembers the state that the answer to a call shows to the user. The caller holds
// the mutex.
func (s *Store) note(o *op) {
	now := o.answer.current
	if o.Verb != checkpoint.VerbAdvance {
		if !o.Abandoned && o.answer.err == nil {
			s.shown[o.key] = now
		}
		return
	}
	if o.answer.status == checkpoint.RolledBack {
		return
	}
	was, known := s.shown[o.key]
	ahead := now.Epoch == was.Epoch && now.Exists && (!was.Exists || now.Sequence > was.Sequence)
	if !known || ahead {
		s.shown[o.key] = now
	}
}

// Close implements [checkpoint.Store]. Close first waits for earlier calls. If the context ends
// during this wait, calls that still wait for the lock fail with [checkpoint.ErrClosed], and Close
// does not wait for a write in progress.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	if !s.running {
		last := s.dispose()
		s.mu.Unlock()
		last.closeUnless(nil)
		return nil
	}
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.killed = true
		s.mu.Unlock()
		return store.Cause(ctx)
	}
}

// dispose returns the view whose files the caller must close, once the store is closed
// and its goroutine has ended. The caller holds the mutex.
func (s *Store) dispose() *view {
	if !s.closed || s.disposed {
		return nil
	}
	s.disposed = true
	return s.setLastView(nil)
}

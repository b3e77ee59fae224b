package avisofile

import (
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
)

// Calls that need the lock join a queue. While there are any, one goroutine takes
// the lock, carries all that have come by then out together, and answers them. A
// caller waits for its answer or for the end of its own context, whichever is first:
// what was begun is brought to its end without it, so that memory always follows the
// disk.

// do queues a change and waits for what becomes of it.
func (s *Store) do(ctx context.Context, c change) (answer, error) {
	if err := store.CheckContext(ctx); err != nil {
		return answer{}, err
	}
	o := &op{change: c, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return answer{}, checkpoint.ErrClosed
	}
	if shown, ok := s.shown[c.key]; ok {
		o.Shown = &shown
		if o.Epoch == 0 {
			o.Epoch = shown.Epoch
		}
	}
	s.queue = append(s.queue, o)
	if !s.running {
		s.running = true
		s.idle = make(chan struct{})
		go s.run()
	}
	s.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		if err := s.leave(ctx, o); err != nil {
			return answer{}, err
		}
	}
	return o.answer, o.err
}

// leave takes a call back whose context has ended, as far as that is possible. It
// returns nil if the answer has come meanwhile.
func (s *Store) leave(ctx context.Context, o *op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-o.done:
		return nil
	default:
	}
	o.gone = true
	if o.taken {
		return store.MarkUnknown(context.Cause(ctx))
	}
	return store.MarkNotApplied(context.Cause(ctx))
}

// anybody reports whether a call waits. If none does, the goroutine of the queue is
// over. After the end of Close none may wait.
func (s *Store) anybody() bool {
	s.mu.Lock()
	waiting := s.queue[:0]
	for _, o := range s.queue {
		switch {
		case o.gone:
		case s.killed:
			o.err = checkpoint.ErrClosed
			close(o.done)
		default:
			waiting = append(waiting, o)
		}
	}
	clear(s.queue[len(waiting):])
	s.queue = waiting
	if len(waiting) > 0 {
		s.mu.Unlock()
		return true
	}
	s.running = false
	idle := s.idle
	last := s.dispose()
	s.mu.Unlock()
	last.closeUnless(nil)
	close(idle)
	return false
}

// take takes the calls that are still waiting off the queue.
func (s *Store) take() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []*op
	for _, o := range s.queue {
		if !o.gone {
			o.taken = true
			batch = append(batch, o)
		}
	}
	s.queue = nil
	return batch
}

// putBack puts calls of which nothing was written back to the head of the queue.
func (s *Store) putBack(batch []*op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range batch {
		o.taken = false
	}
	s.queue = append(batch, s.queue...)
}

// finish answers the calls of a batch. err, if not nil, is the answer to all.
func (s *Store) finish(batch []*op, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range batch {
		if err != nil {
			o.answer, o.err = answer{}, err
		} else {
			o.err = o.answer.err
			s.note(o)
		}
		close(o.done)
	}
}

// note remembers what the answer to a call has shown to the user. The caller holds
// the mutex.
func (s *Store) note(o *op) {
	now := o.answer.current
	if o.Verb != checkpoint.VerbAdvance {
		if !o.gone && o.err == nil {
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

// Close implements [checkpoint.Keeper]. Calls that have come before it are answered
// first; when the context ends, those that still wait for the lock fail with
// [checkpoint.ErrClosed], and one write that may be under way ends on its own.
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
		return context.Cause(ctx)
	}
}

// dispose returns the view whose files are to be closed now, since the store was
// closed and nothing runs any more. The caller holds the mutex.
func (s *Store) dispose() *view {
	if !s.closed || s.gone {
		return nil
	}
	s.gone = true
	return s.setKnown(nil)
}

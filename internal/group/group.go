// Package group is the queue of a group commit: calls wait while a writer is busy, and the
// writer then takes all of them from the queue at once.
//
// A caller waits for its answer or for the end of its context, whichever is first. The
// end of one caller's context does not stop the writer, which continues for the other
// callers. So the memory never differs from the disk because a caller left.
package group

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Waiter is the part of a call that the queue knows. The mutex of its [Queue] guards
// the fields.
type Waiter struct {
	Abandoned bool   // the caller has left
	Sent      bool   // the call is part of a write that may have been applied
	OnAbandon func() // called with the mutex held when the caller leaves, if not nil

	err  error
	done chan struct{} // closed by Finish
}

// NewWaiter returns the Waiter of a call.
func NewWaiter() *Waiter { return &Waiter{done: make(chan struct{})} }

// GroupWaiter returns t. A call embeds *Waiter, and so can wait in a [Queue].
func (t *Waiter) GroupWaiter() *Waiter { return t }

// Finish answers the call. Set the rest of the answer before. The caller holds the
// mutex.
func (t *Waiter) Finish(err error) {
	t.err = err
	close(t.done)
}

// Queue holds calls in the order in which they came. Its zero value is not usable: it
// shares the mutex of its owner. The callers of all methods except Wait hold that mutex.
type Queue[C interface{ GroupWaiter() *Waiter }] struct {
	Mu      *sync.Mutex
	waiting []C
}

// Add puts a call at the end of the queue.
func (q *Queue[C]) Add(c C) { q.waiting = append(q.waiting, c) }

// Len returns how many calls are in the queue, those whose callers have left included.
func (q *Queue[C]) Len() int { return len(q.waiting) }

// Take takes calls from the queue whose callers still wait: the first, and those after it,
// up to one that does not fit with the first. A nil fits takes all of them.
func (q *Queue[C]) Take(fits func(first, c C) bool) []C {
	var batch []C
	for i, c := range q.waiting {
		if c.GroupWaiter().Abandoned {
			continue
		}
		if len(batch) > 0 && fits != nil && !fits(batch[0], c) {
			clear(q.waiting[:i])
			q.waiting = q.waiting[i:]
			return batch
		}
		batch = append(batch, c)
	}
	q.waiting = nil
	return batch
}

// PutBack returns calls to the head of the queue. Nothing was written for them.
func (q *Queue[C]) PutBack(batch []C) {
	for _, c := range batch {
		c.GroupWaiter().Sent = false
	}
	q.waiting = append(batch, q.waiting...)
}

// Wait waits until the call is concluded, and returns the error that it was concluded
// with. If ctx ends before, Wait withdraws the call: answered is then false, and the
// error is the cause of ctx, with an unknown outcome if the call is part of a write that
// may have been applied. The rest of the answer may be read only if answered is true.
func (q *Queue[C]) Wait(ctx context.Context, c C) (answered bool, err error) {
	t := c.GroupWaiter()
	select {
	case <-t.done:
		return true, t.err
	case <-ctx.Done():
	}
	q.Mu.Lock()
	defer q.Mu.Unlock()
	select {
	case <-t.done:
		return true, t.err
	default:
	}
	t.Abandoned = true
	if t.OnAbandon != nil {
		t.OnAbandon()
	}
	if t.Sent {
		return false, store.MarkUnknown(context.Cause(ctx))
	}
	return false, store.MarkNotApplied(context.Cause(ctx))
}

// Package group is the queue of a group commit. Calls wait in the queue while a writer is busy. Then the
// writer takes all waiting calls at once.
//
// A caller waits for its answer or for the end of its context, whichever is first. If the context of one
// caller ends, the writer continues for the other callers. So the state in memory always agrees with the
// state on the disk.
package group

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// Waiter is the part of a call that the queue uses. The mutex of its [Queue] guards the fields.
type Waiter struct {
	Abandoned bool   // the caller no longer waits
	Sent      bool   // the call is part of a write that may have been applied
	OnAbandon func() // if not nil, called when the caller stops waiting; the mutex is then held

	err  error
	done chan struct{} // closed by Finish
}

// NewWaiter returns the Waiter of a call.
func NewWaiter() *Waiter { return &Waiter{done: make(chan struct{})} }

// GroupWaiter returns t. A call that embeds *Waiter has this method, so it can wait in a [Queue].
func (t *Waiter) GroupWaiter() *Waiter { return t }

// Finish answers the call with this error. Set the other fields of the answer before, and hold the mutex.
func (t *Waiter) Finish(err error) {
	t.err = err
	close(t.done)
}

// Queue holds calls in the order in which they came. Set Mu before the first use: it is the mutex of the
// owner. Hold Mu during calls of all methods except Wait.
type Queue[C interface{ GroupWaiter() *Waiter }] struct {
	Mu      *sync.Mutex
	waiting []C
}

// Add puts a call at the end of the queue.
func (q *Queue[C]) Add(c C) { q.waiting = append(q.waiting, c) }

// Len returns the number of calls in the queue, including abandoned calls.
func (q *Queue[C]) Len() int { return len(q.waiting) }

// Take removes a batch of calls from the queue and returns it, without abandoned calls. The batch has the
// first call and all calls after it, up to the first call that does not fit. The function fits reports
// whether a call can be in one batch with the first call. If fits is nil, all calls fit.
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

// PutBack puts calls back at the head of the queue. The writer has written nothing for them.
func (q *Queue[C]) PutBack(batch []C) {
	for _, c := range batch {
		c.GroupWaiter().Sent = false
	}
	q.waiting = append(batch, q.waiting...)
}

// Wait waits until the call is answered, and returns the error of the answer. If ctx ends first, Wait
// abandons the call, and answered is false. The error is then the cause of ctx. Its outcome is unknown if
// the call is part of a write that may have been applied. Read the other fields of the answer only if
// answered is true.
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
		return false, store.MarkUnknown(store.Cause(ctx))
	}
	return false, store.MarkNotApplied(store.Cause(ctx))
}

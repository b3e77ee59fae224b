package waiting

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// Watched returns the client's store for one goroutine that watches the record of c. If batch polls
// serve the client, the store reports changes by them. The caller calls leave.
func (q *Queues) Watched(c *cell.Cell) (st store.Store, leave func()) {
	if q.batchPolls == nil {
		return q.space.Store, func() {}
	}
	queue, w, leave := q.Alone(c)
	return &watched{q.space.Store, c, queue, w}, leave
}

// watched is a store that notes the reads of one record, and reports when that may have changed.
type watched struct {
	store.Store
	c     *cell.Cell
	queue *Queue
	w     *Waiter
}

// Get implements [store.Store].
func (s *watched) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	q := s.queue.of
	began, at := q.ReadBegins(), q.space.Clock.Monotonic()
	value, v, err := s.Store.Get(ctx, key)
	if err == nil {
		q.ReadAnswered(key, began, at, v)
	}
	return value, v, err
}

// Watch implements [store.Watcher].
func (s *watched) Watch(ctx context.Context, _ string, seen store.Version) error {
	for {
		s.queue.PollEvery(s.c.Space.Set.MaxPoll)
		s.queue.BeginPause(s.c, Look{Wait: lockrec.MaxTTL})
		if s.w.pause(ctx, time.Until(s.queue.until)); ctx.Err() != nil {
			return store.Cause(ctx)
		}
		if !s.queue.endPause(ctx, seen) {
			return nil
		}
	}
}

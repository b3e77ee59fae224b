// Package workerpool runs a job for each part of a large body, a few at a time, and bounds what
// they hold in memory together.
package workerpool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Pool runs jobs. Its methods but those of the jobs are for one goroutine.
type Pool struct {
	ctx    context.Context // of the jobs of one call
	cancel context.CancelCauseFunc
	most   int
	budget int64

	mu      sync.Mutex
	changed *sync.Cond
	working int
	held    int64
	err     error
	wg      sync.WaitGroup
}

// New returns a crew of which most work at a time, and hold budget bytes at most together;
// a budget of 0 does not count.
func New(ctx context.Context, most int, budget int64) *Pool {
	c := &Pool{most: most, budget: budget}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.changed = sync.NewCond(&c.mu)
	return c
}

// WaitRoom waits until there is room for a job that holds so many bytes. One job alone may
// hold any number. It returns false when a job has failed, or the context has ended.
func (c *Pool) WaitRoom(size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.working > 0 && (c.working == c.most || c.budget > 0 && c.held+size > c.budget) {
		c.changed.Wait()
	}
	if c.err == nil && c.ctx.Err() != nil {
		c.err = context.Cause(c.ctx)
	}
	return c.err == nil
}

// Go starts a job.
func (c *Pool) Go(size int64, job func(context.Context) error) {
	c.mu.Lock()
	c.working++
	c.held += size
	c.mu.Unlock()
	c.wg.Go(func() {
		err := errExit
		defer func() {
			if err != nil {
				c.Stop(err, true)
			}
			c.mu.Lock()
			c.working--
			c.held -= size
			c.changed.Broadcast()
			c.mu.Unlock()
		}()
		err = job(c.ctx)
	})
}

// errExit is the error of a job that did not return: it called [runtime.Goexit], as a test
// does that fails.
var errExit = errors.New("the goroutine of a request was ended by what it called")

// Stop lets no job begin any more, and ends those that are at work if cut is set. The
// first error is that of the crew.
func (c *Pool) Stop(err error, cut bool) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	if cut {
		c.cancel(err)
	}
}

// Wait waits for all jobs.
func (c *Pool) Wait() error {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the jobs that are still at work, and does not wait for them. [Pool.Wait]
// waits.
func (c *Pool) Close() { c.cancel(nil) }

// Each calls f for each number below n, for so many at a time, and waits for all.
func Each(n, most int, f func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(most, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// Package workerpool runs a job for each part of a large body. It bounds the number of jobs at the same
// time, and their total memory.
package workerpool

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/store"
)

// Pool runs jobs. Only one goroutine may call its methods; the jobs run in other goroutines.
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

// New returns a pool. The parameter most is the largest number of jobs at the same time. The parameter
// budget is the largest total memory of the jobs, in bytes; 0 means no limit.
func New(ctx context.Context, most int, budget int64) *Pool {
	c := &Pool{most: most, budget: budget}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.changed = sync.NewCond(&c.mu)
	return c
}

// WaitRoom waits until the pool has room for a job that needs size bytes. If no other job runs, there is
// room for a job of any size. If a job has failed, or the context has ended, WaitRoom returns false.
func (c *Pool) WaitRoom(size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && c.working > 0 && (c.working == c.most || c.budget > 0 && c.held+size > c.budget) {
		c.changed.Wait()
	}
	if c.err == nil && c.ctx.Err() != nil {
		c.err = store.Cause(c.ctx)
	}
	return c.err == nil
}

// Go starts a job that needs size bytes.
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

// Stop makes WaitRoom return false, so that no further job begins. If cut is true, Stop also ends the
// context of the running jobs. The error of the first Stop is the error of the pool.
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

// Wait waits for all jobs, and returns the error of the pool.
func (c *Pool) Wait() error {
	c.wg.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the context of the running jobs, and does not wait for them. To wait for them, call
// [Pool.Wait].
func (c *Pool) Close() { c.cancel(nil) }

// Each calls f for each number from 0 to n-1, and waits until all calls have ended. It returns their errors in
// order. The parameter most is the largest number of calls at the same time.
func Each(n, most int, f func(i int) error) []error {
	errs := slices.Repeat([]error{errExit}, n)
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(most, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = f(i)
			}
		})
	}
	wg.Wait()
	return errs
}

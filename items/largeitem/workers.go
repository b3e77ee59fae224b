package largeitem

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/store"
)

// workers makes requests, some at a time, and no more in a second than it may.
type workers struct {
	parallel int
	pace     *pace
}

// newWorkers returns a team. A rate of 0 sets no limit.
func newWorkers(parallel, rate int) workers {
	p := new(pace)
	if rate > 0 {
		p.every = time.Second / time.Duration(rate)
	}
	return workers{parallel, p}
}

// each does a job for each number below n for which it is due, and waits for all. due is
// asked in order; nil means always. each returns the first error of a job, which lets no
// other begin.
func (t workers) each(ctx context.Context, n int, due func(int) bool, job func(context.Context, int) error) error {
	c := workerpool.New(ctx, t.parallel, 0)
	defer c.Close()
	for i := range n {
		if due != nil && !due(i) {
			continue
		}
		if err := t.pace.wait(ctx); err != nil {
			c.Stop(err, false)
			break
		}
		if !c.WaitRoom(0) {
			break
		}
		c.Go(0, func(ctx context.Context) error { return job(ctx, i) })
	}
	return c.Wait()
}

// pace says when requests may begin, for one goroutine.
type pace struct {
	every time.Duration
	next  time.Time
}

// wait waits until the next request may begin. It returns the cause when ctx ends.
func (p *pace) wait(ctx context.Context) error {
	if p.every > 0 {
		at := time.Now()
		if pause := p.next.Sub(at); pause > 0 {
			_ = backoff.Sleep(ctx, pause)
			at = p.next
		}
		p.next = at.Add(p.every)
	}
	return store.Cause(ctx)
}

// requestTries is how often a request is made while its store is unavailable.
const requestTries = 3

// again makes a request that may be repeated, until it is answered.
func again[T any](ctx context.Context, s *Store, request func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := request()
		if !errors.Is(err, store.ErrUnavailable) || try == requestTries || s.sleep(ctx, try+4) != nil {
			return v, err
		}
	}
}

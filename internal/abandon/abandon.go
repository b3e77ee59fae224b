// Package abandon ends the wait for calls that ignore the end of their context. An example is a system
// call on a disk that hangs.
//
// Each call runs in its own goroutine. If the call has not returned within the time [After] after the end
// of its context, its caller gets an error. The error says that the outcome of a write is unknown. The
// call is then abandoned: its goroutine continues, and its result is not used.
package abandon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// After is the time for which a call may continue after the end of its context. In this time the
	// call can still report its outcome.
	After = 200 * time.Millisecond

	// Max is the largest number of abandoned calls for one key. At this number, further calls for the
	// key fail immediately.
	Max = 16
)

// Calls counts abandoned calls. The zero value is ready for use. Several goroutines may use it.
type Calls struct {
	mu   sync.Mutex
	left map[string]int // abandoned calls that have not returned, by key
}

// Abandoned returns the number of abandoned calls that have not returned yet. Each of them keeps a
// goroutine.
func (c *Calls) Abandoned() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.left {
		n += k
	}
	return n
}

// Do returns the result of f. If ctx ends, Do returns at the latest when the time [After] is over. The
// function f must not use memory that the caller changes later, because f may continue after Do has
// returned. If Do returns an error, the result is the zero value.
func Do[T any](ctx context.Context, c *Calls, key string, f func() (T, error)) (T, error) {
	if ctx.Done() == nil {
		return f()
	}
	var zero T
	c.mu.Lock()
	n := c.left[key]
	c.mu.Unlock()
	if n >= Max {
		return zero, store.MarkNotApplied(fmt.Errorf("the store does not answer: %d abandoned calls for %q have not returned", n, key))
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	isLeft := false // guarded by c.mu, as is sending on done
	go func() {
		growStack()
		r := result{err: errors.New("the store's call ended its goroutine (runtime.Goexit)")}
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !isLeft {
				done <- r
			} else if c.left[key]--; c.left[key] == 0 {
				delete(c.left, key)
			}
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(After)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case r := <-done:
		return r.value, r.err
	default:
	}
	isLeft = true
	if c.left == nil {
		c.left = map[string]int{}
	}
	c.left[key]++
	return zero, store.MarkUnknown(fmt.Errorf("the call did not return when its context ended, and was abandoned: %w", store.Cause(ctx)))
}

// growStack makes room on the stack of a new goroutine for a call of a store. Otherwise the stack grows two
// or three times during the call, and each time the runtime copies all frames.
//
//go:noinline
func growStack() byte {
	var room [6 << 10]byte
	return room[len(os.Args)&1]
}

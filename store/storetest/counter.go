package storetest

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/store"
)

// A Counter is a decorator that counts the calls of a store by their operation. With it, a test can check
// the cost of a protocol. Its methods may be called from any number of goroutines.
type Counter struct {
	store.Store

	mu    sync.Mutex
	calls map[store.Kind]int
}

// NewCounter returns a store that passes every call on to s and counts it.
func NewCounter(s store.Store) *Counter {
	c := &Counter{calls: make(map[store.Kind]int)}
	c.Store = store.Intercept(s, func(ctx context.Context, op *store.Op, next store.Handler) error {
		c.mu.Lock()
		c.calls[op.Kind]++
		c.mu.Unlock()
		return next(ctx, op)
	})
	return c
}

// As finds the abilities of the store below the Counter. The Counter also counts their calls. As also
// finds c itself.
func (c *Counter) As(target any) bool {
	if t, ok := target.(**Counter); ok {
		*t = c
		return true
	}
	return c.Store.(interface{ As(target any) bool }).As(target)
}

// Calls returns the number of calls of these kinds since the last [Counter.Reset]. If kinds is empty, it
// counts all operations except watches.
func (c *Counter) Calls(kinds ...store.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, kind := range kinds {
		n += c.calls[kind]
	}
	if len(kinds) > 0 {
		return n
	}
	for kind, calls := range c.calls {
		if kind != store.OpWatch {
			n += calls
		}
	}
	return n
}

// Reset sets all counts to zero.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.calls)
}

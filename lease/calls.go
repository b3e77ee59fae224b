package lease

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// abandonAfter is how long a call may go on after its context has ended, to tell what
	// became of it. Then it is left behind.
	abandonAfter = 200 * time.Millisecond

	// maxAbandoned is how many requests for one key may be left behind before further ones
	// fail at once; and so many watches of it, and calls of a presence.
	maxAbandoned = 16

	// cacheTimeout bounds one call of a [Cache].
	cacheTimeout = time.Second
)

// calls carries out every call that a client makes of its store, of the store's
// abilities and of its memory. It alone decides how long a call is waited for, and what
// a client that was closed may still send.
//
// A call that ignores the end of its context is left behind: it goes on in its own
// goroutine, it is counted, and nothing uses its result. What it may still write does no
// harm, since every write is conditional on a version: a renewal, a release or a claim
// that arrives late changes nothing if anything else was written meanwhile, and
// otherwise makes waiters wait up to a TTL more or less, while no holder believes
// in that grant.
type calls struct {
	limit time.Duration   // of one request
	life  context.Context // ends when the client is closed

	mu        sync.Mutex
	abandoned map[string]int // calls that were left behind and have not returned, by what they were for

	took atomic.Int64 // see takes
}

// takes is about how long a request takes: the slow ones of the last few count.
func (c *calls) takes() time.Duration { return time.Duration(c.took.Load()) }

// note notes how long a request took that was answered.
func (c *calls) note(took time.Duration) {
	old := c.took.Load()
	c.took.Store(max(int64(took), old-old/4))
}

// outliving marks the contexts of requests that the end of the client does not touch:
// those of a grant, which Close ends in its own way, and of the end of a lease.
type outliving struct{}

func outlive(ctx context.Context) context.Context {
	return context.WithValue(ctx, outliving{}, true)
}

// ending returns a context for ending a lease or making a claim harmless. It heeds
// neither the end of ctx nor that of the client, and lasts for the time of a release. Only
// the end of a ctx that was made so before counts: that of several leases together.
func (c *Client) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Value(outliving{}) != nil {
		return context.WithTimeout(ctx, c.set.ReleaseTimeout)
	}
	return context.WithTimeout(outlive(context.WithoutCancel(ctx)), c.set.ReleaseTimeout)
}

// carry is the handler through which every call of the store goes.
func (c *calls) carry(ctx context.Context, op *store.Op, next store.Handler) error {
	limit, patience, key := c.limit, storeTimeoutOf(ctx), op.Key
	switch op.Kind {
	case store.OpList:
		own := *op
		op.Keys = func(yield func(string, error) bool) { c.list(ctx, &own, next, yield) }
		return nil
	case store.OpWatch:
		limit, patience, key = 0, nil, "watch "+key
	}
	if op.Kind.Write() {
		ctx = store.WithToken(ctx, tokenOf(op.Value))
	}
	began := time.Now()
	// A call that was left behind must not change what the caller looks at.
	own := *op
	sent := patience.sent()
	err := c.run(ctx, key, limit, func(ctx context.Context) error { return next(ctx, &own) }, nil)
	if op.Kind != store.OpWatch && (err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)) {
		c.note(time.Since(began))
	}
	if err == nil || ctx.Err() == nil { // else the store is not why it failed
		patience.answered(sent, op.Kind.Write(), err)
	}
	if !errors.Is(err, errAbandoned) {
		*op = own
	}
	return err
}

// list yields what a listing does, each name in a call of its own.
func (c *calls) list(ctx context.Context, op *store.Op, list store.Handler, yield func(string, error) bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(ErrClosed) })()
	// Not with the context of that call, which ends with it.
	if err := c.run(ctx, op.Key, 0, func(context.Context) error { return list(ctx, op) }, nil); err != nil {
		yield("", err)
		return
	}
	next, stop := iter.Pull2(op.Keys)
	for {
		var (
			name   string
			notice error
			more   bool
		)
		err := c.run(ctx, op.Key, 0, func(context.Context) error {
			name, notice, more = next()
			return nil
		}, stop)
		if errors.Is(err, errAbandoned) {
			yield("", err)
			return // the call that was left behind stops it
		}
		if err == nil && more && yield(name, notice) {
			continue
		}
		stop()
		if err != nil {
			yield("", err)
		}
		return
	}
}

// errAbandoned marks the error of a call that was left behind.
var errAbandoned = errors.New("the call ignores that its time is over, and is left behind")

// run calls f with a context that ends with ctx, with the client, and after limit unless
// that is zero, and returns what f does, at the latest abandonAfter after the end of that
// context. A call that is left behind calls late when it returns after all.
func (c *calls) run(ctx context.Context, key string, limit time.Duration, f func(context.Context) error, late func()) error {
	if ctx.Value(outliving{}) == nil {
		if c.life.Err() != nil {
			return store.MarkNotApplied(ErrClosed)
		}
		bound, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.life, func() { cancel(ErrClosed) })()
		ctx = bound
	}
	if limit > 0 {
		bound, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = bound
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	n := c.abandoned[key]
	c.mu.Unlock()
	if n >= maxAbandoned {
		return store.MarkNotApplied(fmt.Errorf("the store does not answer: %d calls for %q are left behind", n, key))
	}
	var (
		done   = make(chan error, 1)
		isLeft bool // guarded by c.mu, as is sending on done
	)
	go func() {
		err := errors.New("the call of the store ended its goroutine")
		defer func() {
			c.mu.Lock()
			abandoned := isLeft
			if abandoned {
				c.forget(key)
			} else {
				done <- err
			}
			c.mu.Unlock()
			if abandoned && late != nil {
				late()
			}
		}()
		err = f(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(abandonAfter)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case err := <-done:
		return err
	default:
	}
	isLeft = true
	c.abandoned[key]++
	return store.MarkUnknown(fmt.Errorf("%w: %w", errAbandoned, context.Cause(ctx)))
}

// forget counts a call off that returned after all. The caller holds c.mu.
func (c *calls) forget(key string) {
	if c.abandoned[key]--; c.abandoned[key] == 0 {
		delete(c.abandoned, key)
	}
}

// abandonedCount returns how many calls are left behind.
func (c *calls) abandonedCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.abandoned {
		n += k
	}
	return n
}

// boundPresence is a presence whose calls end in time.
type boundPresence struct {
	store.Presence
	calls *calls
}

const presenceKey = "presence" // under which calls that are left behind are counted

// Announce implements store.Presence.
func (p boundPresence) Announce(ctx context.Context) (string, error) {
	var name string
	err := p.calls.run(ctx, presenceKey, p.calls.limit, func(ctx context.Context) (err error) {
		name, err = p.Presence.Announce(ctx)
		return err
	}, nil)
	if err != nil {
		return "", err // and name may yet change
	}
	return name, nil
}

// Judge implements store.Presence.
func (p boundPresence) Liveness(ctx context.Context, announcement string) store.Liveness {
	var liveness store.Liveness
	err := p.calls.run(ctx, presenceKey, p.calls.limit, func(ctx context.Context) error {
		liveness = p.Presence.Liveness(ctx, announcement)
		return nil
	}, nil)
	if err != nil {
		return store.LivenessUnknown
	}
	return liveness
}

// WaitLiveness implements store.Presence.
func (p boundPresence) WaitLiveness(ctx context.Context, announcement string) error {
	return p.calls.run(ctx, "await "+presenceKey, 0, func(ctx context.Context) error {
		return p.Presence.WaitLiveness(ctx, announcement)
	}, nil)
}

// boundCache is a memory whose calls end in time. What does not answer knows nothing.
type boundCache struct {
	memory Cache
	calls  *calls
}

func (m boundCache) run(key string, f func()) error {
	// A release tells the memory, too.
	return m.calls.run(outlive(context.Background()), "memory "+key, cacheTimeout, func(context.Context) error {
		f()
		return nil
	}, nil)
}

// Load implements Memory.
func (m boundCache) Load(storeName, key string) (Observation, bool) {
	var (
		s  Observation
		ok bool
	)
	if m.run(key, func() { s, ok = m.memory.Load(storeName, key) }) != nil {
		return Observation{}, false
	}
	return s, ok
}

// Save implements Memory.
func (m boundCache) Save(s Observation) {
	_ = m.run(s.Key, func() { m.memory.Save(s) })
}

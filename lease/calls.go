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
	// abandonAfter is how long a call may continue after its context has ended, so that it can
	// still report the outcome. Then it is abandoned.
	abandonAfter = 200 * time.Millisecond

	// maxAbandoned is how many requests for one key may be abandoned before further ones fail at
	// once. The same number holds for watches of one key, and for calls of a presence.
	maxAbandoned = 16

	// cacheTimeout bounds one call of a [Cache].
	cacheTimeout = time.Second
)

// calls carries out every call that a client makes of its store, of the store's abilities and of
// its cache. It alone decides how long a call is waited for, and what a closed client may still
// send.
//
// A call that ignores the end of its context is abandoned: it continues in its own goroutine, it is
// counted, and its result is not used. Its late write does no harm, since every write is
// conditional on a version. A late renewal, release or claim changes nothing if anything else was
// written meanwhile. Otherwise it makes waiters wait up to a TTL more or less, while no holder
// believes in that grant.
type calls struct {
	limit time.Duration   // of one request
	life  context.Context // ends when the client is closed

	mu        sync.Mutex
	abandoned map[string]int // abandoned calls that have not returned, by what they were for

	took atomic.Int64 // see takes
}

// takes is about how long a request takes: slow ones among the last few count most.
func (c *calls) takes() time.Duration { return time.Duration(c.took.Load()) }

// note notes how long an answered request took.
func (c *calls) note(took time.Duration) {
	old := c.took.Load()
	c.took.Store(max(int64(took), old-old/4))
}

// outliving marks the contexts of requests that do not end with the client: those of a grant, which
// Close ends in its own way, and those that end a lease.
type outliving struct{}

func outlive(ctx context.Context) context.Context {
	return context.WithValue(ctx, outliving{}, true)
}

// ending returns a context for ending a lease or making a claim harmless. It does not end with ctx
// or with the client, and lasts for Options.ReleaseTimeout. If ctx was itself made by ending, for
// several leases together, its end counts.
func (c *Client) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Value(outliving{}) != nil {
		return context.WithTimeout(ctx, c.set.ReleaseTimeout)
	}
	return context.WithTimeout(outlive(context.WithoutCancel(ctx)), c.set.ReleaseTimeout)
}

// carry is the handler of every call of the store.
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
	// An abandoned call must not change what the caller reads.
	own := *op
	sent := patience.sent()
	err := c.run(ctx, key, limit, func(ctx context.Context) error { return next(ctx, &own) }, nil)
	if op.Kind != store.OpWatch && (err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)) {
		c.note(time.Since(began))
	}
	if err == nil || ctx.Err() == nil { // otherwise the caller ended it, and the store may be healthy
		patience.answered(sent, op.Kind.Write(), err)
	}
	if !errors.Is(err, errAbandoned) {
		*op = own
	}
	return err
}

// list yields what a listing does, each name in its own call.
func (c *calls) list(ctx context.Context, op *store.Op, list store.Handler, yield func(string, error) bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(ErrClosed) })()
	// Not with the context of that call: it ends when the call returns.
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
			return // the abandoned call stops it
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

// errAbandoned marks the error of an abandoned call.
var errAbandoned = errors.New("the store's call did not return when its context ended, and was abandoned")

// run calls f with a context that ends with ctx, with the client, and after limit unless that is
// zero. It returns the result of f, at the latest abandonAfter after the end of that context. If an
// abandoned call returns after all, it calls late.
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
		return store.MarkNotApplied(fmt.Errorf("the store does not answer: %d abandoned calls for %q have not returned", n, key))
	}
	var (
		done   = make(chan error, 1)
		isLeft bool // guarded by c.mu, as is sending on done
	)
	go func() {
		err := errors.New("the store's call ended its goroutine (runtime.Goexit)")
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

// forget notes that an abandoned call has returned. The caller holds c.mu.
func (c *calls) forget(key string) {
	if c.abandoned[key]--; c.abandoned[key] == 0 {
		delete(c.abandoned, key)
	}
}

// abandonedCount returns how many abandoned calls have not returned.
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

const presenceKey = "presence" // the key under which its abandoned calls are counted

// Announce implements store.Presence.
func (p boundPresence) Announce(ctx context.Context) (string, error) {
	var name string
	err := p.calls.run(ctx, presenceKey, p.calls.limit, func(ctx context.Context) (err error) {
		name, err = p.Presence.Announce(ctx)
		return err
	}, nil)
	if err != nil {
		return "", err // the abandoned call may still change name
	}
	return name, nil
}

// Liveness implements store.Presence.
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

// boundCache is a cache whose calls end in time. A cache that does not answer counts as empty.
type boundCache struct {
	memory Cache
	calls  *calls
}

func (m boundCache) run(key string, f func()) error {
	// A release saves to the cache, too.
	return m.calls.run(outlive(context.Background()), "memory "+key, cacheTimeout, func(context.Context) error {
		f()
		return nil
	}, nil)
}

// Load implements Cache.
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

// Save implements Cache.
func (m boundCache) Save(s Observation) {
	_ = m.run(s.Key, func() { m.memory.Save(s) })
}

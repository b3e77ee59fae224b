package cell

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// cacheTimeout bounds one call of a [Cache].
const cacheTimeout = time.Second

// takes is about how long a request takes: slow ones among the last few count most.
func (c *Space) takes() time.Duration { return time.Duration(c.took.Load()) }

// noteTime notes how long an answered request took.
func (c *Space) noteTime(took time.Duration) {
	old := c.took.Load()
	c.took.Store(max(int64(took), old-old/4))
}

// IsContended reports whether others have written too often into the record of a holder; see
// [lockrec.IsContended].
func (c *Space) IsContended(r *lockrec.Record) bool { return lockrec.IsContended(r, c.takes()) }

// outliving marks the contexts of requests that do not end with the client: those of a grant, which
// Close ends in its own way, and those that end a lease.
type outliving struct{}

// Outlive returns a context for requests that do not end with the client.
func Outlive(ctx context.Context) context.Context {
	return context.WithValue(ctx, outliving{}, true)
}

// carry is the handler of every call of the store: it alone decides how long a call may take, and
// what a closed client may still send. It relies on the store to return soon after the context has
// ended.
func (c *Space) carry(ctx context.Context, op *store.Op, next store.Handler) error {
	limit, patience := c.Set.CallTimeout(), StoreTimeoutOf(ctx)
	switch op.Kind {
	case store.OpList:
		own := *op
		op.Keys = func(yield func(string, error) bool) {
			err := c.Run(ctx, 0, func(ctx context.Context) error {
				if err := next(ctx, &own); err != nil {
					return err
				}
				own.Keys(yield)
				return nil
			})
			if err != nil {
				yield("", err)
			}
		}
		return nil
	case store.OpWatch:
		limit, patience = 0, nil
	}
	if c.Set.Traits.Delayed() && op.Kind.Write() {
		ctx = store.WithToken(ctx, lockrec.TokenOf(op.Value))
	}
	began := time.Now()
	if patience != nil {
		patience.sent(began)
	}
	err := c.Run(ctx, limit, func(ctx context.Context) error { return next(ctx, op) })
	if op.Kind != store.OpWatch && !isHistory(op) && (err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict)) {
		c.noteTime(time.Since(began))
	}
	if patience != nil && (err == nil || ctx.Err() == nil) { // otherwise the caller ended it, and the store may be healthy
		patience.answered(began, op.Kind.Write(), err)
	}
	return err
}

// Run calls f with a context that ends with ctx, with the client, and after limit unless that is
// zero.
func (c *Space) Run(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	if ctx.Value(outliving{}) == nil {
		if c.Life.Err() != nil {
			return store.MarkNotApplied(ErrClosed)
		}
		if b, ok := ctx.Value(boundKey{}).(*bound); !ok || b.space != c {
			own, cancel := c.Bind(ctx)
			defer cancel(nil)
			ctx = own
		}
	}
	if end, ok := ctx.Deadline(); limit > 0 && (!ok || time.Until(end) > limit) {
		inTime, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = inTime
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	return f(ctx)
}

// boundPresence is a presence whose calls end in time, and with the client.
type boundPresence struct {
	store.Presence
	space *Space
}

// Announce implements store.Presence.
func (p boundPresence) Announce(ctx context.Context) (name string, err error) {
	err = p.space.Run(ctx, p.space.Set.CallTimeout(), func(ctx context.Context) (err error) {
		name, err = p.Presence.Announce(ctx)
		return err
	})
	return name, err
}

// Liveness implements store.Presence.
func (p boundPresence) Liveness(ctx context.Context, announcement string) store.Liveness {
	liveness := store.LivenessUnknown
	_ = p.space.Run(ctx, p.space.Set.CallTimeout(), func(ctx context.Context) error {
		liveness = p.Presence.Liveness(ctx, announcement)
		return nil
	})
	return liveness
}

// WaitLiveness implements store.Presence.
func (p boundPresence) WaitLiveness(ctx context.Context, announcement string) error {
	return p.space.Run(ctx, 0, func(ctx context.Context) error {
		return p.Presence.WaitLiveness(ctx, announcement)
	})
}

// ExpectWake makes the store call wake when another client has taken an entry of that session out of the
// queue of the lock. end is nil where the store cannot do that.
func (c *Cell) ExpectWake(ctx context.Context, session string, wake func()) (end func()) {
	if s := c.Space; s.waker != nil {
		_ = s.Run(ctx, s.Set.CallTimeout(), func(ctx context.Context) (err error) {
			end, err = s.waker.ExpectWake(ctx, c.wakeName(session), wake)
			return err
		})
	}
	return end
}

// wakeName is the name under which a session is woken for the lock. Another lock can have the same: then
// the session reads in vain.
func (c *Cell) wakeName(session string) string {
	sum := fnv.New64a()
	sum.Write([]byte(c.Key))
	return session + "." + strconv.FormatUint(sum.Sum64(), 36)
}

// wakeNext wakes the waiters that have left the queue of the record before with the write of next, as
// holders or otherwise. The waiters behind them keep their order.
func (c *Cell) wakeNext(ctx context.Context, before, next *lockrec.Record) {
	s := c.Space
	if s.waker == nil || before == nil {
		return
	}
	stay := next.Queue
	for _, m := range before.Queue {
		if len(stay) > 0 && stay[0].Grant == m.Grant {
			stay = stay[1:]
			continue
		}
		_ = s.Run(ctx, s.Set.CallTimeout(), func(ctx context.Context) error {
			s.waker.Wake(ctx, c.wakeName(m.Session))
			return nil
		})
	}
}

// boundCache is a cache whose calls end in time. A cache that does not answer counts as empty. Its
// methods have no context, so that a call may have to be abandoned.
type boundCache struct {
	cache  Cache
	calls  abandon.Calls
	absent atomic.Pointer[string] // the key that it had not when it was asked last; nil after a save
}

func (b *boundCache) run(key string, f func() (Observation, bool)) (Observation, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), cacheTimeout)
	defer cancel()
	o, err := abandon.Do(ctx, &b.calls, key, func() (*Observation, error) {
		if o, ok := f(); ok {
			return &o, nil
		}
		return nil, nil
	})
	if err != nil || o == nil {
		return Observation{}, false
	}
	return *o, true
}

// Load implements Cache.
func (b *boundCache) Load(storeName, key string) (Observation, bool) {
	// A command asks several times before it has read its lock.
	if absent := b.absent.Load(); absent == nil || *absent != key {
		if o, ok := b.run(key, func() (Observation, bool) { return b.cache.Load(storeName, key) }); ok {
			return o, ok
		}
		b.absent.Store(&key)
	}
	return Observation{}, false
}

// Save implements Cache.
func (b *boundCache) Save(s Observation) {
	b.absent.Store(nil)
	b.run(s.Key, func() (Observation, bool) { b.cache.Save(s); return s, true })
}

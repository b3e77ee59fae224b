package sqlstore

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// safetyPoll is how often a waiter reads without a notification: a notification can be
	// lost with a connection.
	safetyPoll = 5 * time.Second

	// listenPause is the pause before the listener connects again.
	listenPause = time.Second
)

// watching is a [Store] that listens: a [store.Watcher].
type watching struct{ s *Store }

// As finds [store.Watcher] only if Options.Listen is set.
func (s *Store) As(target any) bool {
	w, ok := target.(*store.Watcher)
	if ok && s.hub.listen != nil {
		*w = watching{s}
	}
	return ok && s.hub.listen != nil
}

// Watch implements [store.Watcher]: it reads when the listener is ready, and after each
// notification of the key.
func (w watching) Watch(ctx context.Context, key string, seen store.Version) error {
	h := w.s.hub
	sub := h.join(w.s.t.column(key))
	defer h.leave(sub)
	for {
		_, v, changed, err := w.s.GetIfChanged(ctx, key, seen)
		absent := v == "" && seen == ""
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if changed && !absent || err != nil && !absent {
			return nil // a change, or an error that the caller's own read will return
		}
		if err := backoff.SleepOrWake(ctx, safetyPoll, sub.changed); err != nil {
			return err
		}
	}
}

// subscription is one waiter. changed has one slot.
type subscription struct {
	key     string
	changed chan struct{}
}

func (s *subscription) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// hub is the listener of a store: one goroutine that runs while a Watch waits.
type hub struct {
	channel string
	listen  func(ctx context.Context, channel string, ready func(), notify func(payload string)) error

	mu     sync.Mutex
	subs   map[*subscription]struct{}
	cancel context.CancelFunc // ends the listener; nil: there is none
}

func newHub(t *table) *hub {
	h := &hub{channel: t.o.Table, subs: map[*subscription]struct{}{}}
	if t.dialect == PostgreSQL {
		h.listen = t.o.Listen
	}
	return h
}

// join adds a waiter, and starts the listener for the first.
func (h *hub) join(key string) *subscription {
	sub := &subscription{key: key, changed: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[sub] = struct{}{}
	if h.cancel == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.cancel = cancel
		go h.run(ctx)
	}
	return sub
}

// leave removes a waiter. The last one cancels the listener. It does not wait for the
// listener's end, since the end depends on the caller's function.
func (h *hub) leave(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, sub)
	if len(h.subs) == 0 && h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

// run listens, and connects again when the connection is lost.
func (h *hub) run(ctx context.Context) {
	for ctx.Err() == nil {
		// Notifications can be lost between two connections. So every waiter reads when a
		// new connection is ready.
		_ = h.listen(ctx, h.channel, func() { h.wake("") }, h.wake)
		_ = backoff.Sleep(ctx, listenPause)
	}
}

// wake wakes the waiters of a key, or all of them.
func (h *hub) wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		if key == "" || sub.key == key {
			sub.wake()
		}
	}
}

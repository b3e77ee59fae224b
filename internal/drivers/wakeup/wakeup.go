// Package wakeup wakes the waiters of a store when a server notifies one listener of the store.
//
// A [Hub] runs the listener in one goroutine while a waiter waits. A notification can be lost with a
// connection. So every waiter reads when the listener is ready, and from time to time.
package wakeup

import (
	"context"
	"errors"
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

// Listen connects, calls ready when it will miss no more notifications, and then calls notify with the key
// of each notification. It returns when the connection is lost, or soon after the context ends.
type Listen func(ctx context.Context, ready func(), notify func(key string)) error

// Hub is the listener of a store: one goroutine that runs while a Watch waits.
type Hub struct {
	listen Listen

	mu     sync.Mutex
	subs   map[*subscription]struct{}
	cancel context.CancelFunc // ends the listener; nil: there is none
}

// New returns a hub. It starts no goroutine.
func New(listen Listen) *Hub {
	return &Hub{listen: listen, subs: map[*subscription]struct{}{}}
}

// Watch is the method of [store.Watcher] for a key of s, which the notifications call notified. It reads
// when the listener is ready, and after each notification of the key.
func (h *Hub) Watch(ctx context.Context, s store.ConditionalGetter, key, notified string, seen store.Version) error {
	sub := h.join(notified)
	defer h.leave(sub)
	for {
		_, _, changed, err := s.GetIfChanged(ctx, key, seen)
		if ctx.Err() != nil {
			return store.Cause(ctx)
		}
		if absent := seen == "" && errors.Is(err, store.ErrNotFound); !absent && (changed || err != nil) {
			return nil // a change, or an error that the caller's own read will return
		}
		if backoff.SleepOrWake(ctx, safetyPoll, sub.changed) != nil {
			return store.Cause(ctx)
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

// join adds a waiter, and starts the listener for the first.
func (h *Hub) join(key string) *subscription {
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
// listener's end, since the end depends on the function of the caller of New.
func (h *Hub) leave(sub *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, sub)
	if len(h.subs) == 0 && h.cancel != nil {
		h.cancel()
		h.cancel = nil
	}
}

// run listens, and connects again when the connection is lost.
func (h *Hub) run(ctx context.Context) {
	for ctx.Err() == nil {
		// Notifications can be lost between two connections. So every waiter reads when a
		// new connection is ready.
		_ = h.listen(ctx, func() { h.wake("") }, h.wake)
		_ = backoff.Sleep(ctx, listenPause)
	}
}

// wake wakes the waiters of a key, or all of them.
func (h *Hub) wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for sub := range h.subs {
		if key == "" || sub.key == key {
			sub.wake()
		}
	}
}

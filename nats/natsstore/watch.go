package natsstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// A waiter reads from time to time without a message: a message can be lost with a connection.
const (
	safetyRead = 10 * time.Second // if the bucket is known to wake waiters
	pollRead   = 2 * time.Second
)

// wakeSubject is where the bucket repeats the headers of its messages.
func (d *driver) wakeSubject(tokens string) string { return "$HOLDFAST." + d.bucket + "." + tokens }

// Watch implements [store.Watcher]. It subscribes first, and then reads.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	sub, err := s.d.conn.Subscribe(s.d.wakeSubject(escape(s.d.prefix+key)), func(*nats.Msg) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return s.d.explain(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has no subscriptions
	for {
		pause := pollRead
		if s.d.wakes.Load() {
			pause = safetyRead
		}
		// The server handles the subscription before the read, because both use one connection.
		current, err := s.d.Read(ctx, key, "")
		if ctx.Err() != nil {
			return store.Cause(ctx)
		}
		version := current.Version()
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && current.Deleted:
			version = ""
		case errors.Is(err, store.ErrUnavailable):
			return err
		case err != nil:
			return nil // the caller's own read will return the error
		}
		if version != seen {
			return nil
		}
		if backoff.SleepOrWake(ctx, pause, changed) != nil {
			return store.Cause(ctx)
		}
	}
}

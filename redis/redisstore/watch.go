package redisstore

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// quiet is how long the listener waits for a message before it asks whether the server still answers.
const quiet = 20 * time.Second

// Watch implements [store.Watcher]. All waiters of a store share one connection.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	return s.hub.Watch(ctx, s, key, s.d.prefix+key, seen)
}

// listen subscribes to the channel of all stores of the server. In a cluster, each server passes messages on to all other servers.
func (d *driver) listen(ctx context.Context, ready func(), notify func(key string)) error {
	sub := d.client.Subscribe(ctx, space)
	defer sub.Close()
	// The end of the context does not end a receive.
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	asked := false
	for ctx.Err() == nil {
		message, err := sub.ReceiveTimeout(ctx, quiet)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !asked {
			if err := sub.Ping(ctx); err != nil {
				return err
			}
			asked = true
			continue
		}
		if err != nil {
			return err
		}
		asked = false
		switch m := message.(type) {
		case *redis.Subscription:
			ready()
		case *redis.Message:
			notify(m.Payload)
		}
	}
	return store.Cause(ctx)
}

package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/store"
)

// safetyRead is how often a waiter reads without an event: a connection can be lost without a notice.
const safetyRead = 10 * time.Second

// Watch implements [store.Watcher]. It reads the register, and then watches its key from the next revision.
// If etcd has removed that revision meanwhile, Watch returns.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	for {
		answers, revision, err := s.d.get(ctx, key)
		if ctx.Err() != nil {
			return store.Cause(ctx)
		}
		if err != nil {
			return err
		}
		current, err := decode(answers)
		version := current.Version()
		if errors.Is(err, store.ErrNotFound) || current.Deleted {
			version, err = "", nil
		}
		if err != nil || version != seen {
			return nil // a change, or an error that the caller's own read will return
		}
		if changed, err := s.d.await(ctx, key, revision+1); changed || err != nil {
			return err
		}
	}
}

// await waits for a change of the value of a key, from a revision on. It also returns from time to time
// without a change.
func (d *driver) await(ctx context.Context, key string, from int64) (changed bool, err error) {
	within, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), safetyRead)
	defer cancel()
	live, _ := d.keys(key) // each change of a tombstone is one of the value, too
	events := d.client.Watch(within, live, clientv3.WithRev(from))
	for {
		select {
		case <-within.Done():
			return false, store.Cause(ctx) // nil if only the time of this wait is over
		case resp, open := <-events:
			err := resp.Err()
			switch {
			case within.Err() != nil:
				return false, store.Cause(ctx)
			case !open:
				return false, fmt.Errorf("%w: the watch has ended", store.ErrUnavailable)
			case errors.Is(err, rpctypes.ErrCompacted), err == nil && len(resp.Events) > 0:
				return true, nil
			case err != nil:
				return false, d.explain(err)
			}
		}
	}
}

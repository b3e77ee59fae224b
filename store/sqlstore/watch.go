package sqlstore

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/drivers/wakeup"
	"github.com/holdfast-go/holdfast/store"
)

// watching is a [Store] that listens: a [store.Watcher].
type watching struct{ s *Store }

// As finds [store.Watcher] only if Options.Listen is set.
func (s *Store) As(target any) bool {
	w, ok := target.(*store.Watcher)
	if ok && s.hub != nil {
		*w = watching{s}
	}
	return ok && s.hub != nil
}

// Watch implements [store.Watcher].
func (w watching) Watch(ctx context.Context, key string, seen store.Version) error {
	return w.s.hub.Watch(ctx, w.s, key, w.s.t.column(key), seen)
}

// newHub returns nil for a store that does not listen.
func newHub(t *table) *wakeup.Hub {
	if t.dialect != PostgreSQL || t.o.Listen == nil {
		return nil
	}
	return wakeup.New(func(ctx context.Context, ready func(), notify func(string)) error {
		return t.o.Listen(ctx, t.o.Table, ready, notify)
	})
}

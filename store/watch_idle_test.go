package store_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// restless is a store whose watcher returns at once, without a change.
type restless struct {
	store.Store
	reads *atomic.Int64
	stop  func()
}

func (r restless) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	if r.reads.Add(1) > 400 {
		r.stop()
	}
	return r.Store.Get(ctx, key)
}

func (restless) Watch(context.Context, string, store.Version) error { return nil }

// A watcher that returns without a change makes no loop without rest.
func TestWatchRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := restless{memstore.New(), new(atomic.Int64), cancel}
		for range store.Watch(ctx, s, "job", time.Second) {
		}
		if n := s.reads.Load(); n > 400 {
			t.Errorf("%d reads in a minute", n)
		}
	})
}

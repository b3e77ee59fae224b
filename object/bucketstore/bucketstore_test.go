package bucketstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func newStore(t *testing.T, b object.Bucket, prefix string, opts *bucketstore.Options) *bucketstore.Store {
	t.Helper()
	s, err := bucketstore.New(b, prefix, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// second returns another handle on the bucket of the first, as another process would have.
func second(t *testing.T, first store.Store) store.Store {
	s, _ := store.As[*bucketstore.Store](first)
	return newStore(t, s.Bucket(), "pre/fix", nil)
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		return newStore(t, membucket.New(), "pre/fix", nil)
	}, &storetest.Options{Reopen: second})
}

func TestStorePrefixed(t *testing.T) {
	const prefix = "below/this"
	open := func(t *testing.T) store.Store {
		s, err := store.Prefix(newStore(t, membucket.New(), "pre/fix", nil), prefix)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	storetest.Run(t, open, &storetest.Options{MaxKey: store.MaxKey - len(prefix) - 1})
}

// TestLeases runs the suite of leases on a store that reports no changes, and whose conflicts do
// not carry the state.
func TestLeases(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) store.Store {
		return newStore(t, membucket.New(), "locks", nil)
	}, &leasetest.Options{Bubble: true, Parallel: true, CaseTimeout: time.Hour})
}

func TestCheckpoints(t *testing.T) {
	registers := newStore(t, membucket.New(), "registers", nil)
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		c, err := checkpoint.New(registers, &checkpoint.Options{PollInterval: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		return c
	}, nil)
}

package bucketstore_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/lease"
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

// TestTouchedObject: another program copies the object of a lock onto itself, so that its version changes and its body
// does not. The holder renews and releases its lease. For a waiter, this is no sign of life of a holder.
func TestTouchedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := membucket.New()
		s := newStore(t, b, "", nil)
		touch := func() {
			body, _, err := object.ReadAll(t.Context(), b, s.ObjectKey("lock/job"), 10_000, nil)
			if err == nil {
				_, err = b.Put(t.Context(), s.ObjectKey("lock/job"), bytes.NewReader(body), nil)
			}
			if err != nil {
				t.Error(err)
			}
		}
		newClient := func(o *lease.Options) *lease.Client {
			c, err := lease.New(s, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close(context.Background()) }) // a guard may be lost
			return c
		}
		g, err := newClient(&lease.Options{TTL: time.Minute}).TryAcquire(t.Context(), "job", nil)
		for range 2 {
			if err != nil {
				t.Fatal(err)
			}
			touch()
			err = g.Renew(t.Context())
		}
		touch()
		if err := errors.Join(err, g.Release(t.Context())); err != nil {
			t.Fatal(err)
		}
		dead, err := newClient(&lease.Options{TTL: time.Minute, ManualRenewal: true}).TryAcquire(t.Context(), "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var touching sync.WaitGroup
		touching.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
					touch()
				}
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		next, err := newClient(&lease.Options{TTL: time.Minute}).Acquire(ctx, "job", nil)
		close(stop)
		touching.Wait()
		if err != nil || next.Token() <= dead.Token() {
			t.Errorf("%v, %v after %v", err, next, dead)
		}
	})
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

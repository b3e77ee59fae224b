package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

type grant struct {
	ctx   context.Context
	token uint64
}

func (g grant) Context() context.Context      { return g.ctx }
func (g grant) Token() uint64                 { return g.token }
func (g grant) Release(context.Context) error { return nil }

// TestErrorsOfOthers: Run takes no error of handle, of Acquire or of another worker of its group for the refusal
// of its own call. It returns the error, and has saved the last position.
func TestErrorsOfOthers(t *testing.T) {
	for _, refusal := range []error{checkpoint.ErrFenced, checkpoint.ErrRolledBack} {
		other := fmt.Errorf("another checkpoint: %w", refusal)
		for _, c := range []struct {
			name                    string
			leased, handle, acquire bool
			saved                   uint64
		}{
			{"handle, with a lease", true, true, false, 4},
			{"handle, without a lease", false, true, false, 4},
			{"Acquire", true, false, true, 0},
			{"another worker", false, false, false, 10},
		} {
			synctest.Test(t, func(t *testing.T) {
				k := open(t, memstore.New(), nil)
				calls, terms := 0, uint64(0)
				o := &checkpoint.RunOptions{SaveInterval: time.Hour}
				if c.leased {
					o.Acquire = func(ctx context.Context) (checkpoint.Guard, error) {
						if terms++; c.acquire {
							return nil, other
						}
						return grant{ctx, terms}, nil
					}
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(other) })
				err := checkpoint.Run(ctx, k, "k", numbers(10, false), func(_ context.Context, e checkpoint.Event[string]) error {
					if c.handle && e.Sequence == 5 {
						calls++
						return other
					}
					return nil
				}, o)
				now, _ := k.Get(t.Context(), "k", nil)
				if !errors.Is(err, refusal) || calls > 1 || terms > 1 || now.Sequence != c.saved {
					t.Errorf("%s: after %d calls in %d terms, Run returned %v, and %d is saved, want %d", c.name, calls, terms, err, now.Sequence, c.saved)
				}
			})
		}
	}
}

// unsynced is a store that shows a write before it is durable, such as a directory. It counts durable writes.
type unsynced struct {
	store.Store
	puts *atomic.Int64
}

func (s unsynced) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return s.Store.Put(ctx, key, prev, value)
}

func (s unsynced) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	s.puts.Add(1)
	return s.Store.Put(ctx, key, prev, value)
}

// TestFenceIsDurable: a keeper that finds the token of its Fence makes it durable: another keeper may have written
// it, and its sync may have failed.
func TestFenceIsDurable(t *testing.T) {
	st := unsynced{memstore.New(), new(atomic.Int64)}
	for range 2 {
		before := st.puts.Load()
		if _, err := open(t, st, nil).Fence(t.Context(), "k", 5); err != nil || st.puts.Load() == before {
			t.Errorf("Fence: %v, after %d durable writes", err, st.puts.Load()-before)
		}
	}
}

// TestCountsAtTheirBound: a keeper refuses to write an epoch or a write count that no keeper could read.
func TestCountsAtTheirBound(t *testing.T) {
	const most = math.MaxUint64 >> 1
	k := open(t, memstore.New(), nil)
	from := checkpoint.Checkpoint{Key: "k", Exists: true, Epoch: most + 1, Position: at(7)}
	_, err := k.Copy(t.Context(), from)
	if _, getErr := k.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrInvalid) || !errors.Is(getErr, store.ErrNotFound) {
		t.Errorf("Copy: %v; Get: %v", err, getErr)
	}
	from.Epoch = most
	if _, err := k.Copy(t.Context(), from); err != nil {
		t.Error(err)
	}
	_, err = k.Reset(t.Context(), "k", at(1), nil)
	refused(t, err, store.ErrInvalid)
	advance(t, k, "k", at(8), nil, checkpoint.Advanced)

	value := fmt.Sprintf(`{"holdfast":1,"kind":"checkpoint","key":%q,"epoch":1,"sequence":7,"n":%d,"nonce":"N"}`, goldenKey, uint64(most))
	k = open(t, holding(t, []byte(value)), nil)
	_, err = k.Advance(t.Context(), goldenKey, at(8), nil)
	refused(t, err, store.ErrInvalid)
	expectAt(t, k, goldenKey, 7)
}

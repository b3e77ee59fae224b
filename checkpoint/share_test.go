package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// Every put rewrote everything. Here many goroutines share writes: while one
// write is under way the others gather for the next.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var puts, others atomic.Int64
		k := open(t, store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				time.Sleep(10 * time.Millisecond)
				puts.Add(1)
			} else {
				others.Add(1)
			}
			return next(ctx, op)
		}), nil)
		advance(t, k, "k", at(0), nil, checkpoint.Advanced)
		puts.Store(0)
		others.Store(0)
		// In order of their sequences: two writes, the first and all the others.
		var wg sync.WaitGroup
		for i := range uint64(100) {
			wg.Go(func() { advance(t, k, "k", at(i+1), nil, checkpoint.Advanced) })
			synctest.Wait()
		}
		wg.Wait()
		if got := puts.Swap(0); got != 2 {
			t.Errorf("100 writers took %d writes, want 2", got)
		}
		// In no order: who comes after a higher one is behind.
		var advanced, behind atomic.Int64
		const writers, from = 64, 1000
		for w := range writers {
			wg.Go(func() {
				r, err := k.Advance(t.Context(), "k", checkpoint.Position{Sequence: uint64(from + w), EventID: fmt.Sprint(w)}, nil)
				switch {
				case err == nil && r.Status == checkpoint.Advanced && r.Current.Sequence >= uint64(from+w):
					advanced.Add(1)
				case err == nil && r.Status == checkpoint.Behind && r.Current.Sequence > uint64(from+w):
					behind.Add(1)
				default:
					t.Errorf("writer %d: %v %+v, %v", w, r.Status, r.Current, err)
				}
			})
		}
		wg.Wait()
		expectAt(t, k, "k", from+writers-1)
		if got := puts.Load(); got > 8 {
			t.Errorf("%d writers took %d writes", writers, got)
		}
		if advanced.Load()+behind.Load() != writers || advanced.Load() == 0 {
			t.Errorf("%d advanced, %d behind", advanced.Load(), behind.Load())
		}
		// One caller at a time costs one request each.
		puts.Store(0)
		others.Store(0)
		for i := range uint64(10) {
			advance(t, k, "k", at(2000+i), nil, checkpoint.Advanced)
		}
		if p, o := puts.Load(), others.Load(); p != 10 || o != 0 {
			t.Errorf("10 advances took %d puts and %d other requests", p, o)
		}
	})
}

// A put that is dropped halfway left the disk new and the memory old.
// Waiting had no limit.
func TestCancelInFlightAndInQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		gate := make(chan struct{})
		blocked := false
		k := open(t, onPut(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if blocked {
				<-gate // deaf to its context, as a disk is
			}
			return next(context.WithoutCancel(ctx), op)
		}), nil)
		advance(t, k, "k", at(1), nil, checkpoint.Advanced)
		blocked = true
		errs := make([]error, 3)
		var wg sync.WaitGroup
		call := func(i int, timeout time.Duration) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				_, errs[i] = k.Advance(ctx, "k", at(uint64(i+2)), nil)
			})
			synctest.Wait()
		}
		call(0, time.Second)     // in flight when it ends
		call(1, 2*time.Second)   // in the queue when it ends
		call(2, 100*time.Second) // in the queue, and patient
		time.Sleep(10 * time.Second)
		close(gate)
		wg.Wait()
		unknown(t, errs[0])
		refused(t, errs[1], context.DeadlineExceeded)
		if errs[2] != nil {
			t.Errorf("the patient caller: %v", errs[2])
		}
		c, err := k.Get(t.Context(), "k", &checkpoint.GetOptions{Cached: true})
		if err != nil || c.Sequence != 4 {
			t.Fatalf("memory says %d, %v", c.Sequence, err)
		}
		expectAt(t, k, "k", 4)
	})
}

// Of two callers that share a write one leaves: the other still gets its answer.
func TestOneOfTwoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Second):
				return next(ctx, op)
			}
		}), nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			// The first caller's context has nothing to say to those that follow.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if _, err := k.Advance(ctx, "k", at(1), nil); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			defer cancel()
			_, err := k.Advance(ctx, "k", at(3), nil)
			unknown(t, err)
		})
		synctest.Wait()
		wg.Go(func() { advance(t, k, "k", at(4), nil, checkpoint.Advanced) })
		wg.Wait()
	})
}

// A caller that leaves before the write gets "not applied". The batch continues for another
// caller, but writes nothing for the one that left.
func TestLeaveDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		other := open(t, st, nil)
		puts := 0
		k := open(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			switch op.Kind {
			case store.OpGet:
				time.Sleep(5 * time.Second)
			case store.OpPut:
				puts++
				if puts == 1 {
					time.Sleep(time.Second) // while the others gather
				} else if puts <= 3 {
					advance(t, other, "k", at(uint64(puts)), nil, checkpoint.Advanced)
				}
				if err := next(ctx, op); errors.Is(err, store.ErrConflict) {
					return store.ErrConflict // without the value: it has to be read
				}
				return nil
			}
			return next(ctx, op)
		}), nil)
		var wg sync.WaitGroup
		call := func(sequence uint64, timeout time.Duration) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				_, err := k.Advance(ctx, "k", at(sequence), nil)
				refused(t, err, context.DeadlineExceeded)
			})
			synctest.Wait()
		}
		wg.Go(func() { advance(t, k, "k", at(1), nil, checkpoint.Advanced) })
		time.Sleep(5*time.Second + time.Millisecond) // its read is over
		wg.Go(func() { advance(t, k, "k", at(5), nil, checkpoint.Advanced) })
		call(7, 4*time.Second)    // leaves while the state after the first conflict is read
		call(9, 9*time.Second)    // after the second
		call(8, time.Millisecond) // still in the queue
		wg.Wait()
		expectAt(t, k, "k", 5)
		if puts != 4 {
			t.Errorf("%d puts, want 4", puts)
		}
	})
}

// When no caller waits any more the request is given up, too.
func TestAllLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Time
		k := open(t, onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			<-ctx.Done()
			ended = time.Now()
			return ctx.Err()
		}), nil)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range uint64(3) {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				if _, err := k.Advance(ctx, "k", at(i), nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if d := ended.Sub(began); d != 3*time.Second {
			t.Errorf("the request ended after %v", d)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := k.Advance(ctx, "k", at(1), nil)
		refused(t, err, context.Canceled)
	})
}

func TestCloseEndsFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := checkpoint.New(onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			<-ctx.Done()
			return ctx.Err()
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := k.Advance(t.Context(), "k", at(1), nil)
			failed <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		unknown(t, <-failed)
	})
}

// TestCloseWithStuckStore: the context bounds Close, also if a call of the store ignores its own context.
func TestCloseWithStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := checkpoint.New(onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			time.Sleep(time.Hour)
			return next(ctx, op)
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = k.Advance(ctx, "k", at(1), nil)
		unknown(t, err)
		began := time.Now()
		if err := k.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("close: %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Hour) // the call of the store ends
	})
}

// TestCloseAfterTheEnd: Close succeeds if no write is in progress, also if its context has ended.
func TestCloseAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		k, err := checkpoint.New(memstore.New(), nil)
		if err == nil {
			err = k.Close(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

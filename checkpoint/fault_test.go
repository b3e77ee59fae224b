package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// onPut returns st with f in the way of every durable put.
func onPut(st store.Store, f func(ctx context.Context, op *store.Op, next store.Handler) error) store.Store {
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind != store.OpPut {
			return next(ctx, op)
		}
		return f(ctx, op, next)
	})
}

// onceLost returns st, on which the n-th put is applied and its reply lost; then
// runs after it.
func onceLost(st store.Store, n int64, then func()) store.Store {
	var puts atomic.Int64
	return onPut(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		err := next(ctx, op)
		if puts.Add(1) != n || err != nil {
			return err
		}
		if then != nil {
			then()
		}
		return fmt.Errorf("reply lost: %w", store.ErrUnavailable)
	})
}

func unknown(t *testing.T, err error) {
	t.Helper()
	if err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Fatalf("got %v (%v), want an unknown outcome", err, store.OutcomeOf(err))
	}
}

// F4 on a register: applied, but an error is returned.
func TestF4ReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, onceLost(memstore.New(), 2, nil), nil)
		advance(t, k, "k", at(1), nil, checkpoint.Advanced)
		advance(t, k, "k", at(2), nil, checkpoint.Advanced) // not "unchanged": it was this call
		advance(t, k, "k", at(2), nil, checkpoint.Unchanged)
		standsAt(t, k, "k", 2)
	})
}

func TestReplyLostAndSuperseded(t *testing.T) {
	for _, others := range []uint64{1, 7, 8, 9, 20} {
		t.Run(fmt.Sprint(others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				other := open(t, st, nil)
				k := open(t, onceLost(st, 1, func() {
					for i := range others {
						advance(t, other, "k", at(100+i), nil, checkpoint.Advanced)
					}
				}), nil)
				r, err := k.Advance(t.Context(), "k", at(7), nil)
				if others > 8 {
					// The record does not remember that far back: nobody can know.
					unknown(t, err)
				} else if err != nil || r.Status != checkpoint.Advanced {
					t.Fatalf("got %v, %v", r.Status, err)
				}
				advance(t, k, "k", at(7), nil, checkpoint.Behind)
			})
		})
	}
}

func TestRequestLost(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			other := open(t, st, nil)
			puts := 0
			k := open(t, onPut(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
				if puts++; puts > 1 {
					return next(ctx, op)
				}
				if taken {
					advance(t, other, "k", at(9), nil, checkpoint.Advanced)
				}
				return store.ErrUnavailable
			}), nil)
			if taken {
				// Another came first: so ours never can.
				advance(t, k, "k", at(7), nil, checkpoint.Behind)
			} else {
				advance(t, k, "k", at(7), nil, checkpoint.Advanced)
			}
			if want := map[bool]int{true: 1, false: 2}[taken]; puts != want {
				t.Errorf("%d puts, want %d", puts, want)
			}
		})
	}
}

// A write that is delayed on its way is applied after it was sent a second time, or
// while the second is under way.
func TestLateApply(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Microsecond, time.Millisecond, 3 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			puts := 0
			var wg sync.WaitGroup
			k := open(t, onPut(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
				if puts++; puts != 2 {
					return next(ctx, op)
				}
				wg.Go(func() {
					time.Sleep(delay)
					late := *op
					_ = next(context.WithoutCancel(ctx), &late)
				})
				return context.DeadlineExceeded
			}), nil)
			advance(t, k, "k", at(1), nil, checkpoint.Advanced)
			advance(t, k, "k", at(2), nil, checkpoint.Advanced)
			advance(t, k, "k", at(3), nil, checkpoint.Advanced)
			wg.Wait()
			standsAt(t, k, "k", 3)
			if c, err := k.Get(t.Context(), "k", &checkpoint.GetOptions{Cached: true}); err != nil || c.Sequence != 3 {
				t.Errorf("memory says %+v, %v", c, err)
			}
		})
	}
}

func TestStoreDownThenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		var down atomic.Bool
		k := open(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if down.Load() {
				return store.ErrUnavailable
			}
			return next(ctx, op)
		}), nil)
		advance(t, k, "k", at(1), nil, checkpoint.Advanced)
		down.Store(true)
		began := time.Now()
		_, err := k.Advance(t.Context(), "k", at(2), nil)
		unknown(t, err)
		if d := time.Since(began); d < checkpoint.DefaultSettle || d > checkpoint.DefaultSettle+time.Second {
			t.Errorf("gave up after %v", d)
		}
		// Memory is not trusted after that, and a read that fails writes nothing.
		_, err = k.Get(t.Context(), "k", &checkpoint.GetOptions{Cached: true})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a cached get while the outcome is unknown: %v", err)
		}
		_, err = k.Advance(t.Context(), "k", at(3), nil)
		refused(t, err, store.ErrUnavailable)
		// It comes back within the time that a call follows up.
		go func() {
			time.Sleep(5 * time.Second)
			down.Store(false)
		}()
		if _, err = k.Get(t.Context(), "k", nil); !errors.Is(err, store.ErrUnavailable) {
			t.Error(err)
		}
		time.Sleep(6 * time.Second)
		advance(t, k, "k", at(2), nil, checkpoint.Advanced)
		down.Store(true)
		go func() {
			time.Sleep(5 * time.Second)
			down.Store(false)
		}()
		advance(t, k, "k", at(4), nil, checkpoint.Advanced)
	})
}

// A store that cannot tell whose write it shows is not asked.
func TestNoReadBack(t *testing.T) {
	st := noReadBack{onceLost(memstore.New(), 2, nil)}
	k := open(t, st, nil)
	advance(t, k, "k", at(1), nil, checkpoint.Advanced)
	_, err := k.Advance(t.Context(), "k", at(2), nil)
	unknown(t, err)
	advance(t, k, "k", at(2), nil, checkpoint.Unchanged)
	standsAt(t, k, "k", 2)
}

type noReadBack struct{ store.Store }

func (noReadBack) Traits() store.Traits { return store.Traits{NoReadBack: true} }

// EIO of a sync leaves the outcome unknown; no space left proves that nothing was
// written.
func TestDiskErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 5 {
			for _, fault := range []error{store.MarkNotApplied(syscall.ENOSPC), syscall.EIO} {
				applied := n%2 == 0 && fault == error(syscall.EIO)
				puts := 0
				k := open(t, onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
					if puts++; puts != n+1 {
						return next(ctx, op)
					}
					if applied {
						if err := next(ctx, op); err != nil {
							return err
						}
					}
					return fault
				}), nil)
				for i := range uint64(6) {
					r, err := k.Advance(t.Context(), "k", at(i), nil)
					switch {
					case err == nil && r.Status == checkpoint.Advanced:
					case errors.Is(err, syscall.ENOSPC) && i == uint64(n):
						refused(t, err, syscall.ENOSPC)
					default:
						t.Fatalf("advance to %d: %v, %v", i, r.Status, err)
					}
				}
				standsAt(t, k, "k", 5)
			}
		}
	})
}

// Where the store refuses, the error says why, and nothing is memorised.
func TestDefiniteErrors(t *testing.T) {
	for _, fault := range []error{store.ErrDenied, store.ErrUnsafe, store.ErrClosed} {
		st := memstore.New()
		broken := true
		k := open(t, onPut(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if broken {
				return fault
			}
			return next(ctx, op)
		}), nil)
		_, err := k.Advance(t.Context(), "k", at(1), nil)
		refused(t, err, fault)
		if _, err := k.Get(t.Context(), "k", &checkpoint.GetOptions{Cached: true}); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		broken = false
		advance(t, k, "k", at(1), nil, checkpoint.Advanced)
	}
}

// F8: every put rewrote everything. Here many goroutines share writes: while one
// write is under way the others gather for the next.
func TestF8GroupCommit(t *testing.T) {
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
		standsAt(t, k, "k", from+writers-1)
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

// F3: a put that is dropped halfway left the disk new and the memory old.
// F7: waiting had no limit.
func TestF3F7CancelInFlightAndInQueue(t *testing.T) {
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
		standsAt(t, k, "k", 4)
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

// A caller that leaves before anything was written is told so, and nothing is
// written for it, though the batch that it was part of goes on for another.
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
		standsAt(t, k, "k", 5)
		if puts != 4 {
			t.Errorf("%d puts, want 4", puts)
		}
	})
}

// When nobody waits any more the request is given up, too.
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

// A Reset between the read and the write of an advance is not undone.
func TestResetBetweenReadAndWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		other := open(t, st, nil)
		advance(t, other, "k", at(100), nil, checkpoint.Advanced)
		once := false
		k := open(t, onPut(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if !once {
				once = true
				if _, err := other.Reset(ctx, "k", at(10), nil); err != nil {
					t.Error(err)
				}
			}
			return next(ctx, op)
		}), nil)
		advance(t, k, "k", at(101), nil, checkpoint.RolledBack)
		standsAt(t, k, "k", 10)
	})
}

// A lease that is taken between the question and the write makes the write fail.
func TestLeaseTakenWhileResetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		worker := open(t, st, nil)
		advance(t, worker, "k", at(100), nil, checkpoint.Advanced)
		held := false
		k := open(t, st, &checkpoint.Options{HeldBy: func(ctx context.Context, key string) (checkpoint.Holder, bool, error) {
			was := held
			if !held {
				held = true
				if _, err := worker.Fence(ctx, "k", 3); err != nil {
					t.Error(err)
				}
			}
			return checkpoint.Holder{Name: "worker", Token: 3}, was, nil
		}})
		_, err := k.Reset(t.Context(), "k", at(1), nil)
		refused(t, err, checkpoint.ErrFenced)
		standsAt(t, worker, "k", 100)
	})
}

package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
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
		return &store.InDoubtError{Version: op.Version, Err: fmt.Errorf("reply lost: %w", store.ErrUnavailable)}
	})
}

func unknown(t *testing.T, err error) {
	t.Helper()
	if err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Fatalf("got %v (%v), want an unknown outcome", err, store.OutcomeOf(err))
	}
}

// On a register: applied, but an error is returned.
func TestReplyLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, onceLost(memstore.New(), 2, nil), nil)
		advance(t, k, "k", at(1), nil, checkpoint.Advanced)
		advance(t, k, "k", at(2), nil, checkpoint.Advanced) // not "unchanged": it was this call
		advance(t, k, "k", at(2), nil, checkpoint.Unchanged)
		expectAt(t, k, "k", 2)
	})
}

// Where a write can be seen before it is durable: the file shows it, but its sync
// has failed. That is no success.
func TestSeenIsNotDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		puts, mended := 0, false
		st := onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			puts++
			switch {
			case puts < 2 || mended:
				return next(ctx, op)
			case puts == 2:
				if err := next(ctx, op); err != nil {
					return err
				}
				return syscall.EIO
			}
			return store.MarkNotApplied(fmt.Errorf("%w: an earlier sync failed", store.ErrUnavailable))
		})
		k := open(t, st, nil)
		advance(t, k, "k", at(1), nil, checkpoint.Advanced)
		_, err := k.Advance(t.Context(), "k", at(2), nil)
		unknown(t, err)
		// The answer that it is saved already would be no success either.
		if r, err := k.Advance(t.Context(), "k", at(2), nil); err == nil {
			t.Errorf("got %v", r.Status)
		}
		if r, err := open(t, st, nil).Advance(t.Context(), "k", at(1), nil); err == nil {
			t.Errorf("got %v", r.Status)
		}
		mended = true
		advance(t, k, "k", at(2), nil, checkpoint.Unchanged)
	})
}

// What another wrote may not be durable yet: it is written once more before any caller
// relies on it. Where what is seen is durable, nothing is written.
func TestWhatOthersWroteIsConfirmed(t *testing.T) {
	for name, plain := range map[string]bool{"seen first": false, "durable at once": true} {
		t.Run(name, func(t *testing.T) {
			mem, puts := memstore.New(), 0
			var st store.Store = onPut(mem, func(ctx context.Context, op *store.Op, next store.Handler) error {
				puts++
				return next(ctx, op)
			})
			if plain {
				st = struct{ store.Store }{st} // without its abilities
			}
			other := open(t, mem, nil)
			advance(t, other, "k", at(5), nil, checkpoint.Advanced)
			k := open(t, st, nil)
			for range 2 {
				advance(t, k, "k", at(5), nil, checkpoint.Unchanged)
				advance(t, k, "k", at(4), nil, checkpoint.Behind)
			}
			if want := map[bool]int{false: 1, true: 0}[plain]; puts != want {
				t.Errorf("%d puts, want %d", puts, want)
			}
			advance(t, k, "k", at(6), nil, checkpoint.Advanced)
			advance(t, k, "k", at(6), nil, checkpoint.Unchanged)
			if want := map[bool]int{false: 2, true: 1}[plain]; puts != want {
				t.Errorf("%d puts, want %d", puts, want)
			}
			expectAt(t, other, "k", 6)
		})
	}
}

func TestReplyLostAndSuperseded(t *testing.T) {
	for _, others := range []uint64{0, 1, 20} {
		for name, tells := range map[string]bool{"conflicts with the state": true, "conflicts without it": false} {
			t.Run(fmt.Sprint(others, " others, ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := memstore.New()
					other := open(t, st, nil)
					lossy := onceLost(st, 1, func() {
						for i := range others {
							advance(t, other, "k", at(100+i), nil, checkpoint.Advanced)
						}
					})
					if !tells {
						lossy = struct{ store.Store }{lossy} // without its abilities
					}
					k := open(t, lossy, nil)
					r, err := k.Advance(t.Context(), "k", at(7), nil)
					if others > 0 && !tells {
						unknown(t, err)
					} else if err != nil || r.Status != checkpoint.Advanced {
						t.Fatalf("got %v, %v", r.Status, err)
					}
					if others > 0 {
						advance(t, k, "k", at(7), nil, checkpoint.Behind)
					}
				})
			})
		}
	}
}

func TestRequestLost(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := memstore.New()
			other := open(t, st, nil)
			puts := 0
			lossy := faultstore.New(st, faultstore.MustParse("put checkpoint/k #1 drop"))
			k := open(t, onPut(lossy, func(ctx context.Context, op *store.Op, next store.Handler) error {
				if puts++; puts == 1 && taken {
					advance(t, other, "k", at(9), nil, checkpoint.Advanced)
				}
				return next(ctx, op)
			}), nil)
			if taken {
				// Another came first: so ours never can.
				advance(t, k, "k", at(7), nil, checkpoint.Behind)
			} else {
				advance(t, k, "k", at(7), nil, checkpoint.Advanced)
			}
			// The same once more; or what the other wrote, to make it durable.
			if puts != 2 {
				t.Errorf("%d puts, want 2", puts)
			}
		})
	}
}

// A write that is delayed on its way is applied after it was sent a second time, or
// while the second is under way.
func TestLateApply(t *testing.T) {
	for _, delay := range []string{"1us", "1ms", "3ms", "1s"} {
		synctest.Test(t, func(t *testing.T) {
			st := faultstore.New(memstore.New(), faultstore.MustParse("put checkpoint/k #2 late "+delay))
			defer st.Close()
			k := open(t, st, nil)
			advance(t, k, "k", at(1), nil, checkpoint.Advanced)
			advance(t, k, "k", at(2), nil, checkpoint.Advanced)
			advance(t, k, "k", at(3), nil, checkpoint.Advanced)
			if err := st.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			expectAt(t, k, "k", 3)
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
		if d := time.Since(began); d < 10*time.Second || d > 10*time.Second+time.Second {
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
	expectAt(t, k, "k", 2)
}

type noReadBack struct{ store.Store }

func (noReadBack) Traits() store.Traits { return store.Traits{MinWriteTime: 1} }

// uncommitted is a store that shows states which may yet turn out not to have happened.
type uncommitted struct {
	store.Store
	read func(ctx context.Context, key string) ([]byte, store.Version, error)
}

func (uncommitted) Traits() store.Traits { return store.Traits{MinWriteTime: 1} }

func (uncommitted) HighestToken(context.Context, string) (uint64, error) { return 0, nil }

func (p uncommitted) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	return p.read(ctx, key)
}

// Nothing is said to be behind, or fenced, of a state that is not committed yet.
func TestUncommittedState(t *testing.T) {
	st, elsewhere := memstore.New(), memstore.New()
	k := open(t, st, nil)
	advance(t, k, "k", at(5), nil, checkpoint.Advanced)
	_, old, err := st.Get(t.Context(), "checkpoint/k")
	if err != nil {
		t.Fatal(err)
	}
	advance(t, k, "k", at(6), nil, checkpoint.Advanced)
	phantom := open(t, elsewhere, nil)
	advance(t, phantom, "k", at(100), &checkpoint.AdvanceOptions{Token: 9}, checkpoint.Advanced)
	if _, err := phantom.Reset(t.Context(), "k", at(3), &checkpoint.ChangeOptions{Token: 9}); err != nil {
		t.Fatal(err)
	}
	// In another epoch than the real one, and in the way of nothing.
	if _, err := phantom.Reset(t.Context(), "low", at(0), nil); err != nil {
		t.Fatal(err)
	}
	low, _, err := elsewhere.Get(t.Context(), "checkpoint/low")
	if err != nil {
		t.Fatal(err)
	}
	low = bytes.Replace(low, []byte(`"key":"low"`), []byte(`"key":"k"`), 1)
	for name, read := range map[string]func(context.Context, string) ([]byte, store.Version, error){
		"a phantom": elsewhere.Get,
		"a lower phantom": func(context.Context, string) ([]byte, store.Version, error) {
			return low, "phantom", nil
		},
		"nothing": func(context.Context, string) ([]byte, store.Version, error) {
			return nil, "", store.ErrNotFound
		},
		"an old version": func(ctx context.Context, key string) ([]byte, store.Version, error) {
			value, _, err := st.Get(ctx, key)
			return value, old, err
		},
		"the truth": st.Get,
	} {
		c, err := k.Get(t.Context(), "k", nil)
		if err != nil {
			t.Fatal(err)
		}
		now := c.Sequence
		fresh := func() checkpoint.Store { return open(t, uncommitted{st, read}, nil) }
		if c := advance(t, fresh(), "k", at(now-1), nil, checkpoint.Behind); c.Sequence != now {
			t.Errorf("%s: behind %d, want %d", name, c.Sequence, now)
		}
		advance(t, fresh(), "k", at(now), nil, checkpoint.Unchanged)
		advance(t, fresh(), "k", at(now+1), nil, checkpoint.Advanced)
	}
}

// EIO of a sync leaves the outcome unknown; no space left proves that nothing was
// written.
func TestDiskErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := range 5 {
			for _, fault := range []error{store.MarkNotApplied(syscall.ENOSPC), syscall.EIO} {
				puts := 0
				// Of the unknown ones every second is applied.
				lossy := faultstore.New(memstore.New(), faultstore.MustParse(fmt.Sprintf("put checkpoint/k #%d %s", n+1, []string{"lose", "drop"}[n%2])))
				if fault != error(syscall.EIO) {
					lossy.Set(faultstore.Schedule{})
				}
				k := open(t, onPut(lossy, func(ctx context.Context, op *store.Op, next store.Handler) error {
					err := fault
					if puts++; puts != n+1 || fault == error(syscall.EIO) {
						err = next(ctx, op)
					}
					var unclear *store.InDoubtError
					if errors.As(err, &unclear) {
						unclear.Err = fault
					}
					return err
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
				expectAt(t, k, "k", 5)
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
		expectAt(t, k, "k", 10)
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
		expectAt(t, worker, "k", 100)
	})
}

// A write that only makes sure of what another wrote, and is not answered, leaves
// memory as uncertain as any other.
func TestUnknownConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		advance(t, open(t, mem, nil), "k", at(5), nil, checkpoint.Advanced)
		var down atomic.Bool
		k := open(t, store.Intercept(mem, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if down.Load() {
				return store.ErrUnavailable
			}
			return next(ctx, op)
		}), nil)
		expectAt(t, k, "k", 5)
		down.Store(true)
		if r, err := k.Advance(t.Context(), "k", at(5), nil); err == nil {
			t.Errorf("got %v", r.Status)
		}
		if _, err := k.Get(t.Context(), "k", &checkpoint.GetOptions{Cached: true}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a cached get while the outcome is unknown: %v", err)
		}
		down.Store(false)
		advance(t, k, "k", at(5), nil, checkpoint.Unchanged)
	})
}

// The store or HeldBy ends the goroutine that calls it, as a test does that fails. The call gets an error with its
// outcome, and the key is not blocked: the call that waits behind it is carried out.
func TestGoexit(t *testing.T) {
	for where, want := range map[string]store.Outcome{"in HeldBy": store.NotApplied, "before the put": store.Unknown, "after the put": store.Unknown} {
		synctest.Test(t, func(t *testing.T) {
			ended := false
			exit := func(at string) {
				if at == where && !ended {
					ended = true
					time.Sleep(time.Minute) // another call waits meanwhile
					runtime.Goexit()
				}
			}
			k := open(t, onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
				exit("before the put")
				err := next(ctx, op)
				exit("after the put")
				return err
			}), &checkpoint.Options{HeldBy: func(context.Context, string) (h checkpoint.Holder, held bool, err error) {
				exit("in HeldBy")
				return h, false, nil
			}})
			done := make(chan bool)
			time.AfterFunc(time.Second, func() {
				defer close(done)
				advance(t, k, "k", at(2), nil, checkpoint.Advanced)
			})
			if _, err := k.Reset(t.Context(), "k", at(1), nil); err == nil || store.OutcomeOf(err) != want {
				t.Errorf("%s: Reset: %v (%v), want: %v", where, err, store.OutcomeOf(err), want)
			}
			<-done
			expectAt(t, k, "k", 2)
		})
	}
}

// A read of a listing ends its goroutine: the listing yields an error for this key, and continues.
func TestListGoexit(t *testing.T) {
	st := memstore.New()
	writes := open(t, st, nil)
	for _, key := range []string{"a", "b", "c"} {
		advance(t, writes, key, at(1), nil, checkpoint.Advanced)
	}
	k := open(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpGet && op.Key == "checkpoint/b" {
			runtime.Goexit()
		}
		return next(ctx, op)
	}), nil)
	listed := map[string]bool{}
	for c, err := range k.List(t.Context(), "") {
		listed[c.Key] = err == nil
	}
	if want := map[string]bool{"a": true, "b": false, "c": true}; !maps.Equal(listed, want) {
		t.Errorf("the listing yields %v without an error, want %v", listed, want)
	}
}

package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/internal/positiontest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

var _ checkpoint.Guard = (*lease.Guard)(nil)

func TestRunFromTheCheckpointToTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(t, memstore.New(), nil)
		var c positiontest.Tally
		if err := checkpoint.Run(t.Context(), k, "k", numbers(250, true), c.Handle, nil); err != nil {
			t.Fatal(err)
		}
		expectAt(t, k, "k", 250)
		if err := checkpoint.Run(t.Context(), k, "k", numbers(260, true), c.Handle, nil); err != nil {
			t.Fatal(err)
		}
		expectAt(t, k, "k", 260)
		if len(c.Order) != 260 || !slices.IsSorted(c.Order) {
			t.Errorf("handled %v", c.Order)
		}
	})
}

// Every bounds what is handled again, Interval how long the store is behind, and
// the end of the context saves the rest.
func TestRunSaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var saved []uint64
		st := onPut(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			time.Sleep(time.Millisecond)
			return next(ctx, op)
		})
		k := open(t, st, nil)
		var c positiontest.Tally
		ctx, cancel := context.WithCancelCause(t.Context())
		handled := func(ctx context.Context, e checkpoint.Event[string]) error {
			if got, err := k.Get(ctx, "k", nil); err == nil && e.Sequence-got.Sequence > 10 {
				t.Errorf("%d is handled while %d is saved", e.Sequence, got.Sequence)
			}
			if e.Sequence > 25 {
				time.Sleep(400 * time.Millisecond)
			}
			return c.Handle(ctx, e)
		}
		go func() {
			for cp := range k.Watch(t.Context(), "k") {
				saved = append(saved, cp.Sequence)
			}
		}()
		stop := errors.New("told to stop")
		done := make(chan error)
		go func() {
			done <- checkpoint.Run(ctx, k, "k", numbers(27, false), handled, &checkpoint.RunOptions{SaveEvery: 10, SaveInterval: time.Second})
		}()
		time.Sleep(1500 * time.Millisecond)
		expectAt(t, k, "k", 27) // the source waits, and the interval is over
		cancel(stop)
		if err := <-done; !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
		if want := []uint64{0, 10, 20, 27}; !slices.Equal(saved, want) {
			t.Errorf("saved at %v, want %v", saved, want)
		}

		// What the interval has not saved yet is saved on the way out.
		ctx, cancel2 := context.WithCancel(t.Context())
		go func() {
			time.Sleep(time.Millisecond)
			cancel2()
		}()
		if err := checkpoint.Run(ctx, k, "k", numbers(30, false), c.Handle, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		expectAt(t, k, "k", 30)
	})
}

func TestRunErrors(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		k := open(t, memstore.New(), nil)
		err := checkpoint.Run(t.Context(), k, "k", numbers(9, true), func(_ context.Context, e checkpoint.Event[string]) error {
			if e.Sequence == 4 {
				return broken
			}
			return nil
		}, nil)
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		expectAt(t, k, "k", 3) // what was handled is saved, what failed is not

		err = checkpoint.Run(t.Context(), k, "k", func(context.Context, checkpoint.Checkpoint) iter.Seq2[checkpoint.Event[string], error] {
			return func(yield func(checkpoint.Event[string], error) bool) {
				_ = yield(checkpoint.Event[string]{Position: at(5)}, nil) &&
					yield(checkpoint.Event[string]{}, broken)
			}
		}, new(positiontest.Tally).Handle, nil)
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		expectAt(t, k, "k", 5)

		err = checkpoint.Run(t.Context(), k, "k", func(context.Context, checkpoint.Checkpoint) iter.Seq2[checkpoint.Event[string], error] {
			return func(yield func(checkpoint.Event[string], error) bool) {
				yield(checkpoint.Event[string]{Position: at(5)}, nil)
			}
		}, new(positiontest.Tally).Handle, nil)
		if err == nil {
			t.Error("a source that does not move is not noticed")
		}

		err = checkpoint.Run(t.Context(), k, "k", numbers(9, true), new(positiontest.Tally).Handle, &checkpoint.RunOptions{
			Acquire: func(context.Context) (checkpoint.Guard, error) { return nil, broken },
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		for _, o := range []checkpoint.RunOptions{{SaveEvery: -1}, {SaveInterval: -1}} {
			if err := checkpoint.Run(t.Context(), k, "k", numbers(9, true), new(positiontest.Tally).Handle, &o); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}

// A worker without a token has no business where others have one, with or without a lease. Run handles nothing if the
// checkpoint has a token, and ends when it gets one.
func TestRunWithoutToken(t *testing.T) {
	for name, o := range map[string]*checkpoint.RunOptions{
		"no lease":               nil,
		"a lease without tokens": {Acquire: func(ctx context.Context) (checkpoint.Guard, error) { return grant{ctx, 0}, nil }},
	} {
		for _, first := range []uint64{0, 3} { // the event during which the token comes
			synctest.Test(t, func(t *testing.T) {
				k := open(t, memstore.New(), nil)
				fence := func() {
					if _, err := k.Fence(t.Context(), "k", 3); err != nil {
						t.Error(err)
					}
				}
				if first == 0 {
					fence()
				}
				handled := uint64(0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				err := checkpoint.Run(ctx, k, "k", numbers(3, true), func(_ context.Context, e checkpoint.Event[string]) error {
					if handled++; e.Sequence == first {
						fence()
					}
					return nil
				}, o)
				if !errors.Is(err, checkpoint.ErrFenced) || handled != first {
					t.Errorf("%s, with a token after event %d: Run returned %v, and has handled %d events", name, first, err, handled)
				}
			})
		}
	}
}

func TestRunOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		k := open(t, store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
			if down.Load() {
				return store.ErrUnavailable
			}
			return next(ctx, op)
		}), nil)
		var outages sync.WaitGroup
		defer outages.Wait()
		outage := func(d time.Duration) {
			down.Store(true)
			outages.Go(func() {
				time.Sleep(d)
				down.Store(false)
			})
		}
		var c positiontest.Tally
		outage(30 * time.Second) // at the start
		err := checkpoint.Run(t.Context(), k, "k", numbers(50, true), func(ctx context.Context, e checkpoint.Event[string]) error {
			if e.Sequence == 20 {
				outage(40 * time.Second) // while it saves
			}
			return c.Handle(ctx, e)
		}, &checkpoint.RunOptions{SaveEvery: 5})
		if err != nil {
			t.Fatal(err)
		}
		expectAt(t, k, "k", 50)
		if len(c.Order) != 50 {
			t.Errorf("%d handled", len(c.Order))
		}
		outage(2 * time.Minute) // longer than Retry
		err = checkpoint.Run(t.Context(), k, "k", numbers(60, true), c.Handle, nil)
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
}

// After a reset a running worker continues from the position of the reset.
func TestRunFollowsAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		k, operator := open(t, st, nil), open(t, st, nil)
		var c positiontest.Tally
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reset := sync.OnceFunc(func() {
			if _, err := operator.Reset(ctx, "k", at(10), nil); err != nil {
				t.Error(err)
			}
		})
		done := make(chan error)
		go func() {
			done <- checkpoint.Run(ctx, k, "k", numbers(100, false), func(ctx context.Context, e checkpoint.Event[string]) error {
				if e.Sequence == 57 {
					reset()
				}
				return c.Handle(ctx, e)
			}, &checkpoint.RunOptions{SaveEvery: 5})
		}()
		time.Sleep(time.Minute)
		expectAt(t, k, "k", 100)
		cancel()
		<-done
		for i := uint64(1); i <= 100; i++ {
			want := 1
			if i > 10 && i <= 60 { // 58, 59 and 60 were under way
				want = 2
			}
			if c.Count[i] != want {
				t.Errorf("event %d was handled %d times, want %d", i, c.Count[i], want)
			}
		}
	})
}

// Workers under one lease, of which each stops, or is cut off from the store, again
// and again, also while its handler is deaf: one works at a time, each event is
// handled, and the checkpoint never goes back.
func TestRunUnderALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events, workers = 3000, 4
		st := memstore.New()
		var c positiontest.Tally
		var tokens sync.Map
		var highest atomic.Uint64
		all, stopAll := context.WithCancel(t.Context())
		defer stopAll()
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for life := 0; all.Err() == nil; life++ {
					var cut atomic.Bool
					st := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
						if cut.Load() {
							time.Sleep(100 * time.Millisecond)
							return store.ErrUnavailable
						}
						return next(ctx, op)
					})
					client, err := lease.New(st, &lease.Options{TTL: 2 * time.Second, Holder: fmt.Sprintf("worker %d", w)})
					if err != nil {
						t.Error(err)
						return
					}
					k := open(t, st, nil)
					ctx, stop := context.WithTimeout(all, time.Duration(3+w)*time.Second)
					handle := func(ctx context.Context, e checkpoint.Event[string]) error {
						token := checkpoint.Token(ctx)
						tokens.Store(token, w)
						if token < highest.Load() {
							// The lease was lost while the handler paused: only then can an
							// old holder still work.
							if ctx.Err() == nil {
								t.Errorf("event %d is handled under token %d after %d", e.Sequence, token, highest.Load())
							}
						} else {
							highest.Store(token)
						}
						if e.Sequence%101 == 0 && life%2 == 0 {
							cut.Store(true)
							defer cut.Store(false)
							time.Sleep(5 * time.Second) // deaf, too
						} else {
							time.Sleep(10 * time.Millisecond)
						}
						return c.Handle(ctx, e)
					}
					err = checkpoint.Run(ctx, k, "k", numbers(events, false), handle, &checkpoint.RunOptions{
						SaveEvery: 20,
						Acquire:   func(ctx context.Context) (checkpoint.Guard, error) { return client.Acquire(ctx, "k", nil) },
					})
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
						t.Errorf("worker %d: %v", w, err)
					}
					stop()
					if err := client.Close(context.WithoutCancel(ctx)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		last := uint64(0)
		watcher := open(t, st, nil)
		for cp, err := range watcher.Watch(all, "k") {
			if err != nil {
				continue
			}
			if cp.Sequence < last {
				t.Errorf("the checkpoint went back from %d to %d", last, cp.Sequence)
			}
			if last = cp.Sequence; last == events {
				stopAll()
			}
		}
		wg.Wait()
		again := 0
		for i := uint64(1); i <= events; i++ {
			if c.Count[i] == 0 {
				t.Errorf("event %d was lost", i)
			}
			again += max(c.Count[i]-1, 0)
		}
		n := 0
		tokens.Range(func(_, _ any) bool { n++; return true })
		t.Logf("%d leases, %d events handled again", n, again)
		if n < 10 {
			t.Errorf("%d leases: the test tests nothing", n)
		}
	})
}

// lost is a lease that is lost on command.
type lost struct {
	ctx      context.Context
	lose     context.CancelCauseFunc
	token    uint64
	released atomic.Int64
}

func (g *lost) Context() context.Context      { return g.ctx }
func (g *lost) Token() uint64                 { return g.token }
func (g *lost) Release(context.Context) error { g.released.Add(1); return nil }

// A worker whose lease is taken over is fenced off. It begins a new term and continues from
// the position that the other worker has saved.
func TestRunFencedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		k, other := open(t, st, nil), open(t, st, nil)
		var guards []*lost
		var c positiontest.Tally
		ctx, stop := context.WithCancel(t.Context())
		err := checkpoint.Run(ctx, k, "k", numbers(100, false), func(ctx context.Context, e checkpoint.Event[string]) error {
			if e.Sequence == 15 && len(guards) == 1 {
				// The other holder begins, and this one has not heard of it.
				if _, err := other.Fence(ctx, "k", 2); err != nil {
					t.Error(err)
				}
				advance(t, other, "k", at(40), &checkpoint.AdvanceOptions{Token: 2}, checkpoint.Advanced)
			}
			if e.Sequence == 60 && len(guards) == 2 {
				guards[1].lose(errors.New("expired")) // it hears of it in the middle of its work
				<-ctx.Done()
				return ctx.Err()
			}
			if e.Sequence == 100 {
				defer stop()
			}
			return c.Handle(ctx, e)
		}, &checkpoint.RunOptions{SaveEvery: 10, Acquire: func(ctx context.Context) (checkpoint.Guard, error) {
			held, lose := context.WithCancelCause(context.Background())
			guards = append(guards, &lost{ctx: held, lose: lose, token: uint64(2*len(guards) + 1)})
			return guards[len(guards)-1], nil
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		expectAt(t, k, "k", 100)
		if len(guards) != 3 {
			t.Errorf("%d leases, want 3", len(guards))
		}
		for i, g := range guards {
			if g.released.Load() != 1 {
				t.Errorf("lease %d was released %d times", i, g.released.Load())
			}
		}
		if c.Count[20] != 1 || c.Count[30] != 0 || c.Count[59] != 1 || c.Count[60] != 1 || c.Count[100] != 1 {
			t.Errorf("handled %v", c.Count)
		}
	})
}

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// TestWaiterGetsItsTurn: beside programs that wait for the lock in the kernel and take it
// again at once, a call of ours waits for a few of their turns. A waiter that looks from
// time to time finds the lock taken each time, for more than a hundred.
func TestWaiterGetsItsTurn(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	var turns atomic.Int64
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				unlock := lockFile(t, path)
				turns.Add(1)
				time.Sleep(time.Millisecond)
				unlock()
			}
		})
	}
	waitFor(t, "the others", func() bool { return turns.Load() > 4 })
	// A busy machine keeps the one thread of ours back for a while. A waiter that polls is
	// passed by thousands for each call.
	const calls, rounds = 10, 5
	n, least := uint64(2), int64(1<<62)
	for range rounds {
		before := turns.Load()
		for range calls {
			advance(t, s, keyA, at(n), checkpoint.Advanced)
			n++
		}
		if least = min(least, turns.Load()-before); least <= 100*calls {
			break
		}
	}
	close(done)
	wg.Wait()
	t.Logf("%d turns of others in %d of ours", least, calls)
	if least > 100*calls {
		t.Errorf("the others had the lock %d times while %d calls waited", least, calls)
	}
}

// TestGivenUpWaitsAreBounded: calls that were given up wait on in the kernel. However many
// there are, they are bounded, and when the lock is free none keeps it.
func TestGivenUpWaitsAreBounded(t *testing.T) {
	path := statePath(t)
	before := runtime.NumGoroutine()
	unlock := lockFile(t, path)
	giveUp := func(s *avisofile.Store) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Advance(ctx, keyA, at(1), nil); !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v", err)
		}
	}
	one := open(t, path, nil)
	for range 3 {
		giveUp(one)
		waitFor(t, "all but one goroutine to end", func() bool { return runtime.NumGoroutine() <= before+1 })
	}
	var wg sync.WaitGroup
	for range 3 * avisofile.MaxWaits {
		wg.Go(func() {
			s := open(t, path, nil)
			giveUp(s)
			closeStore(t, s)
		})
	}
	wg.Wait()
	if now := runtime.NumGoroutine(); now > before+avisofile.MaxWaits+3 {
		t.Errorf("%d goroutines before, %d after", before, now)
	}
	unlock()
	waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := one.Advance(ctx, keyA, at(2), nil); err != nil {
		t.Error(err)
	}
}

// TestWaitIsResumed: a call that comes after another was given up continues its wait, and
// gets the lock that comes for it.
func TestWaitIsResumed(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	unlock := lockFile(t, path)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		if _, err := s.Advance(ctx, keyA, at(1), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
	}
	answer := make(chan error, 1)
	go func() {
		_, err := s.Advance(t.Context(), keyA, at(2), nil)
		answer <- err
	}()
	waitFor(t, "the call", func() bool { return avisofile.Waiting(s) == 1 })
	unlock()
	do(t, <-answer)
	wantAt(t, s, keyA, 2)
}

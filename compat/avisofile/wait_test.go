//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// TestWaiterGetsItsTurn: a call of ours waits for the lock in the kernel, all the time that
// another program has it. Other programs may wait there too, and take the lock again at
// once. Then the call waits for a few of their turns. A waiter that polls would find the
// lock taken more than a hundred times in a row.
//
// The kernel decides which waiter gets the lock. On a busy machine that is often the one
// that had it before, since it runs already, many times in a row. So the bound is 25 turns
// for each call, or three times the worst calls of a reference, which makes as many calls
// in the same time. A reference waits in the kernel and does nothing else for the lock,
// syncs a file under it, and leaves it alone for the pause that a store makes, too.
func TestWaiterGetsItsTurn(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	unlock := lockFile(t, path)
	var wg sync.WaitGroup
	wg.Go(func() { advance(t, s, keyA, at(2), checkpoint.Advanced) })
	waitFor(t, "the call to wait in the kernel", waitsInKernel)
	for range 20 {
		if time.Sleep(time.Millisecond); !waitsInKernel() {
			t.Error("the call left the kernel's queue before the lock was free")
			break
		}
	}
	unlock()
	wg.Wait()

	const others, references, calls, each = 4, 4, 20, 25
	var turns atomic.Int64
	done := make(chan struct{})
	for range others {
		wg.Go(func() {
			for !closed(done) {
				unlock := lockFile(t, path)
				turns.Add(1)
				time.Sleep(time.Millisecond)
				unlock()
			}
		})
	}
	waitFor(t, "the others", func() bool { return turns.Load() > others })
	before := turns.Load()
	since := func() int64 { return turns.Load() - before }
	var met [references][]int64 // by each call
	over := make(chan struct{})
	var beside sync.WaitGroup
	for i := range met {
		beside.Go(func() {
			for len(met[i]) < calls || !closed(over) {
				time.Sleep(time.Millisecond)
				began := since()
				unlock := lockFile(t, path)
				met[i] = append(met[i], since()-began)
				writeSynced(t, fmt.Sprint(path, ".reference", i))
				unlock()
			}
		})
	}
	for n := range calls {
		advance(t, s, keyA, at(uint64(n+3)), checkpoint.Advanced)
	}
	ours := since()
	close(over)
	beside.Wait()
	close(done)
	wg.Wait()
	var worst int64 // of any reference
	for _, turns := range met {
		slices.Sort(turns)
		var sum int64
		for _, n := range turns[len(turns)-calls:] {
			sum += n
		}
		worst = max(worst, sum)
	}
	t.Logf("%d turns of others in %d calls of ours, %d in as many of a reference", ours, calls, worst)
	if ours > max(each*calls, 3*worst) {
		t.Errorf("the others had the lock %d times while %d calls waited, and %d times while as many of a reference did", ours, calls, worst)
	}
}

// closed reports whether a channel is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitsInKernel reports whether a wait of this package is in the system call that waits for
// a lock.
func waitsInKernel() bool {
	stacks := make([]byte, 1<<20)
	for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(stack, "syscall.Flock") && strings.Contains(stack, "avisofile.startWait") {
			return true
		}
	}
	return false
}

// writeSynced writes a file and syncs it.
func writeSynced(t *testing.T, path string) {
	f, err := os.Create(path)
	if err == nil {
		_, err = f.WriteString("{}")
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		t.Error(err)
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

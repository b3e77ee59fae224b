//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

func TestWatch(t *testing.T) {
	path := statePath(t)
	s, other := open(t, path, nil), open(t, path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	step := 0
	for c, err := range s.Watch(ctx, keyA) {
		switch step {
		case 0:
			if err != nil || c.Exists {
				t.Fatalf("got %+v, %v", c, err)
			}
			advance(t, s, keyA, at(1), checkpoint.Advanced)
		case 1:
			if err != nil || c.Sequence != 1 {
				t.Fatalf("got %+v, %v", c, err)
			}
			advance(t, other, keyA, at(2), checkpoint.Advanced)
		case 2:
			if err != nil || c.Sequence != 2 {
				t.Fatalf("got %+v, %v", c, err)
			}
			if _, err := other.Delete(ctx, keyA, nil); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err != nil || c.Exists || c.Epoch != 2 {
				t.Fatalf("got %+v, %v", c, err)
			}
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		case 4:
			if !errors.Is(err, avisofile.ErrMalformed) {
				t.Fatalf("got %+v, %v", c, err)
			}
			cancel()
		case 5:
			if errors.Is(err, avisofile.ErrMalformed) {
				continue // seen once more
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got %+v, %v", c, err)
			}
		default:
			t.Fatalf("after the end: got %+v, %v", c, err)
		}
		step++
	}
	if step != 6 {
		t.Errorf("the watch ended at step %d", step)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestClose(t *testing.T) {
	path := statePath(t)
	s, err := avisofile.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	for range 2 {
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Advance(t.Context(), keyA, at(2), nil); !errors.Is(err, checkpoint.ErrClosed) {
		t.Errorf("advance: got %v", err)
	}
	for _, cached := range []bool{false, true} {
		if _, err := s.Get(t.Context(), keyA, &checkpoint.GetOptions{Cached: cached}); !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("get: got %v", err)
		}
	}
	for _, err := range s.Watch(t.Context(), keyA) {
		if !errors.Is(err, checkpoint.ErrClosed) {
			t.Errorf("watch: got %v", err)
		}
	}
}

// TestCloseWhileLocked closes a Store while calls wait for a lock of another program. The
// calls return, and no goroutine remains once the lock is free.
func TestCloseWhileLocked(t *testing.T) {
	path := statePath(t)
	before := runtime.NumGoroutine()
	s, err := avisofile.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock := lockFile(t, path)
	errs := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := s.Advance(t.Context(), keyA, at(1), nil)
			errs <- err
		}()
	}
	waitFor(t, "the calls to wait", func() bool { return avisofile.Waiting(s) == 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := s.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
	for range 3 {
		if err := <-errs; !errors.Is(err, checkpoint.ErrClosed) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v", err)
		}
	}
	unlock()
	waitFor(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

// waitFor waits until is returns true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 1000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

// TestDescriptors changes the file in turn with others, and reads it meanwhile: the
// files that stores keep open must not pile up.
func TestDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("counts descriptors in /proc")
	}
	count := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before := count()
	path := statePath(t)
	stores := []*avisofile.Store{open(t, path, nil), open(t, path, nil), open(t, path, nil)}
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			for n := range uint64(30) {
				if r, err := s.Advance(t.Context(), resumeKey(fmt.Sprint(i)), at(n), nil); err != nil || r.Status != checkpoint.Advanced {
					t.Errorf("got %v, %v", r.Status, err)
				}
				if n%10 == 5 {
					if _, err := s.Reset(t.Context(), resumeKey("r"), at(n), nil); err != nil {
						t.Error(err)
					}
				}
			}
		})
		for range 3 {
			wg.Go(func() {
				for n := range 60 {
					if _, err := s.Get(t.Context(), resumeKey(fmt.Sprint(n%3)), nil); err != nil && !errors.Is(err, store.ErrNotFound) {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	if got := count(); got > before+2*len(stores)+3 {
		t.Errorf("%d descriptors are open, %d were before", got, before)
	}
	for _, s := range stores {
		closeStore(t, s)
	}
	if got := count(); got > before+1 {
		t.Errorf("after Close %d descriptors are open, %d were before", got, before)
	}
}

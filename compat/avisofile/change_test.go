//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// TestReplacedLock: a lock file that was removed or replaced locks no program out. Who
// holds the old one is no obstacle, and who holds the new one is.
func TestReplacedLock(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	unlock := lockFile(t, path)
	defer unlock()
	_, done := waiting(t, s, 1)
	do(t, os.Remove(path+".lock"))
	waitFor(t, "the call, which needs the new lock", func() bool { return len(done) > 0 })
	do(t, <-done)
	wantLocked(t, s, 2, lockFile(t, path))
}

// TestRolledBackBehindOurBack: the file comes from a backup, or a program without
// epochs deletes a key.
func TestRolledBackBehindOurBack(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(90), checkpoint.Advanced)
	backup, err := os.ReadFile(path)
	do(t, err)
	advance(t, s, keyA, at(100), checkpoint.Advanced)
	do(t, os.WriteFile(path+".restored", backup, 0o600))
	do(t, os.Rename(path+".restored", path))

	c := advance(t, s, keyA, at(101), checkpoint.RolledBack)
	if c.Sequence != 90 {
		t.Errorf("got %+v, want the saved state", c)
	}
	advance(t, s, keyA, at(101), checkpoint.RolledBack) // until it is looked at
	wantAt(t, s, keyA, 90)
	advance(t, s, keyA, at(91), checkpoint.Advanced)

	do(t, mustPeer(t, path).delete(keyA))
	advance(t, s, keyA, at(92), checkpoint.RolledBack)
	if c := get(t, s, keyA); c.Exists {
		t.Errorf("got %+v", c)
	}
	advance(t, s, keyA, at(1), checkpoint.Advanced)

	// A new store knows of nothing: it sees a file like any other.
	do(t, os.WriteFile(path, backup, 0o600))
	advance(t, open(t, path, nil), keyA, at(95), checkpoint.Advanced)
}

// TestPendingReset: a process was killed between the epoch and the state of a reset.
func TestPendingReset(t *testing.T) {
	path := statePath(t)
	advance(t, open(t, path, nil), keyA, at(100), checkpoint.Advanced)
	fence := `{"holdfast":1,"kind":"checkpoint-fence","keys":{"` + keyA + `":{"epoch":2,"pending":true}}}`
	do(t, os.WriteFile(path+".fence", []byte(fence), 0o600))
	s := open(t, path, nil)
	unlock := lockFile(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, keyA, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the reset may be under way: got %v", err)
	}
	if _, err := s.Get(t.Context(), keyB, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another key: got %v", err)
	}
	unlock()
	if c := get(t, s, keyA); c.Sequence != 100 || c.Epoch != 2 {
		t.Errorf("got %+v", c)
	}
	for c, err := range open(t, path, nil).List(t.Context(), "") {
		if err != nil || c.Epoch != 2 {
			t.Errorf("got %+v, %v", c, err)
		}
	}
	// The next change removes the mark. So a reader without the right to take the lock is not refused for ever.
	advance(t, s, keyA, at(101), checkpoint.Advanced)
	b, err := os.ReadFile(path + ".fence")
	do(t, err)
	if strings.Contains(string(b), "pending") || !strings.Contains(string(b), `"epoch": 2`) {
		t.Errorf("got %s", b)
	}
	if c := reset(t, s, keyA, 1, nil); c.Epoch != 3 {
		t.Errorf("got %+v", c)
	}
}

// TestStoppedHalfway: a write that has raised an epoch or a token, and then fails, is not said to have had no effect.
func TestStoppedHalfway(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(7), checkpoint.Advanced)
	do(t, os.Mkdir(path+".good", 0o700)) // no copy of the state can be kept, so the state cannot be written
	_, err := s.Reset(t.Context(), keyA, at(1), nil)
	if c := get(t, s, keyA); c.Sequence != 7 || c.Epoch != 2 || err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("a reset: %v (%v), and the file has %+v", err, store.OutcomeOf(err), c)
	}
	_, err = s.Advance(t.Context(), keyA, at(8), &checkpoint.AdvanceOptions{Token: 5})
	if c := get(t, s, keyA); c.Sequence != 7 || c.Token != 5 || err == nil || store.OutcomeOf(err) != store.Unknown {
		t.Errorf("an advance with a token: %v (%v), and the file has %+v", err, store.OutcomeOf(err), c)
	}
	_, err = s.Advance(t.Context(), keyA, at(8), &checkpoint.AdvanceOptions{Token: 5})
	if store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("an advance with the same token: %v (%v)", err, store.OutcomeOf(err))
	}
	do(t, os.Remove(path+".good"))
	if c := reset(t, s, keyA, 1, &checkpoint.ChangeOptions{Token: 5}); c.Epoch != 3 || c.Sequence != 1 {
		t.Errorf("got %+v", c)
	}
}

// TestResetIsMarked: a reset and a delete mark in the fence file that they are under way, before
// they write the state, and remove the mark after that.
func TestResetIsMarked(t *testing.T) {
	commits := make(chan avisofile.CommitStats, 1)
	s := open(t, statePath(t), avisofile.OnCommit(func(c avisofile.CommitStats) { commits <- c }))
	want := func(what string, fences int) {
		t.Helper()
		if c := <-commits; c.Rewrites != 1 || c.FenceRewrites != fences {
			t.Errorf("%s: %+v; want %d rewrites of the fence file", what, c, fences)
		}
	}
	advance(t, s, keyA, at(7), checkpoint.Advanced)
	want("an advance", 0)
	reset(t, s, keyA, 1, nil)
	want("a reset", 2)
	if _, err := s.Delete(t.Context(), keyA, nil); err != nil {
		t.Fatal(err)
	}
	want("a delete", 2)
}

// TestResetIsNotUndone: readers see a reset whole or not at all, so that work that
// began from what they saw cannot undo it.
func TestResetIsNotUndone(t *testing.T) {
	path := statePath(t)
	const resets = 40
	resetter := open(t, path, nil)
	reset(t, resetter, keyA, resets*1e6, nil) // begins epoch 2
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		reader := open(t, path, nil)
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				c, err := reader.Get(t.Context(), keyA, nil)
				if err != nil {
					t.Error(err)
					return
				}
				// Another store, which knows no more than the epoch.
				s, err := avisofile.Open(path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				r, err := s.Advance(t.Context(), keyA, at(c.Sequence+1), &checkpoint.AdvanceOptions{Epoch: c.Epoch})
				if r.Status == 0 {
					t.Error(err)
				}
				// The sequences of an epoch begin where its reset has put them, and go up
				// one by one.
				base := (resets + 2 - r.Current.Epoch) * 1e6
				if r.Status == checkpoint.Advanced && (r.Current.Sequence < base || r.Current.Sequence > base+1e5) {
					t.Errorf("a reset was undone: epoch %d, sequence %d", r.Current.Epoch, r.Current.Sequence)
				}
				closeStore(t, s)
			}
		})
	}
	for range resets {
		epoch := get(t, resetter, keyA).Epoch + 1
		reset(t, resetter, keyA, (resets+2-epoch)*1e6, nil)
	}
	close(done)
	wg.Wait()
}

// assertNoLeftOvers checks that the directory has only the state file and the files that
// belong to it.
func assertNoLeftOvers(t testing.TB, path string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestFenceDuringGet: a Get that reads the files while a Fence writes them does not disturb the Fence.
func TestFenceDuringGet(t *testing.T) {
	path, key := statePath(t), resumeKey("k")
	s, other := open(t, path, nil), open(t, path, nil)
	for token := uint64(1); token < 100; token += 2 {
		if _, err := other.Advance(t.Context(), key, at(token), &checkpoint.AdvanceOptions{Token: token}); err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(path + ".fence")
		do(t, err)
		fenced := make(chan error)
		go func() {
			_, err := s.Fence(t.Context(), key, token+1)
			fenced <- err
		}()
		for {
			now, err := os.Lstat(path + ".fence")
			do(t, err)
			if !os.SameFile(before, now) {
				break
			}
		}
		get(t, s, key)
		if err := <-fenced; err != nil {
			t.Fatal(err)
		}
	}
}

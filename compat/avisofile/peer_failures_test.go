//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/compat/avisofile"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file are failures of a real program that keeps this file. Where a
// control shows the failure, it runs the peer: the same lock, merge and order of
// steps.

func mustPeer(t *testing.T, path string) *peer {
	t.Helper()
	p, err := openPeer(path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Of two handles that know a key one deletes it, or resets it from 100 to 10;
// the other writes something else, and the key is back, or at 100 again.
func TestStaleHandleBringsNothingBack(t *testing.T) {
	t.Run("delete", func(t *testing.T) {
		path := statePath(t)
		h1 := open(t, path, nil)
		advance(t, h1, keyA, at(100), checkpoint.Advanced)
		h2 := open(t, path, nil)
		_, err := h2.Delete(t.Context(), keyA, nil)
		do(t, err)
		advance(t, h1, keyB, at(1), checkpoint.Advanced)
		for _, s := range []*avisofile.Store{h1, h2, open(t, path, nil)} {
			if c := get(t, s, keyA); c.Exists {
				t.Errorf("the deleted key is back: %+v", c)
			}
		}
	})
	t.Run("reset", func(t *testing.T) {
		path := statePath(t)
		h1 := open(t, path, nil)
		advance(t, h1, keyA, at(100), checkpoint.Advanced)
		h2 := open(t, path, nil)
		reset(t, h2, keyA, 10, nil)
		advance(t, h1, keyB, at(1), checkpoint.Advanced)
		advance(t, h1, keyA, at(101), checkpoint.RolledBack)
		wantAt(t, h2, keyA, 10)
	})
	t.Run("control", func(t *testing.T) {
		path := statePath(t)
		h1 := mustPeer(t, path)
		do(t, h1.put(keyA, mark{Sequence: 100}))
		h2 := mustPeer(t, path)
		do(t, h2.delete(keyA))
		do(t, h1.put(keyB, mark{Sequence: 1}))
		wantAt(t, open(t, path, nil), keyA, 100) // it is back
	})
}

// Deleting a key that the handle never saw reports success and does nothing.
func TestDeleteOfAKeyNeverSeen(t *testing.T) {
	path := statePath(t)
	h1 := open(t, path, nil)
	advance(t, open(t, path, nil), keyA, at(100), checkpoint.Advanced)
	_, err := h1.Delete(t.Context(), keyA, nil)
	do(t, err)
	if c := get(t, open(t, path, nil), keyA); c.Exists {
		t.Errorf("it is still there: %+v", c)
	}
	t.Run("control", func(t *testing.T) {
		path := statePath(t)
		h1 := mustPeer(t, path)
		do(t, mustPeer(t, path).put(keyA, mark{Sequence: 100}))
		do(t, h1.delete(keyA))
		wantAt(t, open(t, path, nil), keyA, 100) // success was reported
	})
}

// A put that is given up halfway leaves the disk new and the memory old.
func TestGivenUpHalfway(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	outcomes := map[store.Outcome]int{}
	last := uint64(0)
	rounds := 300
	for seq := uint64(1); rounds > 0; seq++ {
		rounds--
		limit := rand.N(4 * time.Millisecond)
		if seq%2 == 0 {
			limit /= 12 // about as long as it takes to get the lock
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		r, err := s.Advance(ctx, keyA, at(seq), nil)
		cancel()
		outcome := store.OutcomeOf(err)
		outcomes[outcome]++
		if err == nil && r.Status != checkpoint.Advanced {
			t.Fatalf("got %v", r.Status)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		// A read that waits for the write in flight: one that is refused.
		if _, err := s.Reset(t.Context(), keyA, at(0), &checkpoint.ChangeOptions{ExpectedSequence: new(uint64)}); err == nil {
			t.Fatal("a reset that expects 0 was done")
		}
		memory, _ := s.Get(t.Context(), keyA, &checkpoint.GetOptions{Cached: true})
		disk := get(t, open(t, path, nil), keyA)
		if memory.Exists != disk.Exists || memory.Sequence != disk.Sequence {
			t.Fatalf("memory %+v, disk %+v", memory, disk)
		}
		switch {
		case outcome == store.Applied && disk.Sequence != seq,
			outcome == store.NotApplied && disk.Sequence != last,
			outcome == store.Unknown && disk.Sequence != last && disk.Sequence != seq:
			t.Fatalf("%v, and the disk has %d", err, disk.Sequence)
		}
		last = disk.Sequence
	}
	t.Log(outcomes)
	t.Run("control", func(t *testing.T) {
		path := statePath(t)
		p := mustPeer(t, path)
		p.drop = true
		do(t, p.put(keyA, mark{Sequence: 1}))
		if _, known := p.memory[keyA]; known {
			t.Error("its memory followed")
		}
		wantAt(t, open(t, path, nil), keyA, 1)
	})
}

// Left-over temporary files stay for ever; a symbolic link is replaced by a
// plain file; the mode is lost.
func TestLeftOversAreSwept(t *testing.T) {
	path := statePath(t)
	dir := filepath.Dir(path)
	const random = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	ours := filepath.Join(dir, ".state.json.holdfast-"+random+".tmp")
	keep := []string{
		filepath.Join(dir, ".other.json.holdfast-"+random+".tmp"),
		filepath.Join(dir, ".state.json.holdfast-"+random),
		filepath.Join(dir, ".state.json.holdfast-ABC.tmp"),
		filepath.Join(dir, ".state.json.holdfast-"+random[1:]+"x.tmp"),
		filepath.Join(dir, "state.json.tmp"),
	}
	for _, name := range append(keep, ours) {
		do(t, os.WriteFile(name, nil, 0o600))
	}
	s := open(t, path, nil)
	get(t, s, keyA)
	if _, err := os.Stat(ours); err != nil {
		t.Errorf("a read has swept: %v", err)
	}
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	if _, err := os.Stat(ours); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was not swept: %v", err)
	}
	for _, name := range keep {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("what is not ours was swept: %v", err)
		}
	}
}

func TestLinkModeAndOwnerAreKept(t *testing.T) {
	// The path as given leads over a link in another directory, relative and through
	// a directory that is a link itself.
	root := t.TempDir()
	for _, dir := range []string{"given", "middle", "real/deep"} {
		do(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	do(t, os.Symlink(filepath.Join(root, "real/deep"), filepath.Join(root, "middle/dir")))
	do(t, os.Symlink("../middle/link.json", filepath.Join(root, "given/state.json")))
	do(t, os.Symlink("dir/../target.json", filepath.Join(root, "middle/link.json")))
	target := filepath.Join(root, "real/target.json")
	given := filepath.Join(root, "given/state.json")

	s := open(t, given, nil) // the links dangle still
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	info, err := os.Lstat(target)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
		t.Fatalf("the target: got %v, %v", info, err)
	}
	do(t, os.Chmod(target, 0o640))
	uid, gid := uint32(os.Getuid()), uint32(os.Getgid())
	if uid == 0 {
		uid, gid = 12345, 23456
		do(t, os.Chown(target, int(uid), int(gid)))
	}
	advance(t, s, keyA, at(2), checkpoint.Advanced)
	for _, link := range []string{given, filepath.Join(root, "middle/link.json")} {
		if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v, %v", link, info, err)
		}
	}
	info, err = os.Lstat(target)
	do(t, err)
	sys := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o640 || sys.Uid != uid || sys.Gid != gid {
		t.Errorf("got mode %v, user %d, group %d", info.Mode(), sys.Uid, sys.Gid)
	}
	// A program that knows the file by another name is excluded, too.
	for _, name := range []string{given, filepath.Join(root, "middle/link.json"), target} {
		wantLocked(t, s, 3, lockFile(t, name))
	}
	direct := open(t, target, nil)
	advance(t, direct, keyA, at(4), checkpoint.Advanced)
	wantAt(t, s, keyA, 4)

	// A link that is turned elsewhere is followed.
	other := filepath.Join(root, "other.json")
	do(t, os.Remove(given))
	do(t, os.Symlink(other, given))
	advance(t, s, keyB, at(7), checkpoint.Advanced)
	wantAt(t, open(t, other, nil), keyB, 7)
	wantAt(t, direct, keyA, 4)

	t.Run("control", func(t *testing.T) {
		dir := t.TempDir()
		do(t, os.WriteFile(dir+"/target.json", []byte(none), 0o640))
		do(t, os.Symlink("target.json", dir+"/state.json"))
		do(t, mustPeer(t, dir+"/state.json").put(keyA, mark{Sequence: 1}))
		if info, err := os.Lstat(dir + "/state.json"); err != nil || !info.Mode().IsRegular() {
			t.Errorf("the link is still there: %v, %v", info, err)
		}
	})
}

// An equal sequence with another event id is dropped without a word.
func TestEqualSequenceOtherEvent(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, checkpoint.Position{Sequence: 5, EventID: "a"}, checkpoint.Advanced)
	c := advance(t, open(t, path, nil), keyA, checkpoint.Position{Sequence: 5, EventID: "b"}, checkpoint.Mismatch)
	if c.EventID != "a" {
		t.Errorf("got %+v, want what is saved", c)
	}
	t.Run("control", func(t *testing.T) {
		path := statePath(t)
		a, b := "a", "b"
		p := mustPeer(t, path)
		do(t, p.put(keyA, mark{5, &a}))
		do(t, p.put(keyA, mark{5, &b})) // success was reported
		if c := get(t, open(t, path, nil), keyA); c.EventID != "a" {
			t.Errorf("got %+v", c)
		}
	})
}

// Waiting for the lock has no limit.
func TestWaitIsBounded(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	unlock := lockFile(t, path)
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := s.Advance(ctx, keyA, at(2), nil)
	if !errors.Is(err, context.DeadlineExceeded) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v, %v", err, store.OutcomeOf(err))
	}
	t.Logf("gave up after %v", time.Since(start))
	wantAt(t, s, keyA, 1) // reads do not wait at all

	p := startPeer(t, path)
	p.send("put %s 5 null", "control")
	answered := make(chan string, 1)
	go func() {
		line, _ := p.out.ReadString('\n')
		answered <- line
	}()
	select {
	case line := <-answered:
		t.Errorf("the control did not wait: %q", line)
	case <-time.After(100 * time.Millisecond):
	}
	unlock()
	if line := <-answered; line != "ok\n" {
		t.Errorf("the control: got %q", line)
	}
	// What was given up was taken back: it does not come later.
	advance(t, s, keyB, at(1), checkpoint.Advanced)
	wantAt(t, s, keyA, 1)
}

// Every put rewrites the whole file. Here 64 callers that wait together cost one
// rewrite, also of a file with 10,000 keys.
func TestGroupCommit(t *testing.T) {
	for _, keys := range []int{0, 10000} {
		t.Run(fmt.Sprintf("%d keys", keys), func(t *testing.T) {
			path := statePath(t)
			fill(t, path, keys)
			const callers = 64
			var commits []avisofile.CommitStats
			s, err := avisofile.Open(path, avisofile.OnCommit(func(c avisofile.CommitStats) { commits = append(commits, c) }))
			do(t, err)
			unlock := lockFile(t, path)
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					r, err := s.Advance(t.Context(), resumeKey(fmt.Sprint("caller", i)), at(uint64(i)), nil)
					if err != nil || r.Status != checkpoint.Advanced {
						t.Errorf("got %v, %v", r.Status, err)
					}
				})
			}
			waitFor(t, "all callers to wait", func() bool { return avisofile.Waiting(s) == callers })
			unlock()
			wg.Wait()
			do(t, s.Close(t.Context()))
			if len(commits) != 1 || commits[0].Calls != callers || commits[0].Rewrites != 1 || commits[0].FenceRewrites != 0 || commits[0].Err != nil {
				t.Errorf("got %+v, want one commit with one rewrite", commits)
			}
			s = open(t, path, nil)
			for i := range callers {
				wantAt(t, s, resumeKey(fmt.Sprint("caller", i)), uint64(i))
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		p := mustPeer(t, statePath(t))
		for i := range 64 {
			do(t, p.put(resumeKey(fmt.Sprint(i)), mark{Sequence: 1}))
		}
		if p.rewrites != 64 {
			t.Errorf("got %d rewrites", p.rewrites)
		}
	})
}

// fill writes a state file with so many keys.
func fill(t testing.TB, path string, keys int) {
	t.Helper()
	all := make(map[string]mark, keys)
	for i := range keys {
		event := fmt.Sprintf("mars@%d", i)
		all[resumeKey(fmt.Sprint("key", i))] = mark{uint64(i), &event}
	}
	b, err := encodePeer(all)
	if err == nil {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUnchangedCostsNoRewrite: answers that change nothing leave the file alone.
func TestUnchangedCostsNoRewrite(t *testing.T) {
	path := statePath(t)
	var rewrites atomic.Int64
	s := open(t, path, avisofile.OnCommit(func(c avisofile.CommitStats) { rewrites.Add(int64(c.Rewrites)) }))
	advance(t, s, keyA, at(5), checkpoint.Advanced)
	before, err := os.Stat(path)
	do(t, err)
	advance(t, s, keyA, at(5), checkpoint.Unchanged)
	advance(t, s, keyA, at(4), checkpoint.Behind)
	if _, err := s.Delete(t.Context(), keyB, nil); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	after, err := os.Stat(path)
	do(t, err)
	closeStore(t, s)
	if !os.SameFile(before, after) || rewrites.Load() != 1 {
		t.Errorf("%d rewrites", rewrites.Load())
	}
}

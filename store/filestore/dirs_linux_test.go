package filestore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// TestNoGap: where an old segment cannot be removed, those after it stay too. With a
// gap after it, a process that stopped in the old one would make the next one again,
// and write where no process reads.
func TestNoGap(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s, slow := open(t, dir, filestore.Tiny()), open(t, dir, filestore.Tiny())
	v := put(t, s, "key", "", "0")
	v = put(t, s, "key", v, "1")
	_, old, err := slow.Get(ctx, "key")
	if err != nil || old != v {
		t.Fatal(old, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "k/key/*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	stopped := files[len(files)-1]                      // where the slow one stopped
	mount(t, stopped, stopped, "", syscall.MS_BIND, "") // it cannot be removed now
	for i := range 20 {
		v = put(t, s, "key", v, fmt.Sprint(i+2))
	}
	// A process that opens the log sweeps it.
	if _, _, err := open(t, dir, nil).Get(ctx, "key"); err != nil {
		t.Fatal(err)
	}
	if value, now, err := slow.Get(ctx, "key"); now != v {
		t.Errorf("the slow one: got %q at %s, %v, want %s", value, now, err, v)
	}
	if _, err := slow.Put(ctx, "key", old, []byte("lost")); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the slow one's put: got %v, want a conflict", err)
	}
	if value, now, err := s.Get(ctx, "key"); now != v {
		t.Errorf("got %q at %s, %v, want %s", value, now, err, v)
	}
}

// TestNotCreated: only an error that says so proves that a new log is another's. After
// any other the log that is there may be the one that was to be made.
func TestNotCreated(t *testing.T) {
	const again = store.Applied // no error: there is nothing to report
	for _, c := range []struct {
		errno syscall.Errno
		there bool
		want  store.Outcome
	}{
		{syscall.ENOTEMPTY, true, again}, {syscall.EEXIST, true, again}, {syscall.ENOENT, false, again},
		{syscall.EACCES, true, again}, {syscall.ENOSPC, true, again},
		{syscall.EACCES, false, store.NotApplied}, {syscall.ENOSPC, false, store.NotApplied},
		{syscall.EROFS, false, store.NotApplied}, {syscall.ENOTDIR, false, store.NotApplied},
		{syscall.EIO, false, store.Unknown}, {syscall.EIO, true, store.Unknown}, {syscall.EINTR, true, store.Unknown},
	} {
		err := filestore.NotCreated(&os.LinkError{Op: "rename", Err: c.errno}, c.there)
		if got := store.OutcomeOf(err); got != c.want {
			t.Errorf("%v, with a directory there: %v: got %v (%v), want %v", c.errno, c.there, got, err, c.want)
		}
	}
}

// TestPipeInTheWay: a pipe in the place of a log keeps no caller waiting.
func TestPipeInTheWay(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "good", "", "1")
	var pipes []string
	for _, key := range []string{"short", strings.Repeat("long", 100)} {
		log := filepath.Join(dir, "k", filestore.EncodeKey(key))
		if err := os.Mkdir(log, 0o700); err != nil {
			t.Fatal(err)
		}
		pipe := filepath.Join(log, "000000000001")
		pipes = append(pipes, pipe)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Get(t.Context(), key); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("get: got %v, want corrupt", err)
		}
	}
	listed := make(chan error, 1)
	go func() {
		var last error
		for _, err := range s.List(t.Context(), "") {
			last = err
		}
		listed <- last
	}()
	select {
	case err := <-listed:
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("list: got %v, want corrupt", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the listing waits for a pipe")
		for _, pipe := range pipes {
			if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
				defer f.Close()
			}
		}
	}
}

// TestLinkInTheWay: a symbolic link in the place of one of the store's directories
// is refused, wherever it leads, and what is there is left alone.
func TestLinkInTheWay(t *testing.T) {
	for _, name := range []string{"k", "tmp"} {
		for _, to := range []string{"inside", "nothing", "..", "/proc", name} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			dir := memoryDir(t)
			precious := filepath.Join(dir, "inside/precious")
			if err := os.MkdirAll(precious, 0o700); err != nil {
				t.Fatal(err)
			}
			old := time.Now().Add(-3 * time.Hour)
			if err := os.Chtimes(precious, old, old); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			s := open(t, dir, nil)
			_, err := s.Put(ctx, "key", "", []byte("1"))
			if err == nil || store.OutcomeOf(err) != store.NotApplied || ctx.Err() != nil {
				t.Errorf("%s leads to %s: put: got %v (%v), want it to be refused", name, to, err, store.OutcomeOf(err))
			}
			if out := to == ".." || to == "/proc"; out && name == "k" {
				_, _, getErr := s.Get(ctx, "key")
				var listErr error
				for _, listErr = range s.List(ctx, "") {
				}
				for _, err := range []error{err, getErr, listErr} {
					if !errors.Is(err, store.ErrCorrupt) {
						t.Errorf("%s leads to %s: got %v, want it to be damage", name, to, err)
					}
				}
			}
			if _, err := os.Stat(precious); err != nil {
				t.Errorf("%s leads to %s: %v", name, to, err)
			}
			cancel()
		}
	}
}

// TestKilledWhileMaking: a process that is killed between making a directory and giving
// it to the group leaves a temporary, and locks no user out.
func TestKilledWhileMaking(t *testing.T) {
	dir := memoryDir(t)
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	stage := filepath.Join(dir, "tmp-"+rand.Text())
	if err := os.MkdirAll(filepath.Join(stage, rand.Text()), 0o700); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(stage, old, old); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, nil)
	put(t, s, "key", "", "1")
	if _, err := s.Announce(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"k", "tmp", "alive"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o770 {
			t.Errorf("%s has mode %o, want 770", name, got)
		}
	}
	if _, err := os.Stat(stage); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old stage: got %v, want ErrNotExist", err)
	}
}

// TestSweptStageIsNotUsed: a process stops while it moves a new log out of its stage, for so long that a sweep removes the
// stage. It continues meanwhile. Either its log is in place and complete, or it learns that it must make the log again.
func TestSweptStageIsNotUsed(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "model", "", "1")
	segment, err := os.ReadFile(filepath.Join(dir, "k/model", firstSegment))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.Open(filepath.Join(dir, "k"))
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Close()
	const rounds = 3000
	old, placed := time.Now().Add(-2*time.Hour), 0
	for n := range rounds {
		name, log := "tmp/"+rand.Text(), rand.Text()
		stage := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Join(stage, log), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(stage, log, firstSegment), segment, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(stage, old, old); err != nil {
			t.Fatal(err)
		}
		maker, err := os.Open(stage) // as far as the maker has come
		if err != nil {
			t.Fatal(err)
		}
		key, renamed := fmt.Sprint("key", n), make(chan error)
		go func() {
			for start := time.Now(); time.Since(start) < time.Duration(n%150)*time.Microsecond; {
				continue
			}
			renamed <- syscall.Renameat(int(maker.Fd()), log, int(keys.Fd()), key)
		}()
		s.SweepStage(name)
		switch err := <-renamed; {
		case err == nil:
			placed++
			if _, err := os.Lstat(filepath.Join(dir, "k", key, firstSegment)); err != nil {
				t.Fatalf("the %d. log was put in place, and then swept: %v", n, err)
			}
		case err != syscall.ENOENT:
			t.Fatal(err)
		}
		maker.Close()
	}
	if placed == 0 || placed == rounds {
		t.Errorf("%d of %d logs were put in place: there was no race", placed, rounds)
	}

	stage := filepath.Join(dir, "tmp", rand.Text())
	if err := os.MkdirAll(filepath.Join(stage, rand.Text()+"-"), 0o700); err != nil { // of a killed sweep
		t.Fatal(err)
	}
	if err := os.Chtimes(stage, old, old); err != nil {
		t.Fatal(err)
	}
	s.SweepStage("tmp/" + filepath.Base(stage))
	if _, err := os.Lstat(stage); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a killed sweep has left is still there: %v", err)
	}
}

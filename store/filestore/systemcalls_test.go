//go:build linux

package filestore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// opsResult has the results of a process whose system calls failed.
type opsResult struct {
	Applied    int
	NotApplied int
	Unknown    int
	Errors     []string
	Bad        []string // results that violate the contract
	Last       map[string]store.Version
}

// operate works on a store while a system call of its thread fails, and checks that the
// reported outcomes are true. Its argument: the directory.
func operate(args []string) error {
	runtime.LockOSThread() // calls are counted for each thread
	var r opsResult
	s, err := filestore.Open(args[0], filestore.Tiny())
	if err != nil {
		// Nothing to check: it opened or it did not.
		return json.NewEncoder(os.Stdout).Encode(opsResult{Errors: []string{err.Error()}})
	}
	r.Last = make(map[string]store.Version)
	refused := make(map[string]bool) // values that were not applied
	for i := range 16 {
		key := []string{"a", "b"}[i/8]
		value := fmt.Sprintf(`"%d"`, i)
		put := s.Put
		if i%3 == 2 {
			put = s.PutUnsynced
		}
		v, err := put(testContext(), key, r.Last[key], []byte(value))
		if err != nil {
			r.Errors = append(r.Errors, err.Error())
		}
		switch store.OutcomeOf(err) {
		case store.Applied:
			r.Applied++
		case store.NotApplied:
			r.NotApplied++
			refused[value] = true
			if errors.Is(err, store.ErrConflict) {
				r.Bad = append(r.Bad, "a conflict without another writer: "+err.Error())
			}
		case store.Unknown:
			r.Unknown++
			if store.AttemptedVersion(err) == "" {
				r.Bad = append(r.Bad, "an unknown outcome that names no version: "+err.Error())
			}
		}
		unknown := err
		got, now, err := readBack(s, key)
		if store.OutcomeOf(unknown) == store.Unknown {
			found, resolveErr := s.Resolve(testContext(), key, r.Last[key], store.AttemptedVersion(unknown))
			there := string(got) == value
			if resolveErr == nil && (found.Resolution == store.ResolutionUnknown || there != (found.Resolution == store.ResolutionApplied)) {
				r.Bad = append(r.Bad, fmt.Sprintf("%s was settled as %v; there is %s", value, found.Resolution, got))
			}
		}
		switch {
		case err != nil:
			r.Bad = append(r.Bad, fmt.Sprintf("%s cannot be read: %v", key, err))
		case refused[string(got)]:
			r.Bad = append(r.Bad, value+" was refused, and is there")
		case v != "" && (now != v || string(got) != value):
			r.Bad = append(r.Bad, fmt.Sprintf("%s was acknowledged, and %s is there", value, got))
		}
		r.Last[key] = now
	}
	for range s.List(testContext(), "") {
		continue // it may fail
	}
	if err := s.Close(); err != nil {
		r.Errors = append(r.Errors, err.Error())
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// readBack reads a register; one call of the system may fail meanwhile.
func readBack(s *filestore.Store, key string) ([]byte, store.Version, error) {
	value, v, err := s.Get(testContext(), key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		value, v, err = s.Get(testContext(), key)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return value, v, err
}

// fault is a system call that fails: the one of that number in each thread, or all of
// them.
type fault struct {
	call, errno string
	when        int
}

// inject lets a command run into a fault.
func (f fault) inject(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	strace := suitetest.NeedStrace(t)
	inject := fmt.Sprintf("inject=%s:error=%s", f.call, f.errno)
	if f.when > 0 {
		inject += fmt.Sprintf(":when=%d", f.when)
	}
	args := []string{strace, "-f", "-qqq", "-o", os.DevNull, "-e", "trace=" + f.call, "-e", inject, "--", cmd.Path}
	cmd.Args = append(args, cmd.Args[1:]...)
	cmd.Path = strace
}

// TestNoInotify: where the limits of inotify are reached, looks replace it.
func TestNoInotify(t *testing.T) {
	for _, f := range []fault{{"inotify_init1", "EMFILE", 0}, {"inotify_add_watch", "ENOSPC", 0}} {
		dir := memoryDir(t)
		s := open(t, dir, nil)
		v := put(t, s, "key", "", "1")
		cmd := worker(t, "wait", dir, "key", string(v), "3")
		f.inject(t, cmd)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "waiting\n" {
			t.Fatalf("got %q, %v", line, err)
		}
		put(t, s, "key", v, "2")
		if _, err := lines.ReadString('\n'); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestInject makes single system calls fail. The reported outcome of a write must be true,
// and the next process must find what the last one left.
func TestInject(t *testing.T) {
	faults := []fault{
		{"write", "ENOSPC", 3}, {"write", "EIO", 4},
		{"fdatasync", "EIO", 1}, {"fdatasync", "ENOSPC", 2}, {"sync_file_range", "EIO", 1}, {"sync_file_range", "ENOSPC", 3},
		{"fsync", "EIO", 2}, {"fsync", "EIO", 5},
		{"linkat", "ENOSPC", 1}, {"linkat", "EPERM", 2},
		{"renameat", "EIO", 1}, {"pread64", "EIO", 5}, {"fstat", "EIO", 20},
	}
	if torture {
		faults = nil
		for _, call := range []string{"write", "fdatasync", "sync_file_range", "fsync", "linkat", "renameat", "pread64", "fstat", "newfstatat", "openat", "unlinkat", "mkdirat", "getdents64"} {
			for _, errno := range []string{"EIO", "ENOSPC", "EACCES"} {
				for when := 1; when <= 31; when += 3 {
					faults = append(faults, fault{call, errno, when})
				}
			}
		}
	}
	total := opsResult{}
	for _, f := range faults {
		name := fmt.Sprintf("%s of the %d. %s", f.errno, f.when, f.call)
		dir := filepath.Join(memoryDir(t), "store")
		cmd := worker(t, "ops", dir)
		f.inject(t, cmd)
		out, err := cmd.Output()
		var r opsResult
		if jsonErr := json.Unmarshal(out, &r); err != nil || jsonErr != nil {
			if f.call == "openat" || f.call == "newfstatat" || f.call == "fstat" || f.call == "write" {
				continue // the program did not even start, or could not tell
			}
			t.Errorf("%s: %v, %v: %s", name, err, jsonErr, out)
			continue
		}
		for _, bad := range r.Bad {
			t.Errorf("%s: %s (errors: %q)", name, bad, r.Errors)
		}
		total.Applied += r.Applied
		total.NotApplied += r.NotApplied
		total.Unknown += r.Unknown
		s := open(t, dir, nil)
		for key, want := range r.Last {
			if _, got, err := s.Get(t.Context(), key); got != want && (err == nil || !errors.Is(err, store.ErrNotFound)) {
				t.Errorf("%s: the next process finds %s at %q, %v, want %q (errors: %q)", name, key, got, err, want, r.Errors)
			}
		}
		if !torture {
			t.Logf("%s: %d applied, %d not, %d unknown; %q", name, r.Applied, r.NotApplied, r.Unknown, r.Errors)
		}
	}
	t.Logf("%d faults: %d writes applied, %d not applied, %d unknown", len(faults), total.Applied, total.NotApplied, total.Unknown)
	if total.NotApplied == 0 || total.Unknown == 0 {
		t.Error("the faults had no effect")
	}
}

// syncTogether writes twice, from two threads; the second write builds on the first
// while that is made durable. It prints the outcomes. Its argument: the directory.
func syncTogether(args []string) error {
	runtime.LockOSThread() // calls are counted for each thread
	ctx := testContext()
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	v, err := s.Put(ctx, "key", "", []byte("0"))
	if err != nil {
		return err
	}
	if v, err = s.Put(ctx, "key", v, []byte("1")); err != nil {
		return err
	}
	second := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		for {
			value, v, err := s.Get(ctx, "key")
			if err == nil && string(value) == "2" {
				_, err = s.Put(ctx, "key", v, []byte("3"))
				second <- err
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, err = s.Put(ctx, "key", v, []byte("2"))

	fmt.Println(store.OutcomeOf(err), "/", store.OutcomeOf(<-second))
	return s.Close()
}

// TestSyncFaultReachesEveryWriter: the system reports a failed sync once. A writer that
// syncs the same log at the same time must not get a success.
func TestSyncFaultReachesEveryWriter(t *testing.T) {
	for range 20 {
		trace := filepath.Join(t.TempDir(), "trace")
		cmd := worker(t, "sync", memoryDir(t))
		fault{"fdatasync", "EIO:delay_exit=1000000", 2}.inject(t, cmd)
		cmd.Args[slices.Index(cmd.Args, os.DevNull)] = trace
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		calls, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.TrimSpace(string(out))
		switch {
		case strings.Contains(string(calls), "INJECTED"):
			if got != "outcome unknown / outcome unknown" && got != "outcome unknown / not applied" {
				t.Errorf("got %q, want the first unknown, and the second not applied or unknown", got)
			}
			return
		case got != "applied / applied":
			t.Fatalf("got %q without a fault", got)
		}
		// The second writer was faster, and has synced for both.
	}
	t.Fatal("the sync was never made to fail")
}

// TestRepeatedRename: the client of a network file system repeats a rename whose reply was lost. The server has applied
// it, and reports that the old name does not exist. The writer must not take its own register for that of another writer.
func TestRepeatedRename(t *testing.T) {
	dir := memoryDir(t)
	put(t, open(t, dir, nil), "other", "", "1")
	cmd := worker(t, "neighbour", dir)
	fault{"renameat", "ENOENT:delay_enter=2000000", 0}.inject(t, cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var made []string
	for start := time.Now(); len(made) == 0 && time.Since(start) < time.Minute; time.Sleep(time.Millisecond) {
		if made, err = filepath.Glob(filepath.Join(dir, "tmp/*/*/000000000001")); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // now the worker waits in its rename
	if len(made) != 1 {
		t.Fatal(made)
	}
	if err := os.Rename(filepath.Dir(made[0]), filepath.Join(dir, "k/key")); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || cmd.Wait() != nil || text != "ok\n" {
		t.Errorf("the write was applied, and its outcome is %q, %v", text, err)
	}
}

// watchOnce waits for a change of a register for 0.3 s, and prints how long that took. Its argument: the directory.
func watchOnce(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(testContext(), 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	err = s.Watch(ctx, "key", "")
	fmt.Println(time.Since(start) < 3*time.Second, err)
	return nil
}

// TestInotifyHangs: a wait ends with its context, also if the system looks up the path of the file for long.
func TestInotifyHangs(t *testing.T) {
	cmd := worker(t, "watch", memoryDir(t))
	fault{"inotify_add_watch", "ENOENT:delay_enter=5000000", 0}.inject(t, cmd)
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "true ") || !strings.Contains(string(out), "deadline exceeded") {
		t.Errorf("got %q, %v", out, err)
	}
}

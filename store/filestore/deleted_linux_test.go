package filestore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// age makes the files of a key's log old.
func age(t *testing.T, dir, key string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	files, err := filepath.Glob(filepath.Join(dir, "k", filestore.EncodeKey(key), "0*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func sweepDeleted(t *testing.T, s *filestore.Store, age time.Duration, want int) {
	t.Helper()
	if got, err := s.SweepDeleted(t.Context(), age); err != nil || got != want {
		t.Errorf("the sweep removed %d logs, %v; want %d", got, err, want)
	}
}

// number returns the number in a version.
func number(t *testing.T, v store.Version) uint64 {
	t.Helper()
	text, _, _ := strings.Cut(string(v), ".")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestSweepDeleted: a sweep removes the logs of registers that were deleted long ago, and
// no other. No version is used twice, and the numbers continue; open stores notice the
// removal.
func TestSweepDeleted(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, filestore.Tiny())
	gone := []string{"gone", "a/gone too", strings.Repeat("x", store.MaxKey)}
	versions := map[string]store.Version{}
	for _, key := range append([]string{"young", "foreign", "kept"}, gone...) {
		v := put(t, other, key, "", "1")
		for range 9 {
			v = put(t, other, key, v, "2")
		}
		versions[key] = v
		if key == "kept" {
			age(t, dir, key, 48*time.Hour)
			continue
		}
		if err := other.Delete(ctx, key, v); err != nil {
			t.Fatal(err)
		}
		for i, s := range []*filestore.Store{s, other} {
			if _, _, err := s.Get(ctx, key); !errors.Is(err, store.ErrNotFound) {
				t.Fatal(i, err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "k", filestore.EncodeKey(key), "0*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files { // so that no store sees that they lose their last name
			if err := os.Link(file, filepath.Join(dir, strings.ReplaceAll(key, "/", "+")[:4]+filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		if key != "young" {
			age(t, dir, key, 48*time.Hour)
		}
	}
	note := filepath.Join(dir, "k", "foreign", "note")
	if err := os.WriteFile(note, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	sweepDeleted(t, s, 24*time.Hour, len(gone))
	sweepDeleted(t, open(t, dir, nil), 24*time.Hour, 0)
	for _, key := range gone {
		if _, err := os.Lstat(filepath.Join(dir, "k", filestore.EncodeKey(key))); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%.20s: the log is still there: %v", key, err)
		}
		was := versions[key]
		for name, s := range map[string]*filestore.Store{"the sweeper": s, "another": other, "a new one": open(t, dir, nil)} {
			start := time.Now()
			if _, _, err := s.Get(ctx, key); !errors.Is(err, store.ErrNotFound) || time.Since(start) > 90*time.Millisecond {
				t.Errorf("%.20s: %s got %v after %v", key, name, err, time.Since(start))
			}
			if _, err := s.Put(ctx, key, was, nil); !errors.Is(err, store.ErrConflict) {
				t.Errorf("%.20s: %s put over the old version: %v", key, name, err)
			}
		}
		v := put(t, s, key, "", "new")
		if number(t, v) <= number(t, was)+1 {
			t.Errorf("%.20s: version %s after %s", key, v, was)
		}
		if value, now, err := other.Get(ctx, key); string(value) != "new" || now != v {
			t.Errorf("%.20s: got %q at %s, %v", key, value, now, err)
		}
	}
	for _, key := range []string{"young", "foreign"} {
		if _, err := os.Lstat(filepath.Join(dir, "k", key)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		put(t, other, key, "", "again")
	}
	if text, err := os.ReadFile(note); string(text) != "precious" {
		t.Errorf("the foreign file in the directory of a log: %q, %v", text, err)
	}
	if value, v, err := s.Get(ctx, "kept"); string(value) != "2" || v != versions["kept"] {
		t.Errorf("kept: got %q at %s, %v", value, v, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("the temporaries: %v, %v", left, err)
	}
}

// TestKilledSweepLeavesNothing: logs that a killed sweep has moved away are swept with the
// temporaries, however many they are.
func TestKilledSweepLeavesNothing(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	for i := range 10 {
		key := fmt.Sprint(i)
		if err := s.Delete(t.Context(), key, put(t, s, key, "", "1")); err != nil {
			t.Fatal(err)
		}
		log, then := filepath.Join(dir, "k", key), time.Now().Add(-2*time.Hour)
		if err := errors.Join(os.Chtimes(log, then, then), os.Rename(log, filepath.Join(dir, "tmp", rand.Text()))); err != nil {
			t.Fatal(err)
		}
	}
	put(t, open(t, dir, nil), "key", "", "1")
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestResolveAfterTheSweep: after its register was deleted and swept, a write resolves to
// "unknown", and not to "pending" or "not applied". The same holds if the register exists
// again.
func TestResolveAfterTheSweep(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s := open(t, dir, nil)
	first := put(t, s, "key", "", "1")
	second := put(t, s, "key", first, "2")
	if err := s.Delete(ctx, "key", second); err != nil {
		t.Fatal(err)
	}
	sweepDeleted(t, s, 0, 1)
	check := func(when string) {
		t.Helper()
		for prev, write := range map[store.Version]store.Version{"": first, first: second} {
			for name, s := range map[string]*filestore.Store{"the sweeper": s, "another": open(t, dir, nil)} {
				if got, err := s.Resolve(ctx, "key", prev, write); err != nil || got.Resolution != store.ResolutionUnknown {
					t.Errorf("%s, %s: %s has the resolution %v, %v", when, name, write, got.Resolution, err)
				}
			}
		}
	}
	check("while it is absent")
	v := put(t, s, "key", "", "new")
	for range 9 {
		v = put(t, s, "key", v, "more")
	}
	check("when it is back")
	next := store.Version(fmt.Sprintf("%d.%s", number(t, put(t, s, "other", "", "1")), "X"))
	if got, err := s.Resolve(ctx, "third", "", next); err != nil || got.Resolution != store.ResolutionPending {
		t.Errorf("a create that was not written: %v, %v", got.Resolution, err)
	}
}

// TestSweepDeletedDuringWrites: registers are created, changed and deleted while sweeps of
// other processes, some of them killed, remove what is deleted at once. A creator owns its
// register: no other process changes it, no write is lost, and no number comes back.
func TestSweepDeletedDuringWrites(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	const keys, writers = 3, 6
	rounds := 150
	if torture {
		rounds = 20_000
	}
	var last [keys]uint64 // guarded by owning the register
	done := make(chan struct{})
	var sweeps, own sync.WaitGroup
	var swept int
	s := open(t, dir, nil)
	put(t, s, "start", "", "1")
	sweeps.Go(func() {
		for {
			n, err := s.SweepDeleted(ctx, 0)
			if swept += n; err != nil {
				t.Errorf("sweep: %v", err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	sweeps.Go(func() {
		for {
			cmd := worker(t, "sweep", dir)
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-done:
				kill(cmd)
				return
			case <-time.After(30 * time.Millisecond):
				kill(cmd)
			}
		}
	})
	for w := range writers {
		own.Go(func() {
			opts := []*filestore.Options{nil, filestore.Tiny()}[w%2]
			s, reader := open(t, dir, opts), open(t, dir, nil)
			for i := range rounds {
				k := (i + w) % keys
				key := fmt.Sprint("key/", k)
				v, err := s.Put(ctx, key, "", []byte("1"))
				if errors.Is(err, store.ErrConflict) {
					continue
				}
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				n := number(t, v)
				if n <= last[k] {
					t.Errorf("%s: number %d after %d", key, n, last[k])
				}
				if value, now, err := reader.Get(ctx, key); string(value) != "1" || now != v {
					t.Errorf("%s: read %q at %s, %v; want %s", key, value, now, err, v)
				}
				if v, err = s.Put(ctx, key, v, []byte("2")); err != nil {
					t.Errorf("change: %v", err)
					return
				}
				last[k] = n + 2 // before another can own it
				if err := s.Delete(ctx, key, v); err != nil {
					t.Errorf("delete: %v", err)
					return
				}
			}
		})
	}
	own.Wait()
	close(done)
	sweeps.Wait()
	if swept == 0 {
		t.Errorf("no log was removed: the sweep did not run together with the writers")
	}
	t.Logf("%d logs were removed", swept)
}

// sweepForEver removes what is deleted, as soon as it is.
func sweepForEver(args []string) error {
	s, err := filestore.Open(args[0], nil)
	for err == nil {
		_, err = s.SweepDeleted(testContext(), 0)
	}
	return err
}

// TestSweepDuringCreates: writers that create keys without a pause do not keep a sweep from its
// turn, nor the sweep them.
func TestSweepDuringCreates(t *testing.T) {
	ctx := t.Context()
	dir := memoryDir(t)
	s := open(t, dir, filestore.WithFloor(3*time.Second))
	const logs = 400
	for i := range logs {
		key := fmt.Sprint("old/", i)
		if err := s.Delete(ctx, key, put(t, s, key, "", "1")); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	var writers sync.WaitGroup
	var created atomic.Int64
	for w := range 16 {
		writers.Go(func() {
			s := open(t, dir, filestore.WithFloor(3*time.Second))
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if _, err := s.Put(ctx, fmt.Sprintf("new/%d/%d", w, i), "", nil); err != nil {
					t.Errorf("create: %v", err)
					return
				}
				created.Add(1)
			}
		})
	}
	for created.Load() < 50 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	before := created.Load()
	sweepDeleted(t, s, 0, logs)
	t.Logf("%d keys were created during the sweep", created.Load()-before)
	close(done)
	writers.Wait()
}

// lockFloor takes a lock on the file of the floor and is stopped. Its arguments: the directory,
// and "writer" or "sweep".
func lockFloor(args []string) error {
	f, err := os.Open(filepath.Join(args[0], "floor"))
	if err != nil {
		return err
	}
	defer f.Close()
	how := map[string]int{"writer": syscall.LOCK_SH, "sweep": syscall.LOCK_EX}[args[1]]
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// TestStoppedWithTheFloor: a process that is stopped in its turn ends the wait of the others, with
// an error that names it, before their patience has ended. Nothing is written.
func TestStoppedWithTheFloor(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, filestore.WithFloor(5*time.Second))
	if err := s.Delete(t.Context(), "key", put(t, s, "key", "", "1")); err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"writer", "sweep"} {
		cmd := worker(t, "lockFloor", dir, who)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatal(status, err)
		}
		start := time.Now()
		_, err := s.SweepDeleted(t.Context(), 0)
		want := fmt.Sprintf("process %d (%q), which is stopped", cmd.Process.Pid, "filestore.test")
		if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("a sweep with a stopped %s: got %v, want %s", who, err, want)
		}
		v, err := s.Put(t.Context(), "new "+who, "", nil)
		if who == "sweep" {
			wantOutcome(t, "create", err, store.NotApplied, store.ErrUnavailable)
			if !strings.Contains(err.Error(), want) {
				t.Errorf("a create with a stopped sweep: got %v, want %s", err, want)
			}
		} else if err != nil || v == "" {
			t.Errorf("a create with a stopped writer: %v", err)
		}
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("with a stopped %s it took %v", who, took)
		}
		kill(cmd)
	}
	sweepDeleted(t, s, 0, 1)
}

// TestMarkOfAKilledSweep: a sweep that was killed while it waited delays one create, and no
// other.
func TestMarkOfAKilledSweep(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, filestore.WithFloor(3*time.Second))
	put(t, s, "0", "", "1")
	f, err := os.OpenFile(filepath.Join(dir, "floor"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("w"), 60); err != nil {
		t.Fatal(err)
	}
	for key, delayed := range []bool{true, false} {
		start := time.Now()
		put(t, s, fmt.Sprint("new/", key), "", "1")
		if took := time.Since(start); delayed != (took > 290*time.Millisecond) || took > 2*time.Second {
			t.Errorf("create %d took %v", key, took)
		}
	}
}

func sweepOnce(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	if n, err := s.SweepDeleted(testContext(), 0); err == nil || n > 0 {
		return fmt.Errorf("removed %d, %v", n, err)
	}
	return nil
}

// TestSweepMakesTheFloorDurable: a sweep that was killed has raised the floor and not made that
// durable. The next one, which cannot do that either, removes nothing.
func TestSweepMakesTheFloorDurable(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	for _, key := range []string{"a", "b"} {
		if err := s.Delete(t.Context(), key, put(t, s, key, "", "1")); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		cmd := worker(t, "sweepOnce", dir)
		fault{"fsync", "EIO", 0}.inject(t, cmd)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if logs, err := os.ReadDir(filepath.Join(dir, "k")); err != nil || len(logs) != 2 {
			t.Fatalf("left: %v, %v", logs, err)
		}
	}
	sweepDeleted(t, s, 0, 2)
}

// TestRepairJudgesUnderTheLock: two processes repair a damaged log. The first creates the register again
// while the second waits for the lock of the floor. The second must not move the new log away.
func TestRepairJudgesUnderTheLock(t *testing.T) {
	dir, other := memoryDir(t), memoryDir(t)
	s := open(t, dir, nil)
	put(t, s, "job", "", "old")
	want := put(t, open(t, other, nil), "job", "", "new")
	log := filepath.Join(dir, "k", "job")
	if err := os.WriteFile(filepath.Join(log, "000000000001"), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	floor, err := os.OpenFile(filepath.Join(dir, "floor"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	if err := syscall.Flock(int(floor.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, nil)
	repaired := make(chan error)
	go func() {
		_, err := second.Repair(t.Context(), "job")
		repaired <- err
	}()
	time.Sleep(100 * time.Millisecond)
	if err := os.Rename(log, filepath.Join(dir, "aside")); err != nil { // as the first does
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(other, "k", "job"), log); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(floor.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-repaired; !errors.Is(err, store.ErrInvalid) {
		t.Errorf("the second repair: got %v, want a refusal, since the log can be read", err)
	}
	if value, v, err := open(t, dir, nil).Get(t.Context(), "job"); string(value) != "new" || v != want {
		t.Errorf("got %q at %s, %v; want the new value at %s", value, v, err, want)
	}
}

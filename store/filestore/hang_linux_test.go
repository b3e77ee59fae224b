package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/powercut"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// Calls end with their context on a disk that hangs. The write that was abandoned is applied when
// the disk works again.
func TestFrozenDisk(t *testing.T) {
	disk := powercut.New(t, "ext4")
	s, err := filestore.Open(disk.Dir()+"/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Put(t.Context(), "key", "", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	disk.Freeze(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	value := []byte("2")
	began := time.Now()
	_, err = s.Put(ctx, "key", v, value)
	if took := time.Since(began); store.OutcomeOf(err) != store.Unknown || !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("Put on a frozen disk returned %v after %v", err, took)
	}
	value[0] = 'x' // the caller may use its memory again
	if n := s.AbandonedCalls(); n != 1 {
		t.Errorf("%d calls are abandoned; want 1", n)
	}
	disk.Freeze(false)
	for s.AbandonedCalls() > 0 {
		time.Sleep(time.Millisecond)
	}
	got, _, err := s.Get(t.Context(), "key")
	if err != nil || string(got) != "2" {
		t.Errorf("after the thaw: %q, %v; want the abandoned write", got, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// On a disk that hangs, a store keeps a bounded number of threads, however many registers its users write, and however
// many wait to be woken. A write that has not begun is not applied.
func TestFrozenDiskTakesFewThreads(t *testing.T) {
	const calls, running = 300, 50
	disk := powercut.New(t, "ext4")
	s, err := filestore.Open(disk.Dir()+"/locks", filestore.Running(running))
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "0", "", "")
	before := threads()
	disk.Freeze(true)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	errs := make(chan error, calls)
	var waiters sync.WaitGroup
	for i := range calls {
		go func() {
			_, err := s.Put(ctx, strconv.Itoa(i+1), "", nil)
			errs <- err
		}()
		waiters.Go(func() {
			if _, err := s.ExpectWake(ctx, fmt.Sprintf("waiter.%d", i), nil); err == nil {
				t.Error("ExpectWake made a file on a frozen disk")
			}
		})
	}
	outcomes := map[store.Outcome]int{}
	for range calls {
		err := <-errs
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put on a frozen disk returned %v", err)
		}
		outcomes[store.OutcomeOf(err)]++
	}
	waiters.Wait()
	if n := threads() - before; n > 2*running {
		t.Errorf("%d more threads", n)
	}
	// On a busy machine, fewer calls begin before the context ends.
	n := s.AbandonedCalls()
	if unknown := outcomes[store.Unknown]; n == 0 || n > running || unknown > n || outcomes[store.NotApplied] != calls-unknown {
		t.Errorf("%d abandoned calls, outcomes of the writes: %v", n, outcomes)
	}
	disk.Freeze(false)
	for s.AbandonedCalls() > 0 {
		time.Sleep(time.Millisecond)
	}
	put(t, s, "after", "", "")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// threads returns the number of threads of this process.
func threads() int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		panic(err)
	}
	return len(tasks)
}

// syncMany writes to 50 registers at once, where 5 calls may use the disk at the same time, and prints how many
// threads it has afterwards. Its argument: the directory.
func syncMany(args []string) error {
	s, err := filestore.Open(args[0], filestore.Running(5))
	if err != nil {
		return err
	}
	var writers sync.WaitGroup
	for i := range 50 {
		key := strconv.Itoa(i)
		_, v, err := s.Get(testContext(), key)
		if err != nil {
			return err
		}
		writers.Go(func() { _, _ = s.Put(testContext(), key, v, nil) })
	}
	writers.Wait()
	fmt.Println(threads())
	return s.Close()
}

// Syncs count as calls that use the disk: a store keeps a bounded number of threads for them.
func TestSlowSyncsTakeFewThreads(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	for i := range 50 {
		put(t, s, strconv.Itoa(i), put(t, s, strconv.Itoa(i), "", "1"), "2")
	}
	cmd := worker(t, "syncs", dir)
	fault{"fdatasync", "EIO:delay_exit=100000", 0}.inject(t, cmd)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || n > 25 {
		t.Errorf("50 writers with slow syncs took %s threads; want at most 25", out)
	}
}

// Calls that wait for a sweep, for the log of a key, or for another process to complete a log do not keep calls on
// other keys from the disk.
func TestWaitingCallsLetOthersRun(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, filestore.Running(1))
	v := put(t, s, "key", "", "1")
	floor, err := os.Open(filepath.Join(dir, "floor"))
	if err != nil {
		t.Fatal(err)
	}
	defer floor.Close()
	if err := syscall.Flock(int(floor.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waiting sync.WaitGroup
	for _, key := range []string{"new/1", "new/1", "new/2", "new/3"} {
		waiting.Go(func() {
			if _, err := s.Put(ctx, key, "", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("a create below a floor that is locked returned %v", err)
			}
		})
	}
	if err := os.Mkdir(filepath.Join(dir, "k", filestore.EncodeKey("incomplete")), 0o700); err != nil {
		t.Fatal(err)
	}
	waiting.Go(func() { _, _, _ = s.Get(ctx, "incomplete") })
	for range 100 {
		short, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // a Get waits for 2 s
		if v, err = s.Put(short, "key", v, []byte("2")); err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(time.Millisecond)
	}
	cancel()
	waiting.Wait()
}

// TestMaintenanceOnAFrozenDisk: a sweep and a repair end with their context on a disk that hangs.
func TestMaintenanceOnAFrozenDisk(t *testing.T) {
	disk := powercut.New(t, "ext4")
	dir := disk.Dir() + "/locks"
	s := open(t, dir, nil)
	for _, key := range []string{"deleted", "damaged"} {
		v := put(t, s, key, "", "1")
		if err := s.Delete(t.Context(), key, v); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, nil)
	if err := os.WriteFile(filepath.Join(dir, "k/damaged/000000000001"), []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	disk.Freeze(true)
	thaw := time.AfterFunc(10*time.Second, func() { disk.Freeze(false) })
	for name, call := range map[string]func(context.Context) error{
		"sweep":  func(ctx context.Context) error { _, err := s.SweepDeleted(ctx, 0); return err },
		"repair": func(ctx context.Context) error { _, err := s.Repair(ctx, "damaged"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 3*time.Second {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
	}
	if thaw.Stop() {
		disk.Freeze(false)
	}
	for s.AbandonedCalls() > 0 {
		time.Sleep(time.Millisecond)
	}
}

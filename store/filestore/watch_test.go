//go:build linux

package filestore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// cpu is the time that this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// waitForChange waits in many goroutines until a register changes, and prints the cost. Its
// arguments: the directory, the key, the version seen, the number.
func waitForChange(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for range n {
		wg.Go(func() { errs <- s.Watch(testContext(), args[1], store.Version(args[2])) })
	}
	time.Sleep(200 * time.Millisecond)
	before := cpu()
	fmt.Println("waiting")
	wg.Wait()
	fmt.Println(cpu() - before)
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	return s.Close()
}

// TestWaiters: many goroutines and many processes wait for one register, at next to
// no cost, and all are woken.
func TestWaiters(t *testing.T) {
	procs, idle := 5, time.Second
	if torture {
		procs, idle = 100, 10*time.Second
	}
	dir := memoryDir(t)
	s := open(t, dir, nil)
	v := put(t, s, "key", "", "1")
	var cmds []*exec.Cmd
	var outs []*bufio.Reader
	for i := range procs {
		n := 1
		if i == 0 {
			n = 1000
		}
		cmd := worker(t, "wait", dir, "key", string(v), strconv.Itoa(n))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs = append(cmds, cmd), append(outs, bufio.NewReader(out))
	}
	for _, out := range outs {
		if line, err := out.ReadString('\n'); line != "waiting\n" {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	time.Sleep(idle)
	start := time.Now()
	put(t, s, "key", v, "2")
	for i, out := range outs {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		cost, err := time.ParseDuration(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if i < 2 || i == len(outs)-1 {
			t.Logf("process %d computed %v in %v of waiting, and was woken within %v", i, cost, idle, time.Since(start))
		}
		// One who waits looks once a second; polling would cost far more.
		if i > 0 && cost > idle/4 {
			t.Errorf("process %d computed %v in %v of waiting", i, cost, idle)
		}
		if _, err := io.Copy(io.Discard, out); err != nil {
			t.Error(err)
		}
		if err := cmds[i].Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestWakeUp logs how long it takes from a write to the return of a watch.
func TestWakeUp(t *testing.T) {
	dir := memoryDir(t)
	s, other := open(t, dir, nil), open(t, dir, nil)
	v := put(t, s, "key", "", "1")
	var total, worst time.Duration
	const n = 50
	for range n {
		woken := make(chan time.Time)
		go func() {
			if err := other.Watch(t.Context(), "key", v); err != nil {
				t.Error(err)
			}
			woken <- time.Now()
		}()
		time.Sleep(2 * time.Millisecond)
		next, err := s.PutUnsynced(t.Context(), "key", v, []byte("2"))
		if err != nil {
			t.Fatal(err)
		}
		written := time.Now()
		took := (<-woken).Sub(written)
		v = next
		total += took
		worst = max(worst, took)
	}
	t.Logf("woken after %v on average, %v at worst", total/n, worst)
}

// TestNoGoroutine: nothing runs on after Close, nor long after the last wait.
func TestNoGoroutine(t *testing.T) {
	reading := func() bool {
		buf := make([]byte, 1<<20)
		return strings.Contains(string(buf[:runtime.Stack(buf, true)]), "filestore.(*shared).read")
	}
	s := open(t, memoryDir(t), nil)
	wait := func() {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if err := s.Watch(ctx, "key", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	wait()
	for deadline := time.Now().Add(30 * time.Second); reading(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the goroutine lives on long after the last wait")
		}
	}
	wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// It says that it has ended as the last thing it does: it may be seen for an instant.
	for deadline := time.Now().Add(10 * time.Second); reading(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the goroutine lives on after Close")
		}
	}
}

// TestWatchRemoved: removing a log by hand makes no event, and is noticed all the
// same.
func TestWatchRemoved(t *testing.T) {
	dir := memoryDir(t)
	s := open(t, dir, nil)
	v := put(t, s, "key", "", "1")
	woken := make(chan error, 1)
	go func() { woken <- s.Watch(t.Context(), "key", v) }()
	time.Sleep(5 * time.Millisecond)
	if err := os.Rename(filepath.Join(dir, "k"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Error(err)
	}
}

// TestOverflow: events that were lost wake every waiter.
func TestOverflow(t *testing.T) {
	woken, stop := filestore.WatchOnce(t.TempDir())
	defer stop()
	filestore.Overflow()
	select {
	case <-woken:
	case <-time.After(30 * time.Second):
		t.Error("no waiter was woken")
	}
}

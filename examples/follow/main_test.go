//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// The test binary is also the program.
func TestMain(m *testing.M) {
	if os.Getenv("HOLDFAST_FOLLOW") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// duration is how long workers are killed: a few seconds, or minutes in the long run.
func duration() time.Duration {
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		return 2 * time.Minute
	}
	return 4 * time.Second
}

// worker starts a process that follows the file.
func worker(t *testing.T, dir string, out *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "--store", filepath.Join(dir, "store"), "--ttl", "1s", "--every", "20", filepath.Join(dir, "events"))
	cmd.Env = append(os.Environ(), "HOLDFAST_FOLLOW=1")
	cmd.Stdout = out
	if testing.Verbose() && os.Getenv("HOLDFAST_TORTURE") == "" {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestWorkersKilledAtRandom lets several workers follow a file that grows, kills
// them with -9 or stops them past their lease at random, and demands that each line
// was handled, and that the checkpoint never went back.
func TestWorkersKilledAtRandom(t *testing.T) {
	dir := t.TempDir()
	events, err := os.OpenFile(filepath.Join(dir, "events"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	out, err := os.OpenFile(filepath.Join(dir, "handled"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	written := 0
	wg.Go(func() { written = grow(t, ctx, events) })
	watching, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	var watched sync.WaitGroup
	position := make(chan uint64, 1)
	var tokens atomic.Int64
	watched.Go(func() { watch(t, watching, dir, position, &tokens) })

	const workers = 4
	var kills, stops int
	running := make([]*exec.Cmd, workers)
	defer func() {
		for _, cmd := range running {
			end(t, cmd, syscall.SIGKILL)
		}
	}()
	// On a busy machine it takes longer until the one that works is among the victims.
	for began := time.Now(); time.Since(began) < duration() || tokens.Load() < 3 && time.Since(began) < time.Minute; {
		for i, cmd := range running {
			if cmd == nil {
				running[i] = worker(t, dir, out)
			}
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		i := rand.IntN(workers)
		if rand.IntN(8) == 0 {
			// Stop the worker until its lease has expired, and then continue it.
			stops++
			send(t, running[i], syscall.SIGSTOP)
			time.Sleep(1500 * time.Millisecond)
			send(t, running[i], syscall.SIGCONT)
			continue
		}
		kills++
		end(t, running[i], syscall.SIGKILL)
		running[i] = nil
	}
	stop()
	wg.Wait()

	// The worker that is left, or a last one, finishes.
	if running[0] == nil {
		running[0] = worker(t, dir, out)
	}
	info, err := events.Stat()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	for at := uint64(0); at != uint64(info.Size()); {
		select {
		case at = <-position:
		case <-deadline:
			t.Fatalf("the checkpoint is at %d of %d", at, info.Size())
		}
	}
	unwatch()
	watched.Wait()
	for i, cmd := range running {
		end(t, cmd, syscall.SIGTERM)
		running[i] = nil
	}
	handled, again, leases := count(t, out.Name())
	t.Logf("%d lines, %d kills, %d stops, %d leases, %d lines handled again", written, kills, stops, leases, again)
	for n := range written {
		if handled[n] == 0 {
			t.Errorf("line %d was lost", n)
		}
	}
	if len(handled) != written {
		t.Errorf("%d different lines were handled, %d written", len(handled), written)
	}
	if leases < 2 {
		t.Error("no worker continued where another had stopped: the test tests nothing")
	}
}

// TestEqualNames: two files with one name, in two directories, have a position each.
func TestEqualNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		path := filepath.Join(dir, name, "events")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("of "+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		in, out := io.Pipe()
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		var wg sync.WaitGroup
		wg.Go(func() { _ = out.CloseWithError(follow(ctx, filepath.Join(dir, "store"), path, time.Second, 1, out)) })
		line, err := bufio.NewReader(in).ReadString('\n')
		if !strings.HasSuffix(line, " of "+name+"\n") {
			t.Errorf("%s: %q, %v", path, line, err)
		}
		stop()
		wg.Wait()
	}
}

// grow appends lines, some of them in two pieces, and returns how many.
func grow(t *testing.T, ctx context.Context, f *os.File) int {
	n := 0
	for ; ctx.Err() == nil; n++ {
		line := fmt.Sprintf("%d %s\n", n, strings.Repeat("x", rand.IntN(200)))
		cut := rand.IntN(len(line))
		for _, piece := range []string{line[:cut], line[cut:]} {
			if _, err := f.WriteString(piece); err != nil {
				t.Error(err)
				return n
			}
			if n%10 == 0 {
				time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
			}
		}
	}
	return n
}

// watch reads the checkpoint all the time and demands that it never goes back. It
// counts the leases under which it was fenced.
func watch(t *testing.T, ctx context.Context, dir string, position chan uint64, tokens *atomic.Int64) {
	st, err := filestore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer st.Close()
	k, err := checkpoint.New(st, nil)
	if err != nil {
		t.Error(err)
		return
	}
	last, token := uint64(0), uint64(0)
	for cp, err := range k.Watch(ctx, "follow"+dir+"/events") {
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
			return
		}
		if cp.Sequence < last || cp.Token < token {
			t.Errorf("the checkpoint went back from %d under %d to %d under %d", last, token, cp.Sequence, cp.Token)
		}
		if cp.Token > token {
			tokens.Add(1)
		}
		last, token = cp.Sequence, cp.Token
		select {
		case <-position:
		default:
		}
		position <- last
	}
}

// count returns how often each line was handled, how many times again, and under how
// many leases.
func count(t *testing.T, path string) (handled map[int]int, again, leases int) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	handled = map[int]int{}
	tokens := map[string]bool{}
	in := bufio.NewScanner(f)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		if len(fields) < 2 {
			t.Fatalf("a torn line: %q", in.Text())
		}
		tokens[fields[0]] = true
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		if handled[n]++; handled[n] > 1 {
			again++
		}
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return handled, again, len(tokens)
}

func send(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// end ends a worker and waits for it.
func end(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	if cmd == nil {
		return
	}
	send(t, cmd, s)
	err := cmd.Wait()
	// One that has just begun dies of the signal.
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if s == syscall.SIGTERM && err != nil && !(status.Signaled() && status.Signal() == s) {
		t.Errorf("a worker that got SIGTERM: %v", err)
	}
}

//go:build unix

package checkpoint_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// The test binary is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HOLDFAST_ADVANCE"); dir != "" {
		work := advanceForEver
		if os.Getenv("HOLDFAST_ADVANCERS") != "" {
			work = advanceForASecond
		}
		if err := work(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// advanceForEver advances one key from two goroutines, and prints a line before
// each try and one for each answer.
func advanceForEver(dir string) error {
	st, err := filestore.Open(dir, nil)
	if err != nil {
		return err
	}
	var registers store.Store = st
	if os.Getenv("HOLDFAST_UNSYNCED") != "" {
		registers = careless{st}
	}
	k, err := checkpoint.New(registers, checkpoint.ResolvingIn(300*time.Millisecond))
	if err != nil {
		return err
	}
	ctx, limit := context.Background(), 1<<62
	if n := os.Getenv("HOLDFAST_ADVANCES"); n != "" {
		if limit, err = strconv.Atoi(n); err != nil {
			return err
		}
	}
	c, err := k.Get(ctx, "k", nil)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	var wg sync.WaitGroup
	for g := range 2 {
		wg.Go(func() {
			next := c.Sequence + 1
			for try := range limit {
				p := checkpoint.Position{Sequence: next, EventID: fmt.Sprintf("%d-%d-%d", os.Getpid(), g, try)}
				fmt.Printf("try %d\n", next)
				r, err := k.Advance(ctx, "k", p, nil)
				if r.Status == 0 {
					fmt.Printf("failed %d %v %s %v\n", next, store.OutcomeOf(err) == store.NotApplied, p.EventID, err)
					continue
				}
				if r.Status == checkpoint.Advanced {
					fmt.Printf("advanced %d\n", next)
				}
				next = max(next, r.Current.Sequence) + 1
			}
		})
	}
	wg.Wait()
	return nil
}

// careless is a store that leaves out the syncs.
type careless struct{ *filestore.Store }

func (c careless) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return c.PutUnsynced(ctx, key, prev, value)
}

// advanceForASecond advances HOLDFAST_KEY from as many goroutines as
// HOLDFAST_ADVANCERS says, and prints how often.
func advanceForASecond(dir string) error {
	goroutines, err := strconv.Atoi(os.Getenv("HOLDFAST_ADVANCERS"))
	if err != nil {
		return err
	}
	st, err := filestore.Open(dir, nil)
	if err != nil {
		return err
	}
	k, err := checkpoint.New(st, nil)
	if err != nil {
		return err
	}
	key := os.Getenv("HOLDFAST_KEY")
	var next, advanced atomic.Uint64
	var wg sync.WaitGroup
	for end := time.Now().Add(time.Second); goroutines > 0; goroutines-- {
		wg.Go(func() {
			for time.Now().Before(end) {
				r, err := k.Advance(context.Background(), key, at(next.Add(1)), nil)
				switch {
				case err != nil:
					fmt.Println("error", err)
					return
				case r.Status == checkpoint.Advanced:
					advanced.Add(1)
				}
				for n := next.Load(); n < r.Current.Sequence && !next.CompareAndSwap(n, r.Current.Sequence); n = next.Load() {
				}
			}
		})
	}
	wg.Wait()
	fmt.Println("count", advanced.Load())
	return nil
}

// BenchmarkProcesses lets several processes advance for a second each time: one key
// together, or each its own.
func BenchmarkProcesses(b *testing.B) {
	for _, processes := range []int{1, 4} {
		for _, goroutines := range []int{1, 16} {
			for _, key := range []string{"one-key", "own-keys"} {
				b.Run(fmt.Sprintf("file/%s/processes=%d/writers=%d", key, processes, goroutines), func(b *testing.B) {
					dir, total := b.TempDir(), 0
					for range b.N {
						var outs []*bytes.Buffer
						var cmds []*exec.Cmd
						for p := range processes {
							name := "k"
							if key == "own-keys" {
								name = fmt.Sprint("k", p)
							}
							cmd := exec.Command(os.Args[0])
							cmd.Env = append(os.Environ(), "HOLDFAST_ADVANCE="+dir, "HOLDFAST_KEY="+name, fmt.Sprint("HOLDFAST_ADVANCERS=", goroutines))
							out := new(bytes.Buffer)
							cmd.Stdout = out
							if err := cmd.Start(); err != nil {
								b.Fatal(err)
							}
							outs, cmds = append(outs, out), append(cmds, cmd)
						}
						for i, cmd := range cmds {
							n := 0
							if err := cmd.Wait(); err != nil {
								b.Fatal(err)
							}
							if _, err := fmt.Sscanf(outs[i].String(), "count %d", &n); err != nil {
								b.Fatalf("%v: %q", err, outs[i])
							}
							total += n
						}
					}
					b.ReportMetric(float64(total)/float64(b.N), "advances/s")
				})
			}
		}
	}
}

// child is a running process, and what it has said.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when its output is read to the end
}

// ledger is what all processes have said.
type ledger struct {
	mu       sync.Mutex
	tried    uint64
	advanced map[uint64]int // how often each sequence was acknowledged
	highest  uint64
	failed   []string
}

// acknowledged returns the highest sequence that was acknowledged so far.
func (l *ledger) acknowledged() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.highest
}

func (l *ledger) read(out io.Reader) {
	in := bufio.NewScanner(out)
	for in.Scan() {
		verb, rest, _ := strings.Cut(in.Text(), " ")
		digits, _, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(digits, 10, 64)
		l.mu.Lock()
		switch {
		case err != nil || verb == "failed" || verb == "error":
			l.failed = append(l.failed, in.Text())
		case verb == "try":
			l.tried = max(l.tried, n)
		case verb == "advanced":
			l.advanced[n]++
			l.highest = max(l.highest, n)
		}
		l.mu.Unlock()
	}
}

// start starts a process that advances the checkpoint in dir, below the command that
// is given, if any.
func (l *ledger) start(t *testing.T, dir string, env []string, above ...string) *child {
	t.Helper()
	args := append(above, os.Args[0])
	cmd := exec.Command(args[0], args[1:]...)
	// The race detector would sleep a second at the exit of each process.
	cmd.Env = append(append(os.Environ(), "HOLDFAST_ADVANCE="+dir, "GORACE=atexit_sleep_ms=0"), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd, make(chan struct{})}
	go func() {
		defer close(c.done)
		l.read(out)
	}()
	return c
}

// kill ends the process as a crash would, and waits until all that it said is known.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.done
	_ = c.cmd.Wait()
}

// TestKilled kills processes that advance one checkpoint, with -9, at any instant,
// again and again: nothing that was acknowledged is lost, nothing goes back, nothing
// is torn, and no sequence is acknowledged twice.
func TestKilled(t *testing.T) {
	kills := 30
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		kills = 10_000
	}
	dir := t.TempDir()
	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	l := &ledger{advanced: map[uint64]int{}}
	const processes = 3
	children := make([]*child, processes)
	defer func() {
		for _, c := range children {
			if c != nil {
				c.kill()
			}
		}
	}()
	last := uint64(0)
	for i := range kills {
		for j, c := range children {
			if c == nil {
				children[j] = l.start(t, dir, nil)
			}
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		victim := rand.IntN(processes)
		if i%10 == 9 { // all at once, as when the machine's memory is full
			for j, c := range children {
				c.kill()
				children[j] = nil
			}
		} else {
			children[victim].kill()
			children[victim] = nil
		}
		known := l.acknowledged()
		k := open(t, st, nil) // a keeper without memory
		c, err := k.Get(t.Context(), "k", nil)
		if err != nil && !(errors.Is(err, store.ErrNotFound) && known == 0) {
			t.Fatal(err)
		}
		if c.Sequence < max(known, last) {
			t.Fatalf("kill %d: %d is saved, %d was acknowledged, %d seen", i, c.Sequence, known, last)
		}
		last = c.Sequence
	}
	for i, c := range children {
		if c != nil {
			c.kill()
			children[i] = nil
		}
	}
	if last > l.tried {
		t.Errorf("%d is saved, and only %d was ever tried", last, l.tried)
	}
	for n, times := range l.advanced {
		if times > 1 {
			t.Errorf("sequence %d was acknowledged %d times", n, times)
		}
	}
	if len(l.failed) > 0 {
		t.Errorf("calls failed: %q", l.failed[:min(len(l.failed), 5)])
	}
	t.Logf("%d kills, %d acknowledged, at %d", kills, len(l.advanced), last)
	if len(l.advanced) < kills {
		t.Error("too little was acknowledged: the test tests nothing")
	}
}

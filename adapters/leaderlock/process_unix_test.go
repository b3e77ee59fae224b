//go:build unix

package leaderlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"

	"github.com/holdfast-go/holdfast/adapters/leaderlock"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// candidateVar makes the test binary a candidate on the store in this directory.
const candidateVar = "HOLDFAST_TEST_CANDIDATE"

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if dir := os.Getenv(candidateVar); dir != "" {
		if err := runCandidate(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runCandidate leads whenever it can, until it gets SIGTERM. The work of a leader writes all the time, to a target with a
// fence. It prints "leads", "wrote", "refused" and "stops", each with the token of the term.
func runCandidate(dir string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	st, err := filestore.Open(dir, nil)
	if err != nil {
		return err
	}
	target, err := checkpoint.New(st, nil)
	if err != nil {
		return err
	}
	lock, err := leaderlock.New(st, election, "process", nil)
	if err != nil {
		return err
	}
	var term atomic.Uint64
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				token, err := lock.Token(ctx)
				if err != nil {
					return
				}
				term.Store(token)
				fmt.Println("leads", token)
				for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
					p := checkpoint.Position{Sequence: uint64(time.Now().UnixMicro())}
					_, err := target.Advance(context.Background(), "work", p, &checkpoint.AdvanceOptions{Token: token})
					switch {
					case errors.Is(err, checkpoint.ErrFenced):
						fmt.Println("refused", token)
					case err == nil:
						fmt.Println("wrote", token)
					}
				}
			},
			OnStoppedLeading: func() {
				if token := term.Swap(0); token != 0 {
					fmt.Println("stops", token)
				}
			},
		},
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}

// process is a candidate. The channel has what it prints.
type process struct {
	cmd   *exec.Cmd
	lines chan string
}

func startCandidate(t *testing.T, dir string) *process {
	t.Helper()
	p := &process{exec.Command(os.Args[0]), make(chan string, 10_000)}
	p.cmd.Env = append(os.Environ(), candidateVar+"="+dir)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-done
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// await returns the number in the next line that begins with one of these words, and the word.
func (p *process) await(t *testing.T, words ...string) (string, uint64) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the process ended before it printed %q", words)
			}
			word, number, _ := strings.Cut(line, " ")
			for _, want := range words {
				if word == want {
					n, err := strconv.ParseUint(number, 10, 64)
					if err != nil {
						t.Fatalf("the process printed %q", line)
					}
					return word, n
				}
			}
			if word == "error" {
				t.Fatal(line)
			}
		case <-patience:
			t.Fatalf("the process has not printed %q", words)
		}
	}
}

// TestKilledLeader: after kill -9 of the leader another process leads, with a higher token.
func TestKilledLeader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := startCandidate(t, dir)
	_, first := a.await(t, "leads")
	b := startCandidate(t, dir)
	time.Sleep(time.Second)
	if len(b.lines) > 0 {
		t.Errorf("two candidates lead: %q", <-b.lines)
	}
	a.signal(t, syscall.SIGKILL)
	_, second := b.await(t, "leads")
	if second <= first {
		t.Errorf("the second leader has token %d, the first one had %d", second, first)
	}
	// SIGTERM frees the record.
	c := startCandidate(t, dir)
	b.signal(t, syscall.SIGTERM)
	if _, third := c.await(t, "leads"); third <= second {
		t.Errorf("the third leader has token %d, the second one had %d", third, second)
	}
}

// TestStoppedLeader: a leader is stopped with SIGSTOP while another process begins to lead. When it continues, it still
// works for a while, because the elector promises no more. The fence refuses all of its writes.
func TestStoppedLeader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := startCandidate(t, dir)
	_, first := a.await(t, "leads")
	b := startCandidate(t, dir)
	a.signal(t, syscall.SIGSTOP)
	_, second := b.await(t, "leads")
	b.await(t, "wrote")
	for len(a.lines) > 0 { // from before the stop
		<-a.lines
	}
	a.signal(t, syscall.SIGCONT)
	// One write may have been under way, for which this test cannot know whether it came before that of b.
	for refused := 0; ; {
		word, token := a.await(t, "refused", "wrote", "stops")
		if token != first {
			t.Fatalf("the first leader prints the token %d, but led with %d", token, first)
		}
		if word == "stops" {
			break
		}
		if word == "refused" {
			refused++
		} else if refused > 0 {
			t.Fatal("a write of the first leader succeeded")
		}
	}
	// It does not lead again before the second leader ends.
	_, last := b.await(t, "wrote")
	if last != second {
		t.Errorf("the second leader writes with token %d, but led with %d", last, second)
	}
	b.signal(t, syscall.SIGTERM)
	if _, third := a.await(t, "leads"); third <= second {
		t.Errorf("the third leader has token %d, the second one had %d", third, second)
	}
}

// TestStoppedWhileAnotherLed: a leader is stopped while another process leads and ends. When it continues, its elector
// could take the free record, and continue the work of its first term. It must stop before it leads again.
func TestStoppedWhileAnotherLed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := startCandidate(t, dir)
	_, first := a.await(t, "leads")
	b := startCandidate(t, dir)
	a.signal(t, syscall.SIGSTOP)
	_, second := b.await(t, "leads")
	b.await(t, "wrote")
	b.signal(t, syscall.SIGTERM)
	for range b.lines { // until it has ended
	}
	a.signal(t, syscall.SIGCONT)
	if word, token := a.await(t, "stops", "leads"); word != "stops" || token != first {
		t.Errorf("the first leader prints %s %d, want stops %d", word, token, first)
	}
	if _, third := a.await(t, "leads"); third <= second {
		t.Errorf("the third leader has token %d, the second one had %d", third, second)
	}
}

package integration_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// childVar makes TestFileChild a process that waits for locks in a directory; its
// value is a [childJob] in JSON.
const childVar = "HOLDFAST_TEST_FILE_CHILD"

// childJob is what a child does: so many waiters, each through a handle of its own,
// on one lock. Each line of its input makes it wait again, or measure.
type childJob struct {
	Dir     string
	Waiters int
}

// childSays is a line that a child writes.
type childSays struct {
	Kind string        // waiting, held, cpu
	At   int64         // CLOCK_MONOTONIC
	CPU  time.Duration // that the process has used so far
}

// child is a process that waits.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    *os.File
	lines *bufio.Scanner
}

func startChild(t *testing.T, j childJob) *child {
	t.Helper()
	config, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFileChild$")
	cmd.Env = append(os.Environ(), childVar+"="+string(config))
	cmd.Stderr = os.Stderr
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = inR
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inR.Close()
	c := &child{t, cmd, inW, bufio.NewScanner(out)}
	t.Cleanup(func() {
		inW.Close()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	return c
}

// ask sends a line to the child.
func (c *child) ask(what string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, what); err != nil {
		c.t.Fatal(err)
	}
}

// hear waits for what the child says of a kind.
func (c *child) hear(kind string) childSays {
	c.t.Helper()
	for c.lines.Scan() {
		var s childSays
		if json.Unmarshal(c.lines.Bytes(), &s) == nil && s.Kind == kind {
			return s
		}
	}
	c.t.Fatalf("the child ended before it said %q: %v", kind, c.lines.Err())
	return childSays{}
}

// TestFileChild is the other process of tests on the file store.
func TestFileChild(t *testing.T) {
	config := os.Getenv(childVar)
	if config == "" {
		t.Skip("other tests run this in processes of its own")
	}
	var j childJob
	if err := json.Unmarshal([]byte(config), &j); err != nil {
		t.Fatal(err)
	}
	st, err := filestore.Open(j.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var mu sync.Mutex
	say := func(s childSays) {
		s.At = now()
		line, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(string(line))
	}
	client, err := lease.New(st, &lease.Options{OnEvent: func(e lease.Event) {
		if e.Kind == lease.EventWaiting {
			say(childSays{Kind: "waiting"})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var waiters sync.WaitGroup
	defer waiters.Wait()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "cpu" {
			say(childSays{Kind: "cpu", CPU: cpuTime()})
			continue
		}
		for range j.Waiters {
			waiters.Go(func() {
				guard, err := client.Acquire(t.Context(), tortureLock, nil)
				if err != nil {
					t.Error(err)
					return
				}
				say(childSays{Kind: "held"})
				if err := guard.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// processStatus is a number in /proc/PID/status, in kilobytes for memory.
func processStatus(pid int, name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0]) // 0 if it is none
			return n
		}
	}
	return 0
}

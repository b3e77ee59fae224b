package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// supervised is a run or lead whose files are in a directory of its own.
type supervised struct {
	*exec.Cmd
	t    *testing.T
	bin  string
	dir  string
	errs bytes.Buffer
}

// supervise starts a program, with this stderr; nil means one that is read.
func supervise(t *testing.T, stderr *os.File, args ...string) *supervised {
	t.Helper()
	s := &supervised{t: t, bin: holdfastBinary(t), dir: t.TempDir()}
	s.Cmd = exec.Command(s.bin, args...)
	s.Dir, s.Env, s.Stderr = s.dir, environ(s.dir), &s.errs
	if stderr != nil {
		s.Stderr = stderr
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.ProcessState == nil {
			_ = s.Process.Kill()
			_ = s.Wait()
		}
	})
	return s
}

// there waits until a file exists, which is not empty, and returns its text.
func (s *supervised) there(name string) (text string) {
	s.t.Helper()
	await(s.t, name, func() bool {
		b, _ := os.ReadFile(filepath.Join(s.dir, name))
		text = strings.TrimSpace(string(b))
		return text != ""
	})
	return text
}

// This function waits until the process whose id is in a file has ended.
func (s *supervised) gone(name string) {
	s.t.Helper()
	pid, err := strconv.Atoi(s.there(name))
	if err != nil {
		s.t.Fatal(err)
	}
	await(s.t, "the end of the process in "+name, func() bool { return !ledTerm{pid: pid}.runs() })
}

// ended waits for the end, and returns the status.
func (s *supervised) ended() int {
	s.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Wait()
	}()
	select {
	case <-done:
		return s.ProcessState.ExitCode()
	case <-time.After(60 * time.Second):
		s.t.Fatal("it has not ended for a minute")
		return 0
	}
}

// holdfast runs another command line on the same store.
func (s *supervised) holdfast(want int, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.bin, args...)
	cmd.Dir, cmd.Env = s.dir, environ(s.dir)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != want {
		s.t.Fatalf("%s: status %d, want %d: %s (%v)", args, got, want, out, err)
	}
	return string(out)
}

// lose breaks the lock "job".
func (s *supervised) lose() {
	s.t.Helper()
	var view struct{ Token uint64 }
	if err := json.Unmarshal([]byte(s.holdfast(exit.OK, "show", "job", "--json")), &view); err != nil {
		s.t.Fatal(err)
	}
	s.holdfast(exit.OK, "break", "job", "--token", fmt.Sprint(view.Token))
}

// fullPipe returns a pipe that has no room and that no program reads.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	fd := int(w.Fd()) // this makes it block
	for _, size := range []int{4096, 1} {
		for err := error(nil); err == nil; {
			if err = syscall.SetNonblock(fd, true); err == nil {
				_, err = syscall.Write(fd, make([]byte, size))
			}
			if err != nil && !errors.Is(err, syscall.EAGAIN) {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSupervisionWithAFullStderr: if no program reads stderr, an ask, a loss after it, a signal and a timeout still act.
func TestSupervisionWithAFullStderr(t *testing.T) {
	t.Parallel()
	const stubborn = `trap "" TERM; echo $$ >pid; while :; do sleep 0.05; done`
	for _, c := range []struct {
		name    string
		args    []string
		command string
		act     func(*supervised)
		status  int
	}{
		{"ask", []string{"run"}, "echo $$ >pid; exec sleep 600", func(s *supervised) {
			s.holdfast(exit.OK, "ask", "job", "--wait", "60")
		}, 143},
		{"a loss after an ask", []string{"run"}, stubborn, func(s *supervised) {
			s.holdfast(exit.OK, "ask", "job")
			time.Sleep(2 * time.Second) // the holder reads it with a renewal
			s.lose()
		}, exit.Lost},
		{"a loss after a refusal", []string{"run", "--on-ask", "refuse", "-v"}, "echo $$ >pid; exec sleep 600", func(s *supervised) {
			s.holdfast(exit.Condition, "ask", "job", "--wait", "60")
			s.lose()
		}, exit.Lost},
		{"a timeout after a refusal", []string{"run", "--on-ask", "refuse", "--timeout", "4s"}, "echo $$ >pid; exec sleep 600", func(s *supervised) {
			s.holdfast(exit.Condition, "ask", "job", "--wait", "60")
		}, exit.TimedOut},
		{"lead", []string{"lead"}, "echo $$ >pid; exec sleep 600", func(s *supervised) {
			for _, act := range []func(){func() { s.holdfast(exit.OK, "ask", "job", "--wait", "60") }, s.lose} {
				before := s.there("pid")
				act()
				await(s.t, "the next term", func() bool { return s.there("pid") != before })
			}
			_ = s.Process.Signal(syscall.SIGTERM)
		}, 143},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := supervise(t, fullPipe(t), append(append(c.args, "--ttl", "3s", "job", "--"), "sh", "-c", c.command)...)
			s.there("pid")
			c.act(s)
			s.gone("pid")
			if got := s.ended(); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
		})
	}
}

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
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// supervised is a run or lead whose files are in a directory of its own.
type supervised struct {
	*exec.Cmd
	t      *testing.T
	bin    string
	dir    string
	stderr *os.File // instead of errs
	errs   bytes.Buffer
}

func newSupervised(t *testing.T) *supervised {
	t.Helper()
	return &supervised{t: t, bin: holdfastBinary(t), dir: t.TempDir()}
}

// start starts holdfast with these arguments, as the program to which these words belong, if any.
func (s *supervised) start(args []string, under ...string) {
	s.t.Helper()
	t := s.t
	line := append(append(under, s.bin), args...)
	s.Cmd = exec.Command(line[0], line[1:]...)
	s.Dir, s.Env, s.Stderr = s.dir, environ(s.dir), &s.errs
	s.WaitDelay = 10 * time.Second // if orphans have the pipe
	if s.stderr != nil {
		s.Stderr = s.stderr
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

// program writes a script of the shell, and returns its path.
func (s *supervised) program(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// runs reports whether the process whose id is in a file runs.
func (s *supervised) runs(name string) bool {
	s.t.Helper()
	pid, err := strconv.Atoi(s.there(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return ledTerm{pid: pid}.runs()
}

// awaitEnd waits until the process whose id is in a file has ended.
func (s *supervised) awaitEnd(name string) {
	s.t.Helper()
	await(s.t, "the end of the process in "+name, func() bool { return !s.runs(name) })
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
			s := newSupervised(t)
			s.stderr = fullPipe(t)
			s.start(append(append(c.args, "--ttl", "3s", "job", "--"), "sh", "-c", c.command))
			s.there("pid")
			c.act(s)
			s.awaitEnd("pid")
			if got := s.ended(); got != c.status {
				t.Errorf("status %d, want %d", got, c.status)
			}
		})
	}
}

// TestSlowStartOfTheHookForALoss: COMMAND has ended when the next holder has the lock, even if the system still
// reads the program of --on-lost, for example from a slow server.
func TestSlowStartOfTheHookForALoss(t *testing.T) {
	t.Parallel()
	strace := suitetest.NeedStrace(t)
	s := newSupervised(t)
	hook := s.program("hook", "echo $HOLDFAST_HOOK >hooked")
	s.start([]string{"run", "job", "--ttl", "3s", "--on-lost", hook, "--", "sh", "-c", `trap "" TERM; echo $$ >pid; while :; do sleep 0.05; done`},
		strace, "-f", "-qq", "-o", os.DevNull, "-P", hook, "-e", "trace=execve", "-e", "inject=execve:delay_enter=8s")
	s.there("pid")
	s.lose()
	s.holdfast(exit.OK, "run", "job", "--", "true")
	if s.runs("pid") {
		t.Error("the command works beside the next holder")
	}
	if got := s.ended(); got != exit.Lost || s.there("hooked") != "lost" {
		t.Errorf("status %d, want %d: %s", got, exit.Lost, &s.errs)
	}
}

// pid1 are the words that make a program the first process of a container.
var pid1 = []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}

// TestPID1Statuses: as PID 1, lead and run learn the status of COMMAND and of a hook at once, and the right one, while
// an orphan lives. An orphan in the group of COMMAND does not count when it has ended, even where /proc does not show it.
func TestPID1Statuses(t *testing.T) {
	t.Parallel()
	suitetest.NeedRoot(t, "a PID namespace")
	t.Run("lead", func(t *testing.T) {
		t.Parallel()
		s := newSupervised(t)
		s.start([]string{"lead", "job", "--ttl", "3s", "--", "sh", "-c", `
			[ ! -e first ] || exit 7
			setsid sleep 5 </dev/null >/dev/null 2>&1 &
			trap "exit 0" TERM
			echo up >first
			while :; do sleep 0.05; done`}, pid1...)
		s.there("first")
		s.holdfast(exit.OK, "ask", "job")
		if got := s.ended(); got != 7 {
			t.Errorf("status %d, want 7: %s", got, &s.errs)
		}
	})
	t.Run("hook", func(t *testing.T) {
		t.Parallel()
		for range 5 {
			s := newSupervised(t)
			s.start([]string{"run", "job", "--on-release", "sleep 0.1", "--", "sh", "-c", "setsid sleep 600 </dev/null >/dev/null 2>&1 &"}, pid1...)
			if got := s.ended(); got != 0 || s.errs.Len() > 0 {
				t.Errorf("status %d: %s", got, &s.errs)
			}
		}
	})
	for name, under := range map[string][]string{
		"no proc":      append(pid1[:len(pid1):len(pid1)], "sh", "-c", `exe=$(readlink -f "$0") && mount -t tmpfs none /proc && mkdir /proc/self && ln -s "$exe" /proc/self/exe && exec "$0" "$@"`),
		"another proc": {"unshare", "--pid", "--fork", "--kill-child"},
	} {
		for _, c := range []struct {
			option, command string
			status          int
		}{
			{"--timeout=2s", "(sleep 1; sleep 0.2) & (sleep 0.5) & sleep 0.1; exec sleep 100", exit.TimedOut},
			{"--wait-group", "(sleep 1) & exit 0", 0},
			{"--kill-group", "sleep 60 & exit 3", 3},
		} {
			t.Run(name+" "+c.option, func(t *testing.T) {
				t.Parallel()
				s := newSupervised(t)
				s.start([]string{"run", "job", c.option, "--", "sh", "-c", c.command}, under...)
				if got := s.ended(); got != c.status {
					t.Errorf("status %d, want %d: %s", got, c.status, &s.errs)
				}
			})
		}
	}
	// Another /proc shows a group of the same number, all of whose processes have ended.
	t.Run("a group of another proc", func(t *testing.T) {
		t.Parallel()
		s := newSupervised(t)
		s.start([]string{"run", "job", "--wait-group", "--", "sh", "-c", "(sleep 1; echo yes >waited) & exit 0"}, append(pid1[:len(pid1):len(pid1)],
			"sh", "-c", `bash -c 'set -m; for i in {1..60}; do sleep 1 & done; exec sleep 600' & sleep 2; unshare --pid --fork --kill-child "$0" "$@"`)...)
		if got := s.ended(); got != 0 || s.errs.Len() > 0 {
			t.Errorf("status %d: %s", got, &s.errs)
		}
		if _, err := os.Stat(filepath.Join(s.dir, "waited")); err != nil {
			t.Error("run did not wait for the group")
		}
	})
}

// TestHangUpThatReloads: a signal that COMMAND handles, and after which it continues, does not count as the end by a
// signal. The same signal counts if it ends COMMAND.
func TestHangUpThatReloads(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		reload := fmt.Sprintf(`trap "echo yes >reloaded" %d; echo $$ >pid; while [ ! -e over ]; do sleep 0.05; done`, sig)
		for _, c := range []struct {
			name, command string
			next          int // status of the next run
		}{{"reloads", reload, exit.Busy}, {"ends", "echo $$ >pid; exec sleep 600", exit.OK}} {
			t.Run(fmt.Sprintf("run %s at %v", c.name, sig), func(t *testing.T) {
				t.Parallel()
				s := newSupervised(t)
				s.start([]string{"run", "job", "--min-interval", "1h", "--", "sh", "-c", c.command})
				s.there("pid")
				_ = s.Process.Signal(sig)
				want := 128 + int(sig)
				if c.next != exit.OK {
					s.there("reloaded")
					s.program("over", "")
					want = exit.OK
				}
				if got := s.ended(); got != want {
					t.Errorf("status %d, want %d: %s", got, want, &s.errs)
				}
				s.holdfast(c.next, "run", "-n", "job", "--", "true")
			})
		}
		t.Run(fmt.Sprintf("lead reloads at %v", sig), func(t *testing.T) {
			t.Parallel()
			s := newSupervised(t)
			s.start([]string{"lead", "job", "--ttl", "3s", "--", "sh", "-c", reload})
			before := s.there("pid")
			_ = s.Process.Signal(sig)
			s.there("reloaded")
			s.lose()
			await(t, "the next term", func() bool { return s.there("pid") != before })
			_ = s.Process.Signal(syscall.SIGTERM)
			if got := s.ended(); got != 143 {
				t.Errorf("status %d: %s", got, &s.errs)
			}
		})
	}
}

// TestHookUnderTheLock: the program of --on-acquire is supervised as COMMAND is. It does not work on together with the next
// holder, and what asks run to end ends it; COMMAND is then not started.
func TestHookUnderTheLock(t *testing.T) {
	t.Parallel()
	// The hook has a child, as most scripts have.
	const works = `sh -c 'echo $$ >pid; while [ ! -e over ]; do sleep 0.05; done; touch worked'; true`
	for _, c := range []struct {
		name, hook string
		args       []string
		act        func(*supervised)
		status     int
		result     string
	}{
		{"run is killed", works, []string{"--ttl", "10s"}, func(s *supervised) {
			_ = s.Process.Kill()
			_, _ = s.Process.Wait() // the child of the hook has the pipe of stderr
			s.holdfast(exit.Busy, "run", "-n", "job", "--", "true")
			s.program("over", "")
			s.holdfast(exit.OK, "run", "job", "--", "test", "-e", "worked")
		}, -1, ""},
		{"a loss", works, []string{"--on-lost", "warn"}, func(s *supervised) {
			s.lose()
			s.holdfast(exit.OK, "run", "job", "--", "true")
			if s.runs("pid") {
				t.Error("the hook works beside the next holder")
			}
		}, exit.Lost, "lost"},
		{"TERM", works, nil, func(s *supervised) { _ = s.Process.Signal(syscall.SIGTERM) }, 143, "failed"},
		{"HUP that the hook handles", `trap "echo yes >over" HUP; ` + works, nil, func(s *supervised) { _ = s.Process.Signal(syscall.SIGHUP) }, 129, "failed"},
		{"ask", works, nil, func(s *supervised) { s.holdfast(exit.OK, "ask", "job", "--wait", "60") }, 143, "failed"},
		{"ask refused", works, []string{"--on-ask", "refuse"}, func(s *supervised) {
			s.holdfast(exit.Condition, "ask", "job", "--wait", "60")
			s.program("over", "")
		}, exit.OK, "ran"},
		{"it fails", "echo $$ >pid; exit 3", nil, func(*supervised) {}, exit.Failed, "failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSupervised(t)
			args := append([]string{"run", "job", "--ttl", "3s", "--report", "report", "--on-acquire", s.program("hook", c.hook)}, c.args...)
			s.start(append(args, "--", "touch", "ran"))
			s.there("pid")
			c.act(s)
			s.awaitEnd("pid")
			if c.result == "" {
				return
			}
			if got := s.ended(); got != c.status {
				t.Errorf("status %d, want %d: %s", got, c.status, &s.errs)
			}
			if isThere(filepath.Join(s.dir, "ran"))() != (c.status == exit.OK) {
				t.Errorf("status %d, and is it true that the command was started? %s", c.status, &s.errs)
			}
			if text := s.there("report"); !strings.Contains(text, fmt.Sprintf("%q: %q", "result", c.result)) {
				t.Errorf("the report says %s", text)
			}
			s.holdfast(exit.OK, "run", "-n", "job", "--", "true")
		})
	}
}

// TestTerminalOfAHook: the program of --on-acquire has the terminal. COMMAND has it afterwards, and does not ignore
// SIGTTOU, which run ignores in between.
func TestTerminalOfAHook(t *testing.T) {
	t.Parallel()
	s := newSupervised(t)
	hook := s.program("hook", "read x </dev/tty; echo it has read $x >&2")
	term := onTerminal(t, s.dir, s.bin, "run", "job", "--on-acquire", hook, "--", "sh", "-c", "read x; grep SigIgn /proc/self/status")
	term.send("a line\n")
	term.expect("it has read a line")
	term.send("another one\n")
	term.expect(`SigIgn:\s+[0-9a-f]{10}[014589cd][0-9a-f]{5}`)
	_ = term.cmd.Wait()
}

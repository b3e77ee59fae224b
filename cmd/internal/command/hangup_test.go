//go:build linux

package command

import (
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

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// await waits until something holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(60 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("waited a minute for: %s", what)
		}
	}
}

func isThere(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// free reports whether a lock below a directory can be taken.
func free(bin, dir, name string) func() bool {
	return func() bool {
		cmd := exec.Command(bin, "run", "-n", name, "--", "true")
		cmd.Env = environ(dir)
		return cmd.Run() == nil
	}
}

// A terminal that goes away ends the command, as it would without holdfast, and the
// lock is free: with holdfast as the program of the terminal, and below a shell.
func TestTerminalGoesAway(t *testing.T) {
	t.Parallel()
	bin := holdfastBinary(t)
	t.Run("its program", func(t *testing.T) {
		dir := t.TempDir()
		term := onTerminal(t, dir, bin, "run", "job", "--report", "r.json", "--", "sh", "-c", "touch up; exec sleep 600")
		await(t, "the command", isThere(filepath.Join(dir, "up")))
		_ = term.pty.Close()
		_ = term.cmd.Wait()
		if got := term.cmd.ProcessState.ExitCode(); got != 129 {
			t.Errorf("status %d, want 129 (HUP)", got)
		}
		if report, err := os.ReadFile(filepath.Join(dir, "r.json")); err != nil || !strings.Contains(string(report), `"status": 129`) {
			t.Errorf("report %s (%v)", report, err)
		}
		if !free(bin, dir, "job")() {
			t.Error("the lock is not free")
		}
	})
	t.Run("below a shell", func(t *testing.T) {
		dir := t.TempDir()
		sh := shellOnTerminal(t, dir)
		sh.send(bin + " run job -- sh -c 'touch up; exec sleep 600'\n")
		await(t, "the command", isThere(filepath.Join(dir, "up")))
		_ = sh.pty.Close()
		await(t, "a free lock", free(bin, dir, "job"))
	})
	t.Run("while it waits", func(t *testing.T) {
		dir := t.TempDir()
		holder := holdFor(t, bin, dir, "job")
		term := onTerminal(t, dir, bin, "run", "job", "--", "touch", "ran")
		term.expect(`waiting for lock "job"`)
		_ = term.pty.Close()
		_ = term.cmd.Wait()
		if got := term.cmd.ProcessState.ExitCode(); got != 129 {
			t.Errorf("status %d, want 129", got)
		}
		_ = holder.Process.Signal(syscall.SIGTERM)
		_ = holder.Wait()
		if !free(bin, dir, "job")() || isThere(filepath.Join(dir, "ran"))() {
			t.Error("something is left of the waiter")
		}
	})
}

// holdFor holds a lock until the test ends, and returns when it is held.
func holdFor(t *testing.T, bin, dir, name string) *exec.Cmd {
	t.Helper()
	up := filepath.Join(dir, "held-"+name)
	cmd := exec.Command(bin, "run", name, "--", "sh", "-c", "touch "+up+"; exec sleep 600")
	cmd.Env = environ(dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	await(t, "the holder", isThere(up))
	return cmd
}

// Ctrl-C and Ctrl-Z while it waits for the lock.
func TestTerminalWaitingSignals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := holdfastBinary(t)
	holder := holdFor(t, bin, dir, "job")
	sh := shellOnTerminal(t, dir)
	sh.send(bin + " run job -- echo never; echo status $?\n")
	sh.expect(`waiting for lock "job"`)
	sh.send("\x03")
	sh.expect("no lock was taken: ended by SIGINT")
	sh.expect("status 130")
	sh.prompt()

	sh.send(bin + " run job -- echo got ''it\n")
	sh.expect(`waiting for lock "job"`)
	sh.send("\x1a")
	sh.expect("Stopped")
	sh.prompt()
	sh.send("echo the shell ''has the terminal\n")
	sh.expect("the shell has the terminal")
	_ = holder.Process.Signal(syscall.SIGTERM)
	_ = holder.Wait()
	sh.prompt()
	sh.send("fg\n")
	sh.expect("got it\r\n")
	sh.prompt()
	if !free(bin, dir, "job")() {
		t.Error("the lock is not free")
	}
}

// One run inside another: the inner command has the terminal, Ctrl-Z stops all of them,
// and fg continues all of them.
func TestTerminalNested(t *testing.T) {
	t.Parallel()
	bin := holdfastBinary(t)
	dir := t.TempDir()
	sh := shellOnTerminal(t, dir)
	sh.send(bin + " run outer -- " + bin + " run inner -- sh -c 'echo start''ed; cat'\n")
	sh.expect("started\r\n")
	sh.send("over here\n")
	sh.expect("over here\r\nover here\r\n")
	for range 2 {
		sh.send("\x1a")
		sh.expect("Stopped")
		sh.prompt()
		sh.send("echo the shell ''has the terminal\n")
		sh.expect("the shell has the terminal")
		sh.prompt()
		sh.send("fg\n")
		sh.expect("run outer")
		sh.send("back again\n")
		sh.expect("back again\r\nback again\r\n")
	}
	sh.send("\x03")
	sh.prompt()
	sh.send("jobs; echo none left\n")
	sh.expect("none left\r\n")
	for _, name := range []string{"outer", "inner"} {
		if !free(bin, dir, name)() {
			t.Errorf("lock %s is not free", name)
		}
	}
}

// A lock that was lost while everything was stopped: after fg the command does not continue.
func TestTerminalLostWhileStopped(t *testing.T) {
	bin := holdfastBinary(t)
	dir := t.TempDir()
	sh := shellOnTerminal(t, dir)
	sh.send(bin + " run job --ttl 3s -- sh -c 'echo start''ed; read x; touch went-on'; echo status $?\n")
	sh.expect("started\r\n")
	sh.send("\x1a")
	sh.expect("Stopped")
	sh.prompt()
	time.Sleep(3100 * time.Millisecond) // the lease ends
	sh.send("fg\n")
	sh.send("\n")
	sh.expect(`did not confirm a renewal in time: .*this machine was suspended\. The command was stopped\.`)
	sh.prompt()
	if isThere(filepath.Join(dir, "went-on"))() {
		t.Error("the command went on without its lock")
	}
}

// The same without a terminal: SIGCONT, which ends the stop, is not passed on to a command
// whose lock was lost meanwhile.
func TestStoppedCommandDoesNotGoOnWithoutItsLock(t *testing.T) {
	t.Parallel()
	bin := holdfastBinary(t)
	for round := range 4 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := exec.Command(bin, "run", "job", "--ttl", "1s", "--", "sh", "-c", "echo $$ >pid; while :; do echo >>steps; done")
			cmd.Dir, cmd.Env = dir, environ(dir)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, "the command", isThere(filepath.Join(dir, "steps")))
			steps := func() int64 {
				info, err := os.Stat(filepath.Join(dir, "steps"))
				if err != nil {
					t.Fatal(err)
				}
				return info.Size()
			}
			pid, err := os.ReadFile(filepath.Join(dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			group, err := strconv.Atoi(strings.TrimSpace(string(pid)))
			if err == nil {
				err = errors.Join(cmd.Process.Signal(syscall.SIGSTOP), syscall.Kill(-group, syscall.SIGSTOP))
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(1500 * time.Millisecond) // the lease ends
			before := steps()
			if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if after := steps(); after != before {
				t.Errorf("the command went on without its lock: %d steps, then %d", before, after)
			}
		})
	}
}

// As PID 1 it reaps the orphans of the command's group after the command has ended, too:
// otherwise they would count as living, and use up the whole grace.
func TestPID1ReapsAfterTheCommand(t *testing.T) {
	suitetest.NeedRoot(t, "a PID namespace")
	dir := t.TempDir()
	bin := holdfastBinary(t)
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", bin, "run", "job", "--timeout", "300ms", "--ttl", "10m", "--grace", "60s",
		"--", "sh", "-c", "sh -c 'sleep 600 & sleep 600 &'; exec sleep 600")
	cmd.Dir = dir
	cmd.Env = environ(dir)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != 124 {
		t.Errorf("status %d (%v), want 124: %s", got, err, out)
	}
	if took := time.Since(began); took > 50*time.Second {
		t.Errorf("it took %v: the whole grace", took)
	}
}

// Tables are cut to the width of the terminal. Neither there nor in a pipe is anything
// coloured, with or without NO_COLOR.
func TestTerminalTable(t *testing.T) {
	dir := t.TempDir()
	bin := holdfastBinary(t)
	env := environ(dir)
	lock := exec.Command(bin, "lock", "job", "--handle", filepath.Join(dir, "h.json"), "--holder", strings.Repeat("ada@db1 ", 30))
	lock.Env = env
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, color := range []string{"NO_COLOR=", "NO_COLOR=1"} {
		cmd := exec.Command(bin, "ls")
		cmd.Env = append(env, color, "TERM=xterm-256color")
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 60})
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for b := make([]byte, 4096); err == nil; {
			var n int
			n, err = f.Read(b)
			all = append(all, b[:n]...)
		}
		_ = f.Close()
		_ = cmd.Wait()
		text := string(all)
		if strings.Contains(text, "\x1b") || !strings.Contains(text, "…\r\n") {
			t.Errorf("%s: the terminal shows %q", color, text)
		}
		for line := range strings.Lines(text) {
			if n := len([]rune(strings.TrimRight(line, "\r\n"))); n > 60 {
				t.Errorf("a line of %d letters on a terminal of 60", n)
			}
		}
	}
	whole := exec.Command(bin, "ls")
	whole.Env = env
	if out, err := whole.Output(); err != nil || !strings.Contains(string(out), strings.TrimSpace(strings.Repeat("ada@db1 ", 30))) {
		t.Errorf("in a pipe: %s (%v)", out, err)
	}
}

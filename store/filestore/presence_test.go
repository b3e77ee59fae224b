package filestore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// presentLine is the line that a process prints after its announcement.
type presentLine struct {
	Text  string `json:"text"`
	Child int    `json:"child"`
}

// present announces this process and waits to be killed. Its arguments: the
// directory, and "alone", "heir" (with a child that inherits the announcement),
// "orphan" (with a child that does not), or the name of a worker that inherits the
// announcement, does with it what it can, and ends.
func present(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	var line presentLine
	if line.Text, err = s.Announce(testContext()); err != nil {
		return err
	}
	if mode := args[1]; mode != "alone" {
		name := mode
		if mode == "heir" || mode == "orphan" {
			name = "idle"
		}
		cmd, err := childCommand(name)
		if err != nil {
			return err
		}
		if mode != "orphan" {
			f, err := s.PresenceFile(testContext())
			if err != nil {
				return err
			}
			defer f.Close()
			if err := inherit(cmd, f); err != nil {
				return err
			}
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		line.Child = cmd.Process.Pid
		if name != "idle" {
			if err := cmd.Wait(); err != nil {
				return err
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// idle waits to be killed.
func idle([]string) error {
	time.Sleep(10 * time.Minute)
	return nil
}

// startPresent starts a process that announces itself.
func startPresent(t *testing.T, dir, mode string, attr *syscall.SysProcAttr) (*exec.Cmd, presentLine) {
	t.Helper()
	cmd := worker(t, "present", dir, mode)
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdin.Close(); kill(cmd) })
	var line presentLine
	text, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &line); err != nil {
		t.Fatal(err)
	}
	if line.Child != 0 {
		t.Cleanup(func() { _ = killProcess(line.Child) })
	}
	return cmd, line
}

func killProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.Kill()
}

func wantVerdict(t *testing.T, s *filestore.Store, when, text string, want store.Liveness) {
	t.Helper()
	if got := s.Liveness(t.Context(), text); got != want {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

// wantDead is wantVerdict for a process that has just ended. Windows may need a moment to close its
// handles.
func wantDead(t *testing.T, s *filestore.Store, when, text string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); runtime.GOOS == "windows" && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if s.Liveness(t.Context(), text) == store.Dead {
			break
		}
	}
	wantVerdict(t, s, when, text, store.Dead)
}

// awaited returns a channel that is closed when Await has returned.
func awaited(t *testing.T, s *filestore.Store, text string) <-chan struct{} {
	done := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	go func() {
		defer close(done)
		if err := s.WaitLiveness(ctx, text); err != nil {
			t.Error(err)
		}
	}()
	return done
}

// TestDeadAtOnce: a process is alive until it is dead.
func TestDeadAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, line := startPresent(t, dir, "alone", nil)
	wantVerdict(t, s, "running", line.Text, store.Alive)
	done := awaited(t, s, line.Text)
	time.Sleep(50 * time.Millisecond)
	select {
	case <-done:
		t.Error("await returned while the process lives")
	default:
	}
	start := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done
	t.Logf("told after %v", time.Since(start))
	wantVerdict(t, s, "killed, a zombie", line.Text, store.Dead)
	_ = cmd.Wait()
	wantVerdict(t, s, "killed and waited for", line.Text, store.Dead)
	if err := s.WaitLiveness(t.Context(), line.Text); err != nil {
		t.Errorf("await of the dead: %v", err)
	}
}

// TestPresenceInherited: the announcement lasts as long as a child that was given it
// on purpose, and no child has it otherwise.
func TestPresenceInherited(t *testing.T) {
	for _, mode := range []string{"heir", "orphan"} {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, nil)
			cmd, line := startPresent(t, dir, mode, nil)
			wantVerdict(t, s, "both running", line.Text, store.Alive)
			kill(cmd)
			if mode == "orphan" {
				wantDead(t, s, "only a child is left", line.Text)
				return
			}
			wantVerdict(t, s, "the heir is left", line.Text, store.Alive)
			done := awaited(t, s, line.Text)
			time.Sleep(50 * time.Millisecond)
			wantVerdict(t, s, "the heir is left, and a process waits", line.Text, store.Alive)
			if err := killProcess(line.Child); err != nil {
				t.Fatal(err)
			}
			<-done
			wantVerdict(t, s, "the heir is dead", line.Text, store.Dead)
		})
	}
}

// TestPresenceOwn: a process is alive for itself, through any handle, and unknown
// after Close.
func TestPresenceOwn(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	text, err := s.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Announce(t.Context()); again != text || err != nil {
		t.Errorf("the second announcement: got %q, %v, want %q", again, err, text)
	}
	wantVerdict(t, s, "own", text, store.Alive)
	wantVerdict(t, other, "through another handle", text, store.Alive)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, other, "after Close", text, store.LivenessUnknown)
	if _, err := s.PresenceFile(t.Context()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the file after Close: got %v", err)
	}
}

// TestPresenceUnknown: whatever is not certain is unknown.
func TestPresenceUnknown(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, line := startPresent(t, dir, "alone", nil)
	kill(cmd)
	wantDead(t, s, "as it is", line.Text)
	boot, rest, _ := strings.Cut(line.Text, "/")
	name, id, _ := strings.Cut(rest, "/")
	for what, text := range map[string]string{
		"empty":           "",
		"no name":         boot,
		"another boot":    "00000000-0000-0000-0000-000000000000/" + rest,
		"another file":    boot + "/" + name + "/1.1",
		"no file":         boot + "/" + strings.Repeat("A", len(name)) + "/" + id,
		"a path upwards":  boot + "/../../" + name,
		"cut":             boot + "/" + name[1:] + "/" + id,
		"something after": line.Text + "/x",
	} {
		wantVerdict(t, s, what, text, store.LivenessUnknown)
	}
	if err := os.Remove(filepath.Join(dir, "alive", name)); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, "removed", line.Text, store.LivenessUnknown)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.WaitLiveness(ctx, line.Text); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("await of the unknown: got %v", err)
	}
}

// TestSweepPresence: files of the dead go, in two steps; others stay, however old.
func TestSweepPresence(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	own, err := s.Announce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd, line := startPresent(t, dir, "alone", nil)
	kill(cmd)
	wantDead(t, s, "killed", line.Text)
	file := func(text string) string { return filepath.Join(dir, "alive", strings.Split(text, "/")[1]) }
	age := func(d time.Duration) {
		t.Helper()
		then := time.Now().Add(-d)
		for _, text := range []string{own, line.Text} {
			if err := os.Chtimes(file(text), then, then); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func() {
		t.Helper()
		again, err := filestore.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if _, err := again.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	age(48 * time.Hour)
	look() // notices
	wantVerdict(t, s, "just noticed", line.Text, store.Dead)
	look()
	wantVerdict(t, s, "noticed a moment ago", line.Text, store.Dead)
	age(48 * time.Hour)
	look()
	wantVerdict(t, s, "noticed long ago", line.Text, store.LivenessUnknown)
	wantVerdict(t, s, "old and alive", own, store.Alive)
}

// TestCloseTwice: closing at the same time, and handing out what announces this process
// meanwhile, ends the announcement once: a descriptor that is closed twice may be
// another process's by then.
func TestCloseTwice(t *testing.T) {
	for range 20 {
		s, err := filestore.Open(memoryDir(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Announce(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				f, err := s.PresenceFile(t.Context())
				if err == nil {
					err = f.Close()
				}
				if err != nil && !errors.Is(err, store.ErrClosed) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

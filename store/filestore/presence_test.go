//go:build linux

package filestore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
// "hostile" (with such a child that does with it what it can, and ends) or "orphan"
// (with a child that does not).
func present(args []string) error {
	s, err := filestore.Open(args[0], nil)
	if err != nil {
		return err
	}
	var line presentLine
	if line.Text, err = s.Announce(testContext()); err != nil {
		return err
	}
	if args[1] != "alone" {
		cmd := exec.Command("sleep", "600")
		if args[1] == "hostile" {
			cmd = exec.Command("/proc/self/exe") // in a directory that another user cannot enter
			cmd.Env = append(os.Environ(), workerEnv+"=hostile")
			cmd.Stderr = os.Stderr
			if os.Geteuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
			}
		}
		if args[1] != "orphan" {
			f, err := s.PresenceFile(testContext())
			if err != nil {
				return err
			}
			cmd.ExtraFiles = []*os.File{f}
		}
		if err := cmd.Start(); err != nil {
			return err
		}
		for _, f := range cmd.ExtraFiles {
			f.Close()
		}
		line.Child = cmd.Process.Pid
		if args[1] == "hostile" {
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
		t.Cleanup(func() { _ = syscall.Kill(line.Child, syscall.SIGKILL) })
	}
	return cmd, line
}

func wantVerdict(t *testing.T, s *filestore.Store, when, text string, want store.Liveness) {
	t.Helper()
	if got := s.Liveness(t.Context(), text); got != want {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
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

// TestDeadAtOnce: a process is alive until it is dead, however it is doing.
func TestDeadAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, line := startPresent(t, dir, "alone", nil)
	wantVerdict(t, s, "running", line.Text, store.Alive)
	done := awaited(t, s, line.Text)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, "stopped", line.Text, store.Alive)
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
				wantVerdict(t, s, "only a child is left", line.Text, store.Dead)
				return
			}
			wantVerdict(t, s, "the heir is left", line.Text, store.Alive)
			done := awaited(t, s, line.Text)
			time.Sleep(50 * time.Millisecond)
			wantVerdict(t, s, "the heir is left, and a process waits", line.Text, store.Alive)
			if err := syscall.Kill(line.Child, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-done
			wantVerdict(t, s, "the heir is dead", line.Text, store.Dead)
		})
	}
}

// hostile does everything to the descriptor that it inherited that could end the
// announcement of the process that gave it, or change its file.
func hostile([]string) error {
	const fd = 3
	for _, how := range []int{syscall.LOCK_UN, syscall.LOCK_SH | syscall.LOCK_NB, syscall.LOCK_EX | syscall.LOCK_NB, syscall.LOCK_UN} {
		_ = syscall.Flock(fd, how)
	}
	for _, command := range []int{syscall.F_SETLK, 37 /* F_OFD_SETLK */} {
		_ = syscall.FcntlFlock(fd, command, &syscall.Flock_t{Type: syscall.F_UNLCK})
	}
	if n, err := syscall.Write(fd, []byte("nonsense")); err == nil {
		return fmt.Errorf("%d bytes were written", n)
	}
	if err := syscall.Ftruncate(fd, 8<<40); err == nil {
		return errors.New("the file was made longer")
	}
	if os.Geteuid() != 0 {
		if f, err := os.OpenFile("/proc/self/fd/3", os.O_WRONLY, 0); err == nil {
			f.Close()
			return errors.New("the file was opened for writing")
		}
		if err := syscall.Fchmod(fd, 0o777); err == nil {
			return errors.New("the mode of the file was changed")
		}
	}
	return nil
}

// TestPresenceHostileChild: a child that was given the announcement, and has dropped its
// rights, can neither end that of its parent nor write to its file.
func TestPresenceHostileChild(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, line := startPresent(t, dir, "hostile", nil)
	wantVerdict(t, s, "after the child", line.Text, store.Alive)
	text, err := os.ReadFile(filepath.Join(dir, "alive", strings.Split(line.Text, "/")[1]))
	if err != nil || len(text) > 1000 || strings.Contains(string(text), "nonsense") {
		t.Errorf("the file holds %.100q, %v", text, err)
	}
	kill(cmd)
	wantVerdict(t, s, "killed", line.Text, store.Dead)
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
	wantVerdict(t, s, "as it is", line.Text, store.Dead)
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
	file := filepath.Join(dir, "alive", name)
	if err := os.Rename(file, file+"x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file+"x", file); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, "a symbolic link", line.Text, store.LivenessUnknown)
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

package filestore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

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

// TestPresenceContainers: between name spaces, where pids mean something else,
// the living are alive and the dead dead, in both directions.
func TestPresenceContainers(t *testing.T) {
	suitetest.NeedRoot(t, "a name space")
	apart := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC}
	dir := t.TempDir()
	s := open(t, dir, nil)
	inside, line := startPresent(t, dir, "alone", apart)
	other, otherLine := startPresent(t, dir, "alone", apart)
	wantVerdict(t, s, "pid 1 of a name space", line.Text, store.Alive)
	wantVerdict(t, s, "pid 1 of another", otherLine.Text, store.Alive)
	kill(inside)
	wantVerdict(t, s, "the first is dead", line.Text, store.Dead)
	wantVerdict(t, s, "the other, of the same pid, is not", otherLine.Text, store.Alive)
	kill(other)
	wantVerdict(t, s, "the other is dead", otherLine.Text, store.Dead)
}

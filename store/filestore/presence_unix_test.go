//go:build unix

package filestore_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

// inherit lets a command inherit a file, as its descriptor 3.
func inherit(cmd *exec.Cmd, f *os.File) error {
	cmd.ExtraFiles = []*os.File{f}
	return nil
}

// TestPresenceStopped: a process that is stopped is alive, and its end is noticed.
func TestPresenceStopped(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, line := startPresent(t, dir, "alone", nil)
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
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-done
	wantVerdict(t, s, "killed, a zombie", line.Text, store.Dead)
}

// TestPresenceSymbolicLink: a symbolic link in the place of a presence file says nothing.
func TestPresenceSymbolicLink(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, nil)
	cmd, line := startPresent(t, dir, "alone", nil)
	kill(cmd)
	wantVerdict(t, s, "as it is", line.Text, store.Dead)
	file := filepath.Join(dir, "alive", strings.Split(line.Text, "/")[1])
	if err := os.Rename(file, file+"x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file+"x", file); err != nil {
		t.Fatal(err)
	}
	wantVerdict(t, s, "a symbolic link", line.Text, store.LivenessUnknown)
}

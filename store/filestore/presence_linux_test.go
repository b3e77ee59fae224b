package filestore_test

import (
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/store"
)

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

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/compat/avisofile"
)

// lockFile takes the lock of a state file, as any program would, and returns what
// gives it back.
func lockFile(t testing.TB, path string) (unlock func()) {
	t.Helper()
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for err = syscall.EINTR; err == syscall.EINTR; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// waiting calls Advance, and returns when the call waits for a lock in the kernel. It does so
// until the lock is free, or until giveUp.
func waiting(t *testing.T, s *avisofile.Store, sequence uint64) (giveUp func(), done <-chan error) {
	t.Helper()
	before := avisofile.Waits()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := s.Advance(ctx, keyA, at(sequence), nil)
		over <- err
	}()
	waitFor(t, "the call to wait", func() bool { return avisofile.Waits() > before || len(over) > 0 })
	if len(over) > 0 {
		t.Fatalf("the call did not wait: %v", <-over)
	}
	return cancel, over
}

// wantLocked wants that no call gets the lock. The test has it, and releases it with unlock.
func wantLocked(t *testing.T, s *avisofile.Store, sequence uint64, unlock func()) {
	t.Helper()
	before := avisofile.Waits()
	giveUp, done := waiting(t, s, sequence)
	giveUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a call under the lock: got %v", err)
	}
	unlock()
	waitFor(t, "the wait to end", func() bool { return avisofile.Waits() <= before })
}

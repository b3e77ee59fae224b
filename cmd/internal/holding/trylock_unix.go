//go:build unix

package holding

import (
	"errors"
	"os"
	"syscall"
)

// tryLock locks f for this command, until f is closed, and reports false if another
// command has it. Where the file system has no such locks it reports true.
func tryLock(f *os.File) bool {
	return !errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

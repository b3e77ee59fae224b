//go:build unix

package main

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

// canRead reports whether this user may read a file, and may if there is none. It does not open the file.
func canRead(path string) bool {
	const read = 4 // R_OK
	return !errors.Is(syscall.Access(path, read), syscall.EACCES)
}

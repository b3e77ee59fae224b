package avisofile

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// keepOpen: a file that is open cannot be replaced.
const keepOpen = false

const (
	lockFailImmediately = 1
	lockExclusive       = 2

	errLockViolation = syscall.Errno(33)
)

// lock locks the whole file, and so every part of it that another program may lock. Without
// wait, false means that another process has it.
func lock(f *os.File, wait bool) (bool, error) {
	var at syscall.Overlapped
	how := uintptr(lockExclusive | lockFailImmediately)
	if wait {
		how = lockExclusive
	}
	ok, _, err := syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx").Call(
		f.Fd(), how, 0, 0xffffffff, 0xffffffff, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return true, nil
	case errors.Is(err, errLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return false, nil
	}
	return false, &os.PathError{Op: "LockFileEx", Path: f.Name(), Err: err}
}

func unlock(f *os.File) {
	var at syscall.Overlapped
	syscall.NewLazyDLL("kernel32.dll").NewProc("UnlockFileEx").Call(
		f.Fd(), 0, 0xffffffff, 0xffffffff, uintptr(unsafe.Pointer(&at)))
}

// rename retries for about two seconds: on Windows a reader of the file blocks it.
func rename(from, to string) error {
	const sharingViolation = syscall.Errno(32)
	for pause := time.Millisecond; ; pause *= 2 {
		err := os.Rename(from, to)
		busy := errors.Is(err, sharingViolation) || errors.Is(err, syscall.ERROR_ACCESS_DENIED)
		if !busy || pause > time.Second {
			return err
		}
		time.Sleep(pause)
	}
}

// keepOwner does nothing: a new file takes its rights from the directory.
func keepOwner(*os.File, os.FileInfo) (changed string, err error) { return "", nil }

func cannotSync(error) bool { return false }

// hasOneName is not known here, where no file has an owner.
func hasOneName(os.FileInfo) bool { return false }

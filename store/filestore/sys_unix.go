//go:build unix

package filestore

import (
	"errors"
	"os"
	"syscall"
)

// writeOnce writes with one system call. On a file that is open for appending, that makes
// one contiguous piece. After a short write it does not write the rest: others may have
// appended meanwhile.
func writeOnce(f *os.File, b []byte) (int, error) {
	n := 0
	err := uninterrupted(func() (err error) {
		n, err = syscall.Write(int(f.Fd()), b)
		return err
	})
	return max(n, 0), err
}

// uninterrupted repeats a system call that a signal has interrupted.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR {
			return err
		}
	}
}

// sizeOf returns the size of a file, and whether it has certainly lost its last name.
func sizeOf(f *os.File) (size int64, unlinked bool, err error) {
	var st syscall.Stat_t
	err = uninterrupted(func() error { return syscall.Fstat(int(f.Fd()), &st) })
	return st.Size, st.Nlink == 0, err
}

// lockFile locks a file, for this open file and its duplicates alone or for reading,
// without waiting. It reports whether the lock was free.
func lockFile(f *os.File, exclusive bool) (free bool, err error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err = uninterrupted(func() error { return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) })
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// unlockFile gives the lock of lockFile up, before the file is closed.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// lockPresence locks a new presence file, until the returned descriptor and its duplicates are closed.
func lockPresence(f *os.File) (fd uintptr, err error) {
	free, err := lockFile(f, true)
	if err == nil && !free {
		err = errors.New("another process has locked the new presence file")
	}
	if err != nil {
		return 0, err
	}
	return dupFD(f.Fd())
}

// dupFD duplicates a descriptor; no child inherits the duplicate.
func dupFD(fd uintptr) (uintptr, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	other, err := syscall.Dup(int(fd))
	if err == nil {
		syscall.CloseOnExec(other)
	}
	return uintptr(other), os.NewSyscallError("dup", err)
}

// dupFile is dupFD for a file with a name.
func dupFile(fd uintptr, name string) (*os.File, error) {
	fd, err := dupFD(fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(fd, name), nil
}

func closeFD(fd uintptr) { _ = syscall.Close(int(fd)) }

// fileID identifies an open file.
func fileID(f *os.File) (dev, ino uint64) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0
	}
	return uint64(st.Dev), uint64(st.Ino)
}

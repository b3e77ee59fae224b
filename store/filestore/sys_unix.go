//go:build unix

package filestore

import (
	"os"
	"syscall"
)

// writeOnce writes with one system call. On a file that is open for appending, that makes
// one contiguous piece. After a short write it does not write the rest: others may have
// appended meanwhile.
func writeOnce(f *os.File, b []byte) (int, error) {
	for {
		n, err := syscall.Write(int(f.Fd()), b)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// sizeOf returns the size of a file, and whether it has certainly lost its last name.
func sizeOf(f *os.File) (size int64, unlinked bool, err error) {
	var st syscall.Stat_t
	for {
		err = syscall.Fstat(int(f.Fd()), &st)
		if err != syscall.EINTR {
			return st.Size, st.Nlink == 0, err
		}
	}
}

// lockFile locks a file, for this open file and its duplicates alone or for reading,
// without waiting. It reports whether the lock was free.
func lockFile(f *os.File, exclusive bool) (free bool, err error) {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err {
		case nil:
			return true, nil
		case syscall.EWOULDBLOCK:
			return false, nil
		case syscall.EINTR:
		default:
			return false, err
		}
	}
}

// unlockFile gives the lock of lockFile up, before the file is closed.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

// dup duplicates a descriptor; no child inherits it.
func dup(f *os.File) (int, error) { return dupFD(int(f.Fd())) }

func dupFD(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Dup(fd)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	return fd, os.NewSyscallError("dup", err)
}

// dupFile is dup for a descriptor without an os.File.
func dupFile(fd int, name string) (*os.File, error) {
	fd, err := dupFD(fd)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func closeFD(fd int) { _ = syscall.Close(fd) }

// fileID identifies an open file.
func fileID(f *os.File) (dev, ino uint64) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return 0, 0
	}
	return uint64(st.Dev), uint64(st.Ino)
}

//go:build unix

package servers

import (
	"os"
	"syscall"
)

// lockFile locks a file that stays behind. It calls waiting before it has to wait.
func lockFile(path string, waiting func()) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		waiting()
		if err := flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			f.Close()
			return nil, &os.PathError{Op: "flock", Path: path, Err: err}
		}
	}
	return func() { f.Close() }, nil
}

// lockFileUntilExit locks a file until this process ends. It reports false if another process has the lock.
func lockFileUntilExit(path string) (bool, error) {
	// Not an os.File, which the garbage collector would close.
	fd, err := syscall.Open(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return false, &os.PathError{Op: "open", Path: path, Err: err}
	}
	if err := flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = syscall.Close(fd)
		if err == syscall.EWOULDBLOCK {
			return false, nil
		}
		return false, &os.PathError{Op: "flock", Path: path, Err: err}
	}
	return true, nil
}

func flock(fd, how int) error {
	for {
		if err := syscall.Flock(fd, how); err != syscall.EINTR {
			return err
		}
	}
}

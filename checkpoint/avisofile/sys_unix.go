//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// noFollow refuses a symbolic link at the end of a path, and does not wait for
	// the other end of a pipe.
	noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

	// keepOpen: a file that is open can be replaced.
	keepOpen = true
)

// lock takes an exclusive flock. Without wait, a false answer means that another has it.
func lock(f *os.File, wait bool) (bool, error) {
	how := syscall.LOCK_EX | syscall.LOCK_NB
	if wait {
		how = syscall.LOCK_EX
	}
	for {
		switch err := syscall.Flock(int(f.Fd()), how); err {
		case nil:
			return true, nil
		case syscall.EINTR:
		case syscall.EWOULDBLOCK:
			return false, nil
		default:
			return false, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// unlock releases the lock before the file is closed: a child that is being started
// shares the open file until it runs its program, and would keep the lock until then.
func unlock(f *os.File) {
	for syscall.Flock(int(f.Fd()), syscall.LOCK_UN) == syscall.EINTR {
	}
}

func rename(from, to string) error { return os.Rename(from, to) }

// syncDir makes the names of a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// keepOwner gives f the owner, group and mode of the file that it replaces. Where this
// user may not change the owner, all users who could write the old file must be able to
// write the new one by its group and mode; otherwise keepOwner fails.
func keepOwner(f *os.File, old os.FileInfo) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	is, ok2 := info.Sys().(*syscall.Stat_t)
	if !ok || !ok2 {
		return f.Chmod(old.Mode().Perm())
	}
	if is.Uid != was.Uid || is.Gid != was.Gid {
		err := f.Chown(int(was.Uid), int(was.Gid))
		if err != nil && (f.Chown(-1, int(was.Gid)) != nil || old.Mode().Perm()&0o060 != 0o060) {
			return fmt.Errorf("%w: %s belongs to user %d and group %d, who could not write its replacement: %w",
				store.ErrDenied, old.Name(), was.Uid, was.Gid, err)
		}
	}
	return f.Chmod(old.Mode().Perm())
}

// cannotSync reports whether err says that this user or this file system has no way to
// sync. A reader ignores such an error.
func cannotSync(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)
}

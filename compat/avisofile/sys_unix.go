//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// keepOpen: a file that is open can be replaced.
const keepOpen = true

// lock takes an exclusive flock. Without wait, false means that another process has it.
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

// keepOwner gives f the owner, group and mode of the file that it replaces.
//
// If this user may not change the owner, there are two cases. The file keeps the mode if
// all users who could write the old file can write the new one by its group. Otherwise it
// becomes a file of this user, and changed describes the change, if the old owner can still
// read and replace it. That is so if the directory lets each of its users replace files of
// others, and the old owner reads the new file as any user, or by its group, which is that
// of the directory. Such a group gets the owner's rights. No user gets a right to read that
// the old file did not give. In all other cases keepOwner fails.
func keepOwner(f *os.File, old os.FileInfo) (changed string, err error) {
	was, ok := old.Sys().(*syscall.Stat_t)
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	is, ok2 := info.Sys().(*syscall.Stat_t)
	mode := old.Mode().Perm()
	if !ok || !ok2 || is.Uid == was.Uid && is.Gid == was.Gid {
		return "", f.Chmod(mode)
	}
	chown := f.Chown(int(was.Uid), int(was.Gid))
	if chown == nil {
		return "", f.Chmod(mode)
	}
	refused := func(why string) (string, error) {
		return "", fmt.Errorf("%w: cannot replace %s, which belongs to user %d and group %d: %s: %w", store.ErrDenied, old.Name(), was.Uid, was.Gid, why, chown)
	}
	group := was.Gid
	keptGroup := is.Gid == was.Gid || f.Chown(-1, int(was.Gid)) == nil
	if keptGroup && mode&0o060 == 0o060 {
		return "", f.Chmod(mode)
	}
	dir, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return "", err
	}
	if dir.Mode()&fs.ModeSticky != 0 && safefile.OwnerOf(dir) != os.Geteuid() {
		return refused("the directory has the sticky bit, so only that user may replace the file")
	}
	if !keptGroup {
		group = is.Gid
		mode = mode&^0o070 | mode&0o007<<3
	}
	shared := dir.Mode()&0o020 != 0 && safefile.GroupOf(dir) == int(group)
	if mode&0o004 == 0 && !(shared && keptGroup && mode&0o040 != 0) {
		return refused("that user could not read the new file")
	}
	if shared {
		mode |= mode >> 3 & 0o060
	}
	return fmt.Sprintf("before: user %d, group %d, mode %v; now: user %d, group %d, mode %v",
		was.Uid, was.Gid, old.Mode().Perm(), is.Uid, group, mode), f.Chmod(mode)
}

// hasOneName reports whether a file has no other names.
func hasOneName(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 1
}

// cannotSync reports whether err says that this user or this file system has no way to
// sync. A reader ignores such an error.
func cannotSync(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)
}

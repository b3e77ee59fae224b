package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/store"
)

// explain turns an error of the system into one that says what to do, and that matches
// the sentinels of package store. It states no outcome: the callers know whether
// something was written.
func explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: the file system is read-only: %w", store.ErrDenied, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: give this user the right to read and write the directory, or choose another: %w", store.ErrDenied, err)
	case full(err):
		return fmt.Errorf("%w: the disk, or this user's share of it, is full: %w", store.ErrUnavailable, err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: too many open files; raise the limit (ulimit -n): %w", store.ErrUnavailable, err)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP), trust.Escapes(err):
		return fmt.Errorf("%w: something else lies where a directory of the store should be: %w", store.ErrCorrupt, err)
	case errors.Is(err, trust.ErrReplaced):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w: the disk reports a fault: %w", store.ErrUnavailable, err)
	}
	return err
}

// full reports whether an error says that there is no room.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// refused reports whether an error of a write says that nothing was written and
// nothing will be.
func refused(err error) bool {
	return full(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// notApplied marks an error that occurred before anything was written.
func notApplied(err error) error { return store.MarkNotApplied(explain(err)) }

// unknown marks an error that occurred when an entry may have been written.
func unknown(err error) error { return store.MarkUnknown(explain(err)) }

// notExist reports whether an error says that a file or its directory does not exist.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// errVanished says that the directory of the store no longer exists. A retry does not
// help, since an open store never switches to another directory. So the error matches
// [store.ErrMisconfigured] as well, and callers do not wait.
var errVanished error = &vanishedError{}

type vanishedError struct{}

func (*vanishedError) Error() string {
	return store.ErrUnavailable.Error() + ": the directory of the store was removed, moved or unmounted while in use; open it again"
}

func (*vanishedError) Is(target error) bool {
	return target == store.ErrUnavailable || target == store.ErrMisconfigured
}

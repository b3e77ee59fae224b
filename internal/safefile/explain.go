package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

// Explain adds to an error of the system what the user can do, and makes it match a sentinel of package
// store.
func Explain(err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrDenied):
		return err
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: the file system is read-only: %w", store.ErrDenied, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: the current user needs the right to read and write the directory: %w", store.ErrDenied, err)
	case Full(err):
		return fmt.Errorf("%w: the disk or the quota of the current user is full: %w", store.ErrUnavailable, err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: too many open files; raise the limit (ulimit -n): %w", store.ErrUnavailable, err)
	case errors.Is(err, ErrNotDirectory), errors.Is(err, syscall.ELOOP), Escapes(err):
		return fmt.Errorf("%w: a directory of the store is missing, because another kind of file has its name: %w", store.ErrCorrupt, err)
	case errors.Is(err, ErrReplaced):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("%w: the disk reports a fault: %w", store.ErrUnavailable, err)
	}
	return err
}

// Full reports whether an error says that the disk or the user's quota is full, or the file too large.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

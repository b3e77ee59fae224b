package filestore

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// explain is [safefile.Explain]. It states no outcome: the callers know whether something was
// written.
func explain(err error) error { return safefile.Explain(err) }

// refused reports whether an error of a write says that nothing was written and
// nothing will be.
func refused(err error) bool {
	return safefile.Full(err) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
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

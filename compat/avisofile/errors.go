package avisofile

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// These errors name the faults of a state file, in the order of the checks. A [*LoadError] matches
// one of them, and also [store.ErrCorrupt]. The package does not use such a file, and does not
// overwrite it.
var (
	// ErrMalformed: the file is not JSON, or does not have the layout of a state file.
	ErrMalformed = errors.New("malformed state file")

	// ErrFileVersion: the file's version is not 1.
	ErrFileVersion = errors.New("unsupported file version")

	// ErrKeyVersion: the version of the file's keys is not 1.
	ErrKeyVersion = errors.New("unsupported key format version")

	// ErrFileKey: a key of the file is not 64 hexadecimal digits.
	ErrFileKey = errors.New("invalid key in the state file")
)

// ErrReadable: Restore was refused because the state file can be read. Nothing was
// written.
var ErrReadable = store.MarkNotApplied(errors.New("the state file is not damaged, so there is nothing to restore"))

// LoadError says what is wrong with a state file. Nothing was written.
type LoadError struct {
	Path   string
	Err    error // one of ErrMalformed, ErrFileVersion, ErrKeyVersion, ErrFileKey
	Detail string

	// Backup describes the last good copy, FILE.good. If there is no such copy, Backup is zero.
	Backup BackupCopy
}

// BackupCopy is the last good copy of a state file.
type BackupCopy struct {
	Path    string
	Written time.Time // time of the last write of this content, by the clock of the machine
	Keys    int
}

func (e *LoadError) Error() string {
	text := fmt.Sprintf("%s: %v: %s; nothing was overwritten", e.Path, e.Err, e.Detail)
	switch {
	case errors.Is(e.Err, ErrFileVersion) || errors.Is(e.Err, ErrKeyVersion):
		return text + "; use a newer program"
	case e.Backup.Path == "":
		return text + ". There is no good copy; repair the file, or move it away to begin with an empty file"
	}
	return fmt.Sprintf("%s. There is a good copy from %s with %d keys, %s; to use the copy, run holdfast checkpoint restore",
		text, e.Backup.Written.Format(time.RFC3339), e.Backup.Keys, e.Backup.Path)
}

// Unwrap returns Err.
func (e *LoadError) Unwrap() error { return e.Err }

// Is makes every LoadError match [store.ErrCorrupt]. If the file has an unsupported
// version, the error also matches [checkpoint.ErrFormat].
func (e *LoadError) Is(target error) bool {
	switch target {
	case store.ErrCorrupt:
		return true
	case checkpoint.ErrFormat:
		return e.Err == ErrFileVersion || e.Err == ErrKeyVersion
	}
	return false
}

// Outcome returns NotApplied.
func (e *LoadError) Outcome() store.Outcome { return store.NotApplied }

// denied makes errors of missing rights, and of a read-only disk, match store.ErrDenied.
func denied(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return safefile.Explain(err)
	}
	return err
}

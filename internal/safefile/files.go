package safefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// openRegular opens a regular file below a directory for reading. It refuses everything else, a
// symbolic link too, which an [os.Root] follows within itself; and it waits for nothing. The error
// matches errIrregular, or [ErrReplaced] if the file was exchanged meanwhile.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	named, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	return openSameFile(name, named, dir.OpenFile)
}

// openSameFile is [openRegular] for a file that was looked at before.
func openSameFile(name string, named fs.FileInfo, open func(string, int, fs.FileMode) (*os.File, error)) (*os.File, fs.FileInfo, error) {
	if !named.Mode().IsRegular() { // a pipe or a device is not even opened
		return nil, nil, errIrregular
	}
	f, err := open(name, os.O_RDONLY|NoFollow, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, named) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrReplaced}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

var errIrregular = errors.New("is not a regular file")

// OpenFile opens a regular file below a directory for reading. The file may have any owner and mode. If
// the name is not a regular file, the error matches [store.ErrCorrupt].
func OpenFile(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, info, err := openRegular(dir, name)
	if errors.Is(err, errIrregular) {
		err = fmt.Errorf("%w: %s is not a file", store.ErrCorrupt, name)
	}
	return f, info, err
}

// Give sets the owner and group of a file or directory that this user has created, if they differ from
// the given ones. Then it sets the mode, whatever the umask is. An owner or group of -1 means no change.
func Give(f *os.File, owner, group int, mode fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if owner >= 0 && OwnerOf(info) != owner || group >= 0 && GroupOf(info) != group {
		// The group does not matter where the mode lets all users in.
		if err := f.Chown(owner, group); err != nil && mode&0o006 != 0o006 {
			return fmt.Errorf("the directory belongs to group %d, to which the current user cannot give files; set the setgid bit of the directory (chmod g+s): %w", group, err)
		}
	}
	return f.Chmod(mode)
}

// WritersOnly returns the mode without the right to read for users who may not write. A user who can open
// a file for reading can lock the file, and so block all other users.
func WritersOnly(mode fs.FileMode) fs.FileMode {
	writers := mode & 0o222
	return writers | writers<<1
}

// IsRandom reports whether a name has the form of a result of [rand.Text].
func IsRandom(name string) bool {
	return len(name) == len(rand.Text()) && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

package safefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// ExclusiveFile reports the risk of a database file. A library opens this file and others next to it by
// their names, and trusts their contents. It returns the name of the file without symbolic links. The
// parameter besides has the suffixes of the other files' names. None of the files needs to exist.
//
// The rule is stricter than the rule of [Directory]. The files, their directory, and the directories
// above it must belong to this user or to root. Other users may write neither to the files nor to their
// directory. So a directory that is shared with a group is a risk: its members could decide what the
// library opens, changes and removes as this user.
//
// Of the directories above, ExclusiveFile checks only the owner. If such a directory has no sticky bit, a
// user who may write to it can replace everything below it.
func ExclusiveFile(path string, besides, accepted []string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := SymbolicLink(path, accepted); err != nil {
			return "", err
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", err
		}
	}
	// Both ways: what the user wrote, whose links are to be of this user's or root's
	// making, and where it leads.
	if err := aloneWay(filepath.Dir(path), accepted); err != nil {
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	if err := aloneWay(dir, accepted); err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	for _, name := range append([]string{""}, besides...) {
		if err := aloneFile(path+name, accepted); err != nil {
			return "", err
		}
	}
	return path, nil
}

// aloneWay looks at a directory and at those above it.
func aloneWay(last string, accepted []string) error {
	for dir := last; ; {
		named, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		info := named
		if named.Mode()&fs.ModeSymlink != 0 {
			if info, err = os.Stat(dir); err == nil {
				err = ForeignLink(dir, named, accepted)
			}
			if err != nil {
				return err
			}
		}
		if err := alone(dir, info, dir != last, accepted); err != nil {
			return err
		}
		above := filepath.Dir(dir)
		if above == dir {
			return nil
		}
		dir = above
	}
}

func aloneFile(path string, accepted []string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a file (%v)", store.ErrUnsafe, path, info.Mode().Type())
	}
	return alone(path, info, false, accepted)
}

// alone reports that other users own something, or may write to it unless it is above.
func alone(path string, info fs.FileInfo, above bool, accepted []string) error {
	owner := OwnerOf(info)
	switch {
	case owner < 0:
	case owner != 0 && owner != os.Geteuid() && !slices.Contains(accepted, Owner):
		return fmt.Errorf("%w: %s belongs to user %d, who could make this program change or remove files of the current user. Run this program as user %[3]d, use another directory, or accept the risk (unsafe=%[4]s)",
			store.ErrUnsafe, path, owner, Owner)
	case info.Mode()&0o022 != 0 && !above && !slices.Contains(accepted, Writable):
		return fmt.Errorf("%w: other users may write to %s (%v), and so can make this program change or remove files of the current user. Remove their right (chmod go-w), use another directory, or accept the risk (unsafe=%s)",
			store.ErrUnsafe, path, info.Mode(), Writable)
	}
	return nil
}

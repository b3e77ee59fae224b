// Package trust finds out whether other users can change what a program keeps in a
// directory, and opens directories without following links to other places.
//
// # The rule
//
// A program trusts its own (effective) user and root. If a directory is writable for its
// group, and this user is in that group, the directory was made to be shared: its members
// are trusted with what is in it. Everything else is a risk:
//
//   - "link": the name is a symbolic link, whose owner decides where it leads.
//   - "owner": the directory belongs to another user, and is not shared with a group of
//     this one. That user could lead root to files that only root may change, and decides
//     what all others read: that a lock is held, that a job has run. A program that only
//     shows what is there may read it, if it may not write there and is not root.
//   - "writable": every user may write to the directory.
//
// A risk is refused unless the caller accepts it by its name. Where the system knows no
// owners (Windows), there is no risk of the last two kinds.
//
// The directories above are not checked: their owners can put another directory in the
// place of this one, which is then judged by its own owner and mode.
package trust

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-go/holdfast/store"
)

// The risks that a caller can accept.
const (
	Link     = "link"
	Owner    = "owner"
	Writable = "writable"
)

// CheckNames reports a name that is not the name of a risk.
func CheckNames(accepted []string) error {
	for _, name := range accepted {
		if !slices.Contains([]string{Link, Owner, Writable}, name) {
			return fmt.Errorf("unsafe: %.40q is unknown (known: %s, %s, %s)", name, Link, Owner, Writable)
		}
	}
	return nil
}

// Directory reports the risk of a directory that was opened, unless it is accepted. reading
// says that the program only shows what is there. Its errors match [store.ErrUnsafe].
func Directory(path string, info fs.FileInfo, reading bool, accepted []string) error {
	owner := OwnerOf(info)
	me := os.Geteuid()
	foreign := owner >= 0 && owner != 0 && owner != me
	switch {
	case owner < 0:
	case foreign && me == 0 && !slices.Contains(accepted, Owner):
		return fmt.Errorf("%w: %s belongs to user %d, who could lead root to other files; run this program as that user (sudo -u '#%d' ..., or in that user's crontab), or accept it (unsafe=%s)",
			store.ErrUnsafe, path, owner, owner, Owner)
	case foreign && me != 0 && !sharedWith(info) && !(reading && !canWrite(path)) && !slices.Contains(accepted, Owner):
		return fmt.Errorf("%w: %s belongs to user %d and is not shared with a group of this user's; use a directory of your own, share one with a group (chmod 2770), or accept it (unsafe=%s)",
			store.ErrUnsafe, path, owner, Owner)
	case info.Mode()&0o002 != 0 && !slices.Contains(accepted, Writable):
		return fmt.Errorf("%w: every user may write to %s (%v), and so take, free or damage what is in it; use a directory below it, share one with a group (chmod 2770), or accept it (unsafe=%s)",
			store.ErrUnsafe, path, info.Mode(), Writable)
	}
	return nil
}

// sharedWith reports whether a directory is writable for a group that this user is in.
func sharedWith(info fs.FileInfo) bool {
	if info.Mode()&0o020 == 0 {
		return false
	}
	group := GroupOf(info)
	if group == os.Getegid() {
		return true
	}
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, group)
}

// ForeignLink is [SymbolicLink] for links that are followed if this user or root has made
// them.
func ForeignLink(path string, info fs.FileInfo, accepted []string) error {
	if owner := OwnerOf(info); owner <= 0 || owner == os.Geteuid() {
		return nil
	}
	return SymbolicLink(path, accepted)
}

// SymbolicLink reports the risk of following a symbolic link, unless it is accepted.
func SymbolicLink(path string, accepted []string) error {
	if slices.Contains(accepted, Link) {
		return nil
	}
	target, _ := os.Readlink(path) // for people only
	return fmt.Errorf("%w: %s is a symbolic link (to %.200q); name the directory itself, or accept it (unsafe=%s)", store.ErrUnsafe, path, target, Link)
}

// OpenDir opens a directory and reports its risks, as [Directory] does. It returns the
// directory that it judged, even if its name leads elsewhere by then.
func OpenDir(path string, reading bool, accepted []string) (*os.Root, fs.FileInfo, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if named.Mode()&fs.ModeSymlink != 0 {
		if err := SymbolicLink(path, accepted); err != nil {
			return nil, nil, err
		}
		if named, err = os.Stat(path); err != nil {
			return nil, nil, err
		}
	}
	if !named.IsDir() {
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, nil, err
	}
	info, err := sameDir(dir, named)
	if err == nil {
		err = Directory(path, info, reading, accepted)
	}
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, info, nil
}

// OpenBelow opens a directory below another one. It refuses a symbolic link in its
// place.
func OpenBelow(parent *os.Root, name string) (*os.Root, fs.FileInfo, error) {
	named, err := parent.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !named.IsDir() {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := sameDir(dir, named)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, info, nil
}

// ErrReplaced says that another file got the name between two checks of it.
var ErrReplaced = errors.New("something else was put in its place while it was opened")

// Escapes reports whether an error is the refusal of an [os.Root] to follow a symbolic
// link that leads out of it. Package os has no other way to recognise it.
func Escapes(err error) bool {
	var refusal *fs.PathError
	return errors.As(err, &refusal) && refusal.Err.Error() == "path escapes from parent"
}

func sameDir(dir *os.Root, named fs.FileInfo) (fs.FileInfo, error) {
	info, err := dir.Stat(".")
	if err != nil || !os.SameFile(info, named) {
		return nil, cmp.Or[error](err, &fs.PathError{Op: "open", Path: named.Name(), Err: ErrReplaced})
	}
	return info, nil
}

// Private makes a directory that only this user can enter, and opens it. Other users
// cannot replace its contents. So a file that is made in it can safely get another owner:
// its name still leads to that file.
//
// The directory itself can be replaced by the owner of its parent. So it is judged after
// it was opened: it must belong to this user, admit no other user, and be empty.
func Private(parent *os.Root, name string) (*os.Root, error) {
	if err := parent.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	dir, err := OpenPrivate(parent, name)
	if err != nil {
		return nil, err
	}
	err = EachName(dir, ".", 0, func(string) {}) // fails if there is a name
	if errors.Is(err, ErrTooMany) {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrReplaced}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// OpenPrivate opens a directory that [Private] has made.
func OpenPrivate(parent *os.Root, name string) (*os.Root, error) {
	dir, info, err := OpenBelow(parent, name)
	if err != nil {
		return nil, err
	}
	if owner := OwnerOf(info); owner >= 0 && (owner != os.Geteuid() || info.Mode()&0o077 != 0) {
		dir.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrReplaced}
	}
	return dir, nil
}

// GiveDir makes a directory for others than this user. It makes it in a stage, a private
// directory, where give sets its owner, group and mode, and then renames it into place. A
// directory that has the name already, and is not empty, is left as it is; the error then
// matches [fs.ErrExist]. A directory that a killed process leaves has the name of the
// stage.
func GiveDir(parent *os.Root, stage, name string, give func(*os.File) error) error {
	private, err := Private(parent, stage)
	if err != nil {
		return err
	}
	defer func() { _ = parent.Remove(stage) }() // if it is empty, and swept otherwise
	defer private.Close()
	inner := rand.Text() // no other directory can have this name
	if err := private.Mkdir(inner, 0o700); err != nil {
		return err
	}
	f, err := private.Open(inner)
	if err == nil {
		err = give(f)
		f.Close()
	}
	if err == nil {
		err = parent.Rename(stage+"/"+inner, name)
	}
	if err != nil {
		_ = private.Remove(inner)
	}
	return err
}

// OpenFile opens a file below a directory for reading. It refuses everything that is not
// a regular file, a symbolic link too, which an [os.Root] follows within itself; and it
// waits for nothing.
func OpenFile(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	named, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !named.Mode().IsRegular() { // a device is not even opened
		return nil, nil, fmt.Errorf("%w: %s is not a file", store.ErrCorrupt, name)
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|noWait, 0)
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

// Give gives a file, or a directory, that this user has made another owner and group, where they
// differ from those that it has, and then a mode, whatever the umask. -1 leaves an owner or a
// group as it is.
func Give(f *os.File, owner, group int, mode fs.FileMode) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if owner >= 0 && OwnerOf(info) != owner || group >= 0 && GroupOf(info) != group {
		// The group does not matter where the mode lets all users in.
		if err := f.Chown(owner, group); err != nil && mode&0o006 != 0o006 {
			return fmt.Errorf("the directory belongs to group %d, to which this user cannot give files; set its setgid bit (chmod g+s): %w", group, err)
		}
	}
	return f.Chmod(mode)
}

// WritersOnly returns a mode without the right to read for those who may not write. A user who can
// open a file for reading can lock it, and keep all others from it.
func WritersOnly(mode fs.FileMode) fs.FileMode {
	writers := mode & 0o222
	return writers | writers<<1
}

// IsRandom reports whether a name has the form of a result of [rand.Text].
func IsRandom(name string) bool {
	return len(name) == len(rand.Text()) && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// ErrTooMany says that a directory has more names than are read.
var ErrTooMany = errors.New("too many names")

// EachName calls f with each name in a directory, in no order, but with no more than
// limit. If there are more, the error matches [ErrTooMany].
func EachName(dir *os.Root, name string, limit int, f func(string)) error {
	d, err := dir.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	for count := 0; ; {
		some, err := d.Readdirnames(1024)
		for _, n := range some {
			if count++; count > limit {
				return fmt.Errorf("%s: %w: more than %d", name, ErrTooMany, limit)
			}
			f(n)
		}
		if len(some) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

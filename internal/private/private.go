// Package private decides which files and directories only this user can have written and
// read. A program may trust only such files with what it keeps between its runs, and with
// the handles that it gets.
//
// A file is private if it is a regular file, not a symbolic link, belongs to the
// effective user, and gives no rights to its group or to others. A directory is private
// in the same way. The checks are made on the open file or directory, so that an exchange in
// between changes nothing. The directories above are not checked: a user who can write
// there can only put another private file or directory of the same user in the place.
//
// On Windows owners and rights are not checked.
package private

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/holdfast-go/holdfast/internal/trust"
)

// Error says that a file or a directory is not private, and why.
type Error struct {
	Path   string
	Reason string
	Rights bool // only its mode is wrong
}

func (e *Error) Error() string { return e.Path + " " + e.Reason }

// Dir is an open directory. It stays the same directory even if its path is exchanged.
// Names in it have no separators.
type Dir struct {
	root *os.Root
}

// OpenDir opens a directory, which need not be private.
func OpenDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// In returns the directory that a root is. Its Close closes the root.
func In(root *os.Root) *Dir { return &Dir{root} }

// OpenPrivateDir opens a directory that must be private. The error is an [*Error] if it
// is not.
func OpenPrivateDir(path string) (*Dir, error) {
	link, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !link.IsDir() {
		return nil, &Error{Path: path, Reason: "is not a directory"}
	}
	d, err := OpenDir(path)
	if err != nil {
		return nil, err
	}
	opened, err := d.root.Stat(".")
	if err == nil && !os.SameFile(link, opened) {
		err = &Error{Path: path, Reason: "was exchanged while it was opened"}
	}
	if err == nil {
		err = check(path, opened)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// MakePrivateDir is [OpenPrivateDir] for a directory that is made if it is not there,
// with mode 0700, as are those above it.
func MakePrivateDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		// For a link in the place, for example, this error says more.
		if _, lookErr := OpenPrivateDir(path); errors.As(lookErr, new(*Error)) {
			return nil, lookErr
		}
		return nil, err
	}
	return OpenPrivateDir(path)
}

// Close closes the directory. Files of it that are open stay so.
func (d *Dir) Close() { _ = d.root.Close() }

// Names returns the names in the directory, in no order.
func (d *Dir) Names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Open opens a private file for reading, and never waits for one that is a pipe. The
// error is an [*Error] if the file is not private. The time in info is that of its last
// change.
func (d *Dir) Open(name string) (_ *os.File, info fs.FileInfo, err error) {
	path := filepath.Join(d.root.Name(), name)
	link, err := d.root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !link.Mode().IsRegular() { // a pipe or a device is not even opened
		return nil, nil, &Error{Path: path, Reason: "is not a regular file"}
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if !os.SameFile(link, info) {
		return nil, nil, &Error{Path: path, Reason: "was exchanged while it was opened"}
	}
	return f, info, check(path, info)
}

// ReadFile reads a private file of at most limit bytes. The error is an [*Error] if the
// file is larger, or not private.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	f, info, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := []byte(nil)
	if info.Size() <= limit {
		b, err = io.ReadAll(io.LimitReader(f, limit+1)) // it may grow
	}
	if err == nil && max(info.Size(), int64(len(b))) > limit {
		err = &Error{Path: filepath.Join(d.root.Name(), name), Reason: fmt.Sprintf("is larger than %d bytes", limit)}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Sync makes the names in the directory survive a power cut, where the system can.
func (d *Dir) Sync() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// check looks at the owner and the rights of what was opened, where the system knows
// them.
func check(path string, info fs.FileInfo) error {
	owner, mode := trust.OwnerOf(info), info.Mode().Perm()
	switch {
	case owner < 0:
	case owner != os.Geteuid():
		return &Error{Path: path, Reason: fmt.Sprintf("belongs to user %d, not to user %d, who runs this", owner, os.Geteuid())}
	case mode&0o077 != 0:
		return &Error{Path: path, Reason: fmt.Sprintf("can be read or written by others (mode %04o)", mode), Rights: true}
	}
	return nil
}

// Remove removes a file.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// File is a private file under a temporary name, or without any.
type File struct {
	*os.File
	dir     *Dir
	name    string // empty: it was installed
	unnamed bool   // it has not got that name yet
}

// Create makes a private file under a temporary name, of the given beginning and 26
// random letters. Until [File.Install] gives it its own name, [File.Discard] removes it.
func (d *Dir) Create(prefix string) (*File, error) { return d.CreateMode(prefix, 0o600) }

// CreateMode is [Dir.Create] for a file of another mode, from which the system takes the
// bits of its umask.
func (d *Dir) CreateMode(prefix string, mode fs.FileMode) (*File, error) {
	name := prefix + rand.Text()
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|openFlags, mode)
	if err != nil {
		return nil, err
	}
	return &File{f, d, name, false}, nil
}

// CreateUnnamed is [Dir.CreateMode] for a file that has no name until it is installed,
// where the system and the file system have such files: a process that is killed before
// leaves nothing.
func (d *Dir) CreateUnnamed(prefix string, mode fs.FileMode) (*File, error) {
	f, err := createUnnamed(d.root, mode)
	if err != nil {
		return d.CreateMode(prefix, mode)
	}
	return &File{f, d, prefix + rand.Text(), true}, nil
}

// attach gives a file without a name its temporary one.
func (f *File) attach() error {
	if !f.unnamed {
		return nil
	}
	if err := linkUnnamed(f.File, f.dir.root, f.name); err != nil {
		return &fs.PathError{Op: "link", Path: filepath.Join(f.dir.root.Name(), f.name), Err: err}
	}
	f.unnamed = false
	return nil
}

// Install gives the file its name. It replaces a file or a link of that name, but not a
// directory. The file stays open.
func (f *File) Install(name string) error {
	if err := f.attach(); err != nil {
		return err
	}
	if err := f.dir.root.Rename(f.name, name); err != nil {
		return err
	}
	f.name = ""
	return nil
}

// InstallNew is [File.Install] for a new name: if the name exists, the error matches
// [fs.ErrExist].
func (f *File) InstallNew(name string) error {
	if err := f.attach(); err != nil {
		return err
	}
	root := f.dir.root
	switch err := root.Link(f.name, name); {
	case errors.Is(err, fs.ErrExist):
		return err
	case err != nil:
		// This file system has no hard links. Only a program that installs the name at
		// the same moment is not noticed.
		if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return &fs.PathError{Op: "rename", Path: name, Err: fs.ErrExist}
		}
		return f.Install(name)
	}
	_ = root.Remove(f.name) // a leftover does no harm
	f.name = ""
	return nil
}

// Discard closes the file, and removes it unless it was installed.
func (f *File) Discard() {
	_ = f.Close()
	if f.name != "" && !f.unnamed {
		_ = f.dir.root.Remove(f.name)
	}
	f.name = ""
}

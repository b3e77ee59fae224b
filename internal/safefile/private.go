package safefile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// PrivateError says that a file or a directory is not private, and why.
type PrivateError struct {
	Path   string
	Reason string
	Rights bool // the mode is the only problem
}

func (e *PrivateError) Error() string { return e.Path + " " + e.Reason }

// Dir is an open directory. It stays the same directory, even if another directory gets its path. Names
// in it must not contain path separators.
type Dir struct {
	root *os.Root
}

// OpenAnyDir opens a directory, which may be private or not.
func OpenAnyDir(path string) (*Dir, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &Dir{root}, nil
}

// DirIn returns the directory of an open [os.Root]. Its Close closes the root.
func DirIn(root *os.Root) *Dir { return &Dir{root} }

// OpenPrivateDir opens a directory that must be private. If it is not, the error is a [*PrivateError].
func OpenPrivateDir(path string) (*Dir, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !named.IsDir() {
		return nil, &PrivateError{Path: path, Reason: "is not a directory"}
	}
	root, info, err := openSame(path, named, os.OpenRoot)
	if errors.Is(err, ErrReplaced) {
		err = &PrivateError{Path: path, Reason: "was exchanged while it was opened"}
	}
	if err != nil {
		return nil, err
	}
	if err := notPrivate(path, info); err != nil {
		root.Close()
		return nil, err
	}
	return &Dir{root}, nil
}

// MakePrivateDir is like [OpenPrivateDir]. If the directory does not exist, it creates the directory and
// its missing parents with mode 0700.
func MakePrivateDir(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		// For a link in the place, for example, this error says more.
		if _, lookErr := OpenPrivateDir(path); errors.As(lookErr, new(*PrivateError)) {
			return nil, lookErr
		}
		return nil, err
	}
	return OpenPrivateDir(path)
}

// Close closes the directory. Its open files stay open.
func (d *Dir) Close() { _ = d.root.Close() }

// Names returns the names of the files in the directory, in no order.
func (d *Dir) Names() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Open opens a private file for reading. If the name is a pipe, Open does not wait for a writer. If the
// file is not private, the error is a [*PrivateError]. The time in info is the time of the last change of
// the file.
func (d *Dir) Open(name string) (*os.File, fs.FileInfo, error) {
	path := filepath.Join(d.root.Name(), name)
	f, info, err := openRegular(d.root, name)
	switch {
	case errors.Is(err, errIrregular):
		err = &PrivateError{Path: path, Reason: errIrregular.Error()}
	case errors.Is(err, ErrReplaced):
		err = &PrivateError{Path: path, Reason: "was exchanged while it was opened"}
	case err == nil:
		if err = notPrivate(path, info); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return f, info, nil
}

// ReadFile reads a private file of at most limit bytes. The error is a [*PrivateError] if the
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
		err = &PrivateError{Path: filepath.Join(d.root.Name(), name), Reason: fmt.Sprintf("is larger than %d bytes", limit)}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Sync makes the names in the directory survive a power cut, if the system can do so.
func (d *Dir) Sync() error { return SyncBelow(d.root, ".") }

// notPrivate looks at the owner and the rights of what was opened, where the system knows them. It
// returns a [*PrivateError], or nil.
func notPrivate(path string, info fs.FileInfo) error {
	owner, mode := OwnerOf(info), info.Mode().Perm()
	switch {
	case owner < 0:
	case owner != os.Geteuid():
		return &PrivateError{Path: path, Reason: fmt.Sprintf("belongs to user %d, not to user %d, who runs this", owner, os.Geteuid())}
	case mode&0o077 != 0:
		return &PrivateError{Path: path, Reason: fmt.Sprintf("can be read or written by other users (mode %04o)", mode), Rights: true}
	}
	return nil
}

// Remove removes a file.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// File is a new private file, which has a temporary name or no name.
type File struct {
	*os.File
	dir     *Dir
	name    string // empty: it was installed
	unnamed bool   // it has not got that name yet
}

// Create creates a private file. Its temporary name is the given prefix and 26 random letters.
// [File.Install] gives the file its final name. Before that, [File.Discard] removes it.
func (d *Dir) Create(prefix string) (*File, error) { return d.CreateMode(prefix, 0o600) }

// CreateMode is [Dir.Create] for a file with another mode. The system removes the bits of the umask from
// the mode.
func (d *Dir) CreateMode(prefix string, mode fs.FileMode) (*File, error) {
	name := prefix + rand.Text()
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|NoFollow, mode)
	if err != nil {
		return nil, err
	}
	return &File{f, d, name, false}, nil
}

// Replace gives a file new content, and the mode as [Dir.CreateMode] does. Readers see the old content or the new
// one. It syncs nothing. While Replace runs, a temporary file has a name that begins with prefix.
func (d *Dir) Replace(name, prefix string, mode fs.FileMode, content []byte) error {
	f, err := d.CreateMode(prefix, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Install(name)
}

// CreateUnnamed is [Dir.CreateMode] for a file that has no name before it is installed. Then a killed
// process leaves no file. If the system or the file system cannot do this, the file gets a temporary
// name.
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

// Discard closes the file. If the file was not installed, Discard removes it.
func (f *File) Discard() {
	_ = f.Close()
	if f.name != "" && !f.unnamed {
		_ = f.dir.root.Remove(f.name)
	}
	f.name = ""
}

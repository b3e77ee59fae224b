package safefile

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// OpenDir opens a directory, and reports its risks as [Directory] does. It judges the directory that it
// has opened, even if the name leads to another directory by then.
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
	dir, info, err := openSame(path, named, os.OpenRoot)
	if err != nil {
		return nil, nil, err
	}
	if err := Directory(path, info, reading, accepted); err != nil {
		dir.Close()
		return nil, nil, err
	}
	return dir, info, nil
}

// OpenBelow opens a directory below another directory. If the name is a symbolic link, it returns an
// error.
func OpenBelow(parent *os.Root, name string) (*os.Root, fs.FileInfo, error) {
	named, err := parent.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	return openSame(name, named, parent.OpenRoot)
}

// ErrReplaced says that a name got another file between two checks.
var ErrReplaced = errors.New("another program replaced the file while this program opened it")

// Escapes reports whether an error comes from an [os.Root] that refused to follow a symbolic link out of
// it. Package os has no other way to recognise it.
func Escapes(err error) bool {
	var refusal *fs.PathError
	return errors.As(err, &refusal) && refusal.Err.Error() == "path escapes from parent"
}

// openSame opens a directory that was looked at before. It returns the error [ErrReplaced] if another
// one has its name by now.
func openSame(name string, named fs.FileInfo, open func(string) (*os.Root, error)) (*os.Root, fs.FileInfo, error) {
	if !named.IsDir() {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotDirectory}
	}
	dir, err := open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := dir.Stat(".")
	if err != nil || !os.SameFile(info, named) {
		dir.Close()
		return nil, nil, cmp.Or[error](err, &fs.PathError{Op: "open", Path: name, Err: ErrReplaced})
	}
	return dir, info, nil
}

// MakePrivate creates a directory that only this user can enter, and opens it. Other users cannot replace
// its contents. So this user can safely give a file in this directory to another owner: the name still
// leads to that file.
//
// The owner of the parent directory can still replace the directory itself. So MakePrivate checks the
// directory after it has opened it. The directory must belong to this user, admit no other user, and be
// empty.
func MakePrivate(parent *os.Root, name string) (*os.Root, error) {
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

// OpenPrivate opens a directory that [MakePrivate] has created.
func OpenPrivate(parent *os.Root, name string) (*os.Root, error) {
	dir, info, err := OpenBelow(parent, name)
	if err != nil {
		return nil, err
	}
	if notPrivate(name, info) != nil {
		dir.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrReplaced}
	}
	return dir, nil
}

// GiveDir creates a directory for the use of others than this user. It creates the directory in a stage,
// which is a private directory. There the function give sets its owner, group and mode. Then GiveDir
// moves it to its final name. If the final name is a directory that is not empty, GiveDir leaves that
// directory unchanged, and the error matches [fs.ErrExist]. If the process is killed, a directory with
// the name of the stage can remain.
func GiveDir(parent *os.Root, stage, name string, give func(*os.File) error) error {
	private, err := MakePrivate(parent, stage)
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

// ErrTooMany says that a directory has more names than the limit.
var ErrTooMany = errors.New("too many names")

// EachName calls f with each name in a directory, in no order, for at most limit names. If there are more
// names, the error matches [ErrTooMany].
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

// MakeDirs creates a directory and its missing parent directories. After each directory that it creates,
// it calls sync with the parent directory, for example [SyncDir].
func MakeDirs(dir string, sync func(parent string) error) error {
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("the path is a file, but must be a directory")}
	}
	parent := filepath.Dir(dir)
	if !errors.Is(err, fs.ErrNotExist) || parent == dir {
		return err
	}
	if err := MakeDirs(parent, sync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return sync(parent)
}

// SyncDir flushes the names in a directory to the disk, so they survive a power cut. Windows has no such
// call, and NTFS keeps names in its journal.
func SyncDir(path string) error { return syncNames(path, os.OpenFile) }

// SyncBelow is [SyncDir] for a directory below another one.
func SyncBelow(dir *os.Root, name string) error { return syncNames(name, dir.OpenFile) }

func syncNames(name string, open func(string, int, fs.FileMode) (*os.File, error)) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := open(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package avisofile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// hold is the held lock of a state file: the lock files of every name on the way to it,
// first that of the given path. So programs that know the file by its own name and programs
// that know it by a link exclude each other.
type hold struct {
	path  filePath
	locks []*os.File
	warn  *warner
}

// lockFile is the open lock file of a name.
type lockFile struct {
	name string
	file *os.File // nil: none
}

// tryHold tries once to lock the state file that path leads to. have is a lock file that is
// locked already, if its file is not nil; tryHold uses it or releases it. The result is nil
// if another program has one of the locks, which is then returned, open and not locked; or
// if links or lock files changed meanwhile. If tryHold cannot get all locks it keeps none, so
// that no two programs wait for each other.
func tryHold(path string, network bool, unsafe []string, have lockFile) (_ *hold, busy lockFile, err error) {
	h := &hold{}
	kept := false
	defer func() {
		if !kept {
			h.release()
		}
		giveBack(have.file)
	}()
	p, err := resolve(path)
	if err != nil {
		return nil, busy, err
	}
	if err := p.check(network, unsafe); err != nil {
		return nil, busy, err
	}
	h.path = p
	for _, name := range p.names {
		if have.file != nil && have.name == name && isNamed(have.file, name+lockSuffix) {
			h.locks = append(h.locks, have.file)
			have.file = nil
			continue
		}
		f, err := openLock(name)
		if err != nil {
			return nil, busy, denied(err)
		}
		ok, err := lock(f, false)
		if err != nil {
			f.Close()
			return nil, busy, err
		}
		if !ok {
			return nil, lockFile{name, f}, nil
		}
		h.locks = append(h.locks, f)
	}
	// Now, under the lock: are these still the lock files, and does path still lead here?
	again, err := resolve(path)
	if err != nil {
		return nil, busy, err
	}
	if !h.valid() || !again.equal(p) {
		return nil, busy, nil
	}
	kept = true
	return h, busy, nil
}

// openLock opens the lock file of name, and creates it if it does not exist. It never
// truncates, writes or removes it. It refuses a link in its place, which could make this
// process create a file anywhere. A user who may only read the lock file can lock it too.
func openLock(name string) (*os.File, error) {
	path := name + lockSuffix
	for range 100 {
		f, err := os.OpenFile(path, os.O_RDWR|safefile.NoFollow, 0)
		if errors.Is(err, fs.ErrPermission) {
			if only, readErr := os.OpenFile(path, os.O_RDONLY|safefile.NoFollow, 0); readErr == nil {
				f, err = only, nil
			}
		}
		if err == nil {
			info, err := f.Stat()
			if err != nil || !info.Mode().IsRegular() {
				f.Close()
				return nil, errors.Join(fmt.Errorf("%w: %s is not a regular file", store.ErrUnsafe, path), err)
			}
			keepForWriters(f, info)
			return f, nil
		}
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return nil, fmt.Errorf("%w: the lock file %s is a symbolic link (to %.200q). Holdfast does not follow the link, but other programs may lock its target. Stop these programs, then replace the link by a plain file",
				store.ErrUnsafe, path, target)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|safefile.NoFollow, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Exactly the users who may write the state file must be able to lock it: a user
		// who can open the lock file, even for reading only, can stop all writers. If
		// keepOwner fails, users get a permission error.
		if info, err := os.Stat(name); err == nil {
			_, _ = keepOwner(f, lockLike{info, writersOf(path, info)})
		}
		return f, nil
	}
	return nil, fmt.Errorf("%w: another program repeatedly creates and removes %s", store.ErrUnsafe, path)
}

// lockLike is a state file with the mode of its lock file.
type lockLike struct {
	fs.FileInfo
	mode fs.FileMode
}

func (l lockLike) Mode() fs.FileMode { return l.mode }

// writersOf returns the mode that a lock file gets: that of a file, for those alone who may
// write to it, or who may replace it since their group shares its directory.
func writersOf(path string, file fs.FileInfo) fs.FileMode {
	mode := file.Mode().Perm()
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && dir.Mode()&0o020 != 0 && safefile.GroupOf(dir) == safefile.GroupOf(file) {
		mode |= 0o060
	}
	return safefile.WritersOnly(mode)
}

// keepForWriters takes the right to read a lock file from users who may not write to it, where
// another program has given it to them: that program opens it for writing, too. Only a file of
// this user's is changed, with one name, and root changes none in the directory of a user.
func keepForWriters(f *os.File, info fs.FileInfo) {
	mode := info.Mode().Perm()
	if mode == safefile.WritersOnly(mode) || safefile.OwnerOf(info) != os.Geteuid() || !hasOneName(info) {
		return
	}
	if dir, err := os.Stat(filepath.Dir(f.Name())); err != nil || os.Geteuid() == 0 && safefile.OwnerOf(dir) != 0 {
		return
	}
	_ = f.Chmod(writersOf(f.Name(), info)) // it can be locked as it is, too
}

// valid reports whether the locked files are still those that other programs would lock.
func (h *hold) valid() bool {
	if len(h.locks) != len(h.path.names) {
		return false
	}
	for i, f := range h.locks {
		if !isNamed(f, h.path.names[i]+lockSuffix) {
			return false
		}
	}
	return true
}

// isNamed reports whether path names the open file f.
func isNamed(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	now, err := os.Lstat(path)
	return err == nil && os.SameFile(mine, now)
}

// release releases the lock.
func (h *hold) release() {
	for _, f := range slices.Backward(h.locks) {
		giveBack(f)
	}
	h.locks = nil
}

package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The directories of a store. The last one is for what is made under another name
// first, and renamed into one of the others.
const (
	keysDir  = "k"
	aliveDir = "alive"
	tmpDir   = "tmp"
)

// staleAge is the age at which a temporary is nobody's any more. Whoever sleeps
// longer between making one and using it finds it gone, and starts again.
const staleAge = time.Hour

// modes are those of what the store makes.
type modes struct {
	dir, file fs.FileMode
	owner     int  // to whom it is given; -1: left as it is
	group     int  // likewise
	shared    bool // with the group
}

// modesOf tells the modes from the directory of the store: one that its group may
// write was made for the group. What root makes in the directory of another user
// belongs to that user, who could not read it otherwise.
func modesOf(root os.FileInfo) modes {
	m := modes{dir: 0o700, file: 0o600, owner: -1, group: -1}
	owner, group := ownerOf(root)
	if os.Geteuid() == 0 && owner != 0 {
		m.owner, m.group = owner, group
	}
	if mode := root.Mode(); mode&0o020 != 0 {
		m.shared, m.group = true, group
		m.dir, m.file = mode.Perm()|mode&fs.ModeSetgid, mode.Perm()&0o666
	}
	return m
}

// own reports whether what is made is right as it is.
func (m modes) own() bool { return m.owner < 0 && m.group < 0 && !m.shared }

// unfinished reports whether a directory was made by this user, who did not come to
// give it its owner, its group and its mode.
func (m modes) unfinished(info os.FileInfo) bool {
	owner, group := ownerOf(info)
	if m.own() || owner != os.Geteuid() {
		return false
	}
	return (m.owner >= 0 && owner != m.owner) || (m.group >= 0 && group != m.group) ||
		(m.shared && info.Mode()&(fs.ModePerm|fs.ModeSetgid) != m.dir)
}

// makeDirs makes a directory and its parents, durably.
func makeDirs(dir string, l limits) error {
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("it is a file; the store needs a directory of its own")}
	}
	if !gone(err) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := makeDirs(parent, l); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncOutside(parent, l)
}

// syncOutside makes the names in a directory durable that is not below the store's.
func syncOutside(dir string, l limits) error {
	if l.noDirSync {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

// syncNames makes the names in a directory below dir durable.
func (s *Store) syncNames(dir *os.Root, name string) error {
	if s.limits.noDirSync {
		return nil
	}
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return syncDir(f)
}

// syncTop makes the names durable that lead to the directory of keys: whoever made
// them may have been killed before.
func (s *Store) syncTop() error {
	s.mu.Lock()
	synced := s.topSynced
	s.mu.Unlock()
	if synced {
		return nil
	}
	if err := s.syncNames(s.root, "."); err != nil {
		return err
	}
	// A parent that we may not read was not made by us.
	if err := syncOutside(filepath.Dir(s.dir), s.limits); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	s.mu.Lock()
	s.topSynced = true
	s.mu.Unlock()
	return nil
}

// mkdir makes a directory of the store. That it exists is an error.
func (s *Store) mkdir(name string) error {
	if err := s.root.Mkdir(name, s.modes.dir.Perm()); err != nil || s.modes.own() {
		return err
	}
	return s.applyTo(name)
}

// applyTo gives a directory of the store its owner, its group and its mode.
func (s *Store) applyTo(name string) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.modes.apply(f, s.modes.dir)
}

// makeKeys makes the directory of keys, if it is not there.
func (s *Store) makeKeys() error {
	made, err := s.mkdirTop(keysDir)
	if made {
		s.mu.Lock()
		s.topSynced = false
		s.mu.Unlock()
	}
	return err
}

// mkdirTop makes one of the directories of the layout, if it is not there, and
// finishes one whose maker came to no end. What is no directory is refused: a symbolic
// link would lead somewhere else.
func (s *Store) mkdirTop(name string) (made bool, err error) {
	if err := s.mkdir(name); !errors.Is(err, fs.ErrExist) {
		return true, err
	}
	info, err := s.root.Lstat(name)
	if gone(err) {
		return false, nil // whoever needs it will see that
	}
	if err != nil {
		return false, err
	}
	if !info.IsDir() {
		return false, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	if !s.modes.unfinished(info) {
		return false, nil
	}
	return false, s.applyTo(name)
}

// apply gives what was just made its owner, its group, and its mode, whatever the
// umask.
func (m modes) apply(f *os.File, mode fs.FileMode) error {
	if m.owner >= 0 || m.group >= 0 {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		owner, group := ownerOf(info)
		differs := (m.owner >= 0 && owner != m.owner) || (m.group >= 0 && group != m.group)
		if differs {
			// It does not matter where the mode lets everybody in.
			if err := f.Chown(m.owner, m.group); err != nil && mode&0o006 != 0o006 {
				return fmt.Errorf("the directory belongs to group %d, to which this user cannot give files; set its setgid bit (chmod g+s): %w", m.group, err)
			}
		}
	}
	if !m.shared {
		return nil
	}
	return f.Chmod(mode)
}

// newFile makes a file below dir that did not exist, and opens it for reading and
// appending.
func (s *Store) newFile(dir *os.Root, name string) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, s.modes.file)
	if err != nil {
		return nil, err
	}
	if err := s.modes.apply(f, s.modes.file); err != nil {
		f.Close()
		_ = dir.Remove(name) // a leftover is swept
		return nil, err
	}
	return f, nil
}

// tmpName returns a new name for a temporary, and makes their directory.
func (s *Store) tmpName() (string, error) {
	if _, err := s.mkdirTop(tmpDir); err != nil {
		return "", err
	}
	s.sweepTmp()
	return tmpDir + "/" + random(), nil
}

// sweepTmp removes temporaries that were left behind, at most once an hour. It
// does what it can: whatever it cannot remove does no harm.
func (s *Store) sweepTmp() {
	now := time.Now()
	s.mu.Lock()
	due := s.swept.IsZero() || now.Sub(s.swept) >= staleAge
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	names, err := s.names(tmpDir)
	if err != nil {
		return
	}
	for _, name := range names {
		path := tmpDir + "/" + name
		info, err := s.root.Lstat(path)
		if err != nil || now.Sub(info.ModTime()) < staleAge {
			continue
		}
		// A directory gets another name first: its maker, should he wake up, must
		// not find it half empty.
		if info.IsDir() && !strings.HasSuffix(name, "-") {
			if s.root.Rename(path, path+"-") != nil {
				continue
			}
			path += "-"
		}
		_ = s.root.RemoveAll(path)
	}
}

// names lists a directory of the store.
func (s *Store) names(dir string) ([]string, error) { return namesIn(s.root, dir) }

func namesIn(root *os.Root, dir string) ([]string, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// lost reports that the directory of the store is not the one that was opened: it
// was removed, replaced, or its file system is mounted no more. What other
// processes see there, if anything, is another store; that a key is not found says
// nothing then.
func (s *Store) lost() error {
	info, err := os.Stat(s.dir)
	if err == nil && os.SameFile(info, s.info) {
		return nil
	}
	if err != nil && !gone(err) {
		return err
	}
	return errVanished
}

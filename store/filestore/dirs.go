package filestore

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
)

// The directories of a store. Files and directories are made in tmpDir under another
// name, and then renamed into one of the others.
const (
	keysDir  = "k"
	aliveDir = "alive"
	tmpDir   = "tmp"
)

// staleAge is the age at which a temporary counts as abandoned. A writer that sleeps
// longer between making one and using it finds that it was removed, and starts again.
const staleAge = time.Hour

// maxSweep is how many names of a directory one sweep looks at.
const maxSweep = 10_000

// modes are the modes and owners of the files and directories that the store makes.
type modes struct {
	top, dir, file fs.FileMode // of the layout's directories, of the logs' directories, of files
	lock           fs.FileMode // of files that are locked: only who may write can open them
	owner          int         // the user that gets them; -1: unchanged
	group          int         // the group that gets them; -1: unchanged
	shared         bool        // with the group, or with all users
}

// modesOf derives the modes from the directory of the store. A directory that its group
// may write was made for the group. What root makes in the directory of another user
// belongs to that user, who could not read it otherwise.
//
// The sticky bit keeps users from removing what belongs to others. The directories of the
// layout inherit it. Those of logs do not: any writer of a log makes its next segment and
// removes the old ones.
func modesOf(root os.FileInfo) modes {
	m := modes{top: 0o700, dir: 0o700, file: 0o600, lock: 0o600, owner: -1, group: -1}
	owner, group := safefile.OwnerOf(root), safefile.GroupOf(root)
	if os.Geteuid() == 0 && owner > 0 {
		m.owner, m.group = owner, group
	}
	if mode := root.Mode(); owner >= 0 && mode&0o022 != 0 {
		m.shared, m.group = true, group
		m.dir, m.file = mode.Perm()|mode&fs.ModeSetgid, mode.Perm()&0o666
		m.top = m.dir | mode&fs.ModeSticky
		m.lock = safefile.WritersOnly(m.file)
	}
	return m
}

// own reports whether new files and directories need no other owner, group or mode.
func (m modes) own() bool { return m.owner < 0 && m.group < 0 && !m.shared }

// syncOutside makes the names in a directory outside the store's durable.
func (l limits) syncOutside(dir string) error {
	if l.noDirSync {
		return nil
	}
	return safefile.SyncDir(dir)
}

// syncNames makes the names in a directory below dir durable.
func (s *Store) syncNames(dir *os.Root, name string) error {
	if s.limits.noDirSync {
		return nil
	}
	return safefile.SyncBelow(dir, name)
}

// syncTop makes the names durable that lead to the directory of keys: the process that
// made them may have been killed before it did.
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
	// A parent that this process may not read was not made by it.
	if err := s.limits.syncOutside(filepath.Dir(s.dir)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	s.mu.Lock()
	s.topSynced = true
	s.mu.Unlock()
	return nil
}

// makeKeys makes the directory of keys.
func (s *Store) makeKeys() error {
	if made, err := s.mkdirTop(keysDir); err != nil || !made {
		return err
	}
	return s.syncTop()
}

// mkdirTop makes one of the directories of the layout if it is missing. It refuses
// anything else under that name: a symbolic link would lead out of the store.
func (s *Store) mkdirTop(name string) (made bool, err error) {
	info, err := s.root.Lstat(name)
	switch {
	case err == nil && !info.IsDir():
		return false, &fs.PathError{Op: "open", Path: name, Err: safefile.ErrNotDirectory}
	case err == nil || !notExist(err):
		return false, err
	case s.modes.own():
		err = s.root.Mkdir(name, s.modes.top)
	default:
		err = s.giveTop(name)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil // another process was faster
	} else if err == nil {
		made = true
	}
	return made, err
}

// giveTop makes one of the directories of the layout with another owner, group or mode.
func (s *Store) giveTop(name string) error {
	return safefile.GiveDir(s.root, tmpPrefix+random(), name, func(f *os.File) error {
		return s.modes.apply(f, s.modes.top)
	})
}

// stage is a directory for this process alone, in which it makes files and directories
// that it then renames into the store.
//
// A change of owner, group or mode must not hit a file that another user put in the place
// of the new one: the owner of a directory can exchange its contents at any time. Only
// this user can enter a stage, so no other user can exchange its contents. What existed
// before never gets another owner, and what is left half made has no name in the store.
type stage struct {
	s    *Store
	name string // below the store
	dir  *os.Root
}

// makeTmp makes the directory of temporaries, and sweeps it.
func (s *Store) makeTmp() error {
	_, err := s.mkdirTop(tmpDir)
	if err == nil {
		s.sweepTmp()
	}
	return err
}

// tmpStage makes a stage among the temporaries.
func (s *Store) tmpStage() (*stage, error) {
	if err := s.makeTmp(); err != nil {
		return nil, err
	}
	return s.newStage(tmpDir + "/" + random())
}

func (s *Store) newStage(name string) (*stage, error) {
	dir, err := safefile.MakePrivate(s.root, name)
	if err != nil {
		return nil, err
	}
	return &stage{s, name, dir}, nil
}

// mkdir makes a directory in the stage, complete with its owner, group and mode. Its name
// cannot be guessed. So if another file takes the place of the stage, install does not
// find the name there.
func (st *stage) mkdir(mode fs.FileMode) (name string, err error) {
	name = random()
	if err := st.dir.Mkdir(name, 0o700); err != nil || st.s.modes.own() {
		return name, err
	}
	f, err := st.dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return name, st.s.modes.apply(f, mode)
}

// remove removes the stage and what is left in it. What it cannot remove, a later sweep
// removes.
func (st *stage) remove() {
	removeLeftovers(st.dir, 0)
	st.dir.Close()
	_ = st.s.root.Remove(st.name)
}

// apply gives a new file or directory its owner, its group, and its mode, whatever the
// umask.
func (m modes) apply(f *os.File, mode fs.FileMode) error {
	if m.own() {
		return nil
	}
	return safefile.Give(f, m.owner, m.group, mode)
}

// newFile makes a file below dir that did not exist, and opens it for reading and
// appending.
func (s *Store) newFile(dir *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	f, err := dir.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if err := s.modes.apply(f, mode); err != nil {
		f.Close()
		_ = dir.Remove(name) // a leftover is swept
		return nil, err
	}
	return f, nil
}

// sweepTmp removes temporaries that were left behind, at most once an hour. What it
// cannot remove does no harm.
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
	s.sweepStages(".", tmpPrefix)
	s.sweepStages(tmpDir, "")
	s.sweepWakes()
}

// sweepStages removes old stages, and files in the making, whose names have a prefix.
func (s *Store) sweepStages(parent, prefix string) {
	s.eachStale(parent, func(name string) bool {
		rest, ok := strings.CutPrefix(name, prefix)
		return ok && safefile.IsRandom(strings.TrimSuffix(rest, sweptSuffix))
	}, func(path string, info os.FileInfo) {
		if info.IsDir() {
			s.sweepStage(path)
		} else {
			removeLeftover(s.root, path)
		}
	})
}

// eachStale calls f with the wanted names in a directory that are old.
func (s *Store) eachStale(dir string, wanted func(name string) bool, f func(path string, info os.FileInfo)) {
	var names []string
	// Where there are too many, the next sweep has fewer to look at.
	_ = safefile.EachName(s.root, dir, maxSweep, func(name string) {
		if wanted(name) {
			names = append(names, name)
		}
	})
	for _, name := range names {
		path := dir + "/" + name
		if info, err := s.root.Lstat(path); err == nil && time.Since(info.ModTime()) >= staleAge {
			f(path, info)
		}
	}
}

func (s *Store) sweepStage(path string) {
	dir, info, err := safefile.OpenBelow(s.root, path)
	if err != nil {
		return
	}
	defer dir.Close()
	if time.Since(info.ModTime()) < staleAge || !onlyLeftovers(dir, 0) {
		return
	}
	removeLeftovers(dir, 0)
	_ = s.root.Remove(path)
}

// A stage holds one thing: a presence file, or the directory of a log with its first
// segment. A sweep removes these and nothing else: another user may have moved a
// directory of this user's into the swept directory.

// onlyLeftovers reports whether a directory, which is open, holds nothing but what makers
// of logs and presence files leave.
func onlyLeftovers(dir *os.Root, depth int) bool {
	return eachLeftover(dir, depth, func(name string, sub *os.Root) bool {
		if sub != nil {
			return onlyLeftovers(sub, depth+1)
		}
		return isLeftover(dir, name)
	})
}

// sweptSuffix ends the name of a directory in a stage that is being swept. Earlier versions gave it to the stage.
const sweptSuffix = "-"

// removeLeftovers removes what makers of logs and presence files leave, from a directory
// that is open. A log gets another name first: if its maker still runs, it must not put a
// log in place that is half empty. The maker may already have opened the stage.
func removeLeftovers(dir *os.Root, depth int) {
	eachLeftover(dir, depth, func(name string, sub *os.Root) bool {
		if sub == nil {
			removeLeftover(dir, name)
			return true
		}
		if !strings.HasSuffix(name, sweptSuffix) {
			if dir.Rename(name, name+sweptSuffix) != nil {
				return false
			}
			name += sweptSuffix
		}
		removeLeftovers(sub, depth+1)
		_ = dir.Remove(name) // only if it is empty
		return true
	})
}

// eachLeftover calls f with each name in a directory of a stage; sub is the directory of
// that name, open, if it is one. It reports false if the directory holds more than a
// stage does, or f does.
func eachLeftover(dir *os.Root, depth int, f func(name string, sub *os.Root) bool) bool {
	const most = 4
	var names []string
	if safefile.EachName(dir, ".", most, func(name string) { names = append(names, name) }) != nil {
		return false
	}
	for _, name := range names {
		var sub *os.Root
		if info, err := dir.Lstat(name); err == nil && info.IsDir() {
			if depth > 0 || !safefile.IsRandom(strings.TrimSuffix(name, sweptSuffix)) {
				return false
			}
			if sub, _, err = safefile.OpenBelow(dir, name); err != nil {
				return false
			}
		}
		ok := f(name, sub)
		if sub != nil {
			sub.Close()
		}
		if !ok {
			return false
		}
	}
	return true
}

// removeLeftover removes a file if it is what a maker of logs and presence files leaves.
func removeLeftover(dir *os.Root, name string) {
	if isLeftover(dir, name) {
		_ = dir.Remove(name)
	}
}

// isLeftover reports whether a file is empty, or the beginning of a segment or of a
// presence file. It judges the open file, not the name.
func isLeftover(dir *os.Root, name string) bool {
	base := path.Base(name)
	if rest, ok := strings.CutPrefix(base, tmpPrefix); !safefile.IsRandom(base) && segmentNumber(base) == 0 && !(ok && safefile.IsRandom(rest)) {
		return false
	}
	f, _, err := safefile.OpenFile(dir, name)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 8)
	n, err := f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return false
	}
	text := string(start[:n])
	return text == "" || begins(text, "\n"+string(kindKey)+" ") || begins(text, presenceStart)
}

// begins reports whether one of the two texts begins with the other.
func begins(text, with string) bool {
	return strings.HasPrefix(text, with) || strings.HasPrefix(with, text)
}

// lost returns an error if the directory of the store is no longer the one that was
// opened: it was removed or replaced, or its file system was unmounted. Other processes
// then see another store there, or none. So a key that is not found is not known to be
// absent.
func (s *Store) lost() error {
	info, err := os.Stat(s.dir)
	if err == nil && os.SameFile(info, s.info) {
		return nil
	}
	if err != nil && !notExist(err) {
		return err
	}
	return errVanished
}

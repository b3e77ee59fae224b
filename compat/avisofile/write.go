package avisofile

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// errMoved says that the lock file, or a link on the way to the state file, was replaced
// while the lock was held. If nothing was written, the store takes the lock again.
var errMoved = errors.New("another program replaced the lock file")

// temporary returns a random name in the directory of the state file, for a file that is
// being written. The state file's own name is part of it, so a sweep removes only files
// that its lock protects.
func (h *hold) temporary() string {
	dir, base := h.temporaries()
	return filepath.Join(dir, base+rand.Text()+temporarySuffix)
}

const temporarySuffix = ".tmp"

// temporaries returns the directory of temporary files, and the start of their names.
func (h *hold) temporaries() (dir, base string) {
	file := h.path.file()
	return filepath.Dir(file), "." + filepath.Base(file) + ".holdfast-"
}

// maxSweep is how many files one sweep removes. The next sweep removes the others.
const maxSweep = 10_000

// sweep removes the temporary files of killed writers. The holder of the lock is the only
// writer, so no file of such a name is in use.
func (h *hold) sweep() error {
	dir, base := h.temporaries()
	d, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	var names []string
	err = safefile.EachName(d, ".", math.MaxInt, func(name string) {
		random, ok := strings.CutPrefix(name, base)
		random, ok2 := strings.CutSuffix(random, temporarySuffix)
		if ok && ok2 && safefile.IsRandom(random) && len(names) < maxSweep {
			names = append(names, name)
		}
	})
	for _, name := range names {
		if err != nil {
			break
		}
		info, removeErr := d.Lstat(name)
		if removeErr == nil && info.Mode().IsRegular() {
			removeErr = d.Remove(name)
		}
		// If the directory has the sticky bit, only the owner of a file can remove it.
		if !errors.Is(removeErr, fs.ErrNotExist) && !errors.Is(removeErr, fs.ErrPermission) {
			err = removeErr
		}
	}
	return err
}

// create makes a file with this content, and syncs it, but not its name. like, if not
// nil, gives owner and mode.
func (h *hold) create(path string, content []byte, like os.FileInfo) (_ *snapshot, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|safefile.NoFollow, 0o600)
	if err != nil {
		return nil, err
	}
	m := &snapshot{file: f}
	defer func() {
		if err != nil || !keepOpen {
			m.close()
			m.file = nil
		}
		if err != nil {
			os.Remove(path) // a leftover is swept later
		}
	}()
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, err
	}
	if like != nil {
		changed, err := keepOwner(f, like)
		if err != nil {
			return nil, err
		}
		if changed != "" {
			h.warn.ownerChanged(h.path.file(), changed)
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	m.info, err = f.Stat()
	return m, err
}

// replace durably replaces the content of path, which is the state file or a file that
// belongs to it. It keeps owner and mode; a new file gets those of the state file, if there
// is one. before, if not nil, is called just before the complete new file takes its place.
// The errors state their outcome: not applied while the old content certainly stays,
// unknown from the rename on, since the new content is then visible but may not survive.
func (h *hold) replace(path string, content []byte, before func() error) (*snapshot, error) {
	like, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		like, err = os.Lstat(h.path.file())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, store.MarkNotApplied(denied(err))
	}
	temporary := h.temporary()
	m, err := h.create(temporary, content, like)
	if err != nil {
		return nil, store.MarkNotApplied(denied(err))
	}
	if before != nil {
		err = store.MarkNotApplied(denied(before()))
	}
	if err == nil {
		err = h.swap(temporary, path, m)
	}
	if err != nil {
		m.close()
		os.Remove(temporary) // if it still exists; a leftover is swept later
		return nil, err
	}
	return m, nil
}

// replaceFences replaces the fence file.
func (h *hold) replaceFences(f fences) (*snapshot, error) {
	content, err := f.encode()
	if err != nil {
		return nil, store.MarkNotApplied(err)
	}
	if len(content) > maxFenceFile {
		return nil, fmt.Errorf("%w: the new fence file would have %d bytes; at most %d are allowed", store.ErrTooLarge, len(content), maxFenceFile)
	}
	return h.replace(h.path.file()+fenceSuffix, content, nil)
}

// swap renames a complete file into place.
func (h *hold) swap(temporary, path string, m *snapshot) error {
	if !h.valid() {
		return store.MarkNotApplied(errMoved)
	}
	if err := rename(temporary, path); err != nil {
		// A failed rename may have happened; the temporary name shows whether it did.
		now, statErr := os.Lstat(temporary)
		if statErr == nil && os.SameFile(now, m.info) {
			return store.MarkNotApplied(denied(err))
		}
		return store.MarkUnknown(err)
	}
	if err := safefile.SyncDir(filepath.Dir(path)); err != nil {
		return store.MarkUnknown(fmt.Errorf("the new content of %s is written, but may not survive a power cut: %w", path, err))
	}
	if !h.valid() {
		return store.MarkUnknown(fmt.Errorf("%s: %w during the write", path, errMoved))
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(now, m.info) {
		return store.MarkUnknown(errors.Join(fmt.Errorf("another program replaced %s without taking its lock", path), err))
	}
	return nil
}

// writeBackup keeps the state file that is about to be replaced, and that was read without
// an error, as the last good copy. The copy is a second name of that file: until the
// state file is replaced, damage to one damages the other.
func (h *hold) writeBackup(v *view) error {
	if v.stateSnapshot.info == nil {
		return nil
	}
	good := h.path.file() + goodSuffix
	if info, err := os.Lstat(good); err == nil && os.SameFile(info, v.stateSnapshot.info) {
		return nil
	}
	return h.keepAs(good)
}

// keepAs gives the state file a second name. Some file systems have no links, and some systems forbid them: there a
// copy gets the name.
func (h *hold) keepAs(path string) error {
	temporary := h.temporary()
	defer os.Remove(temporary) // if the rename has not removed it
	if err := os.Link(h.path.file(), temporary); err != nil {
		old, content, readErr := readSnapshot(h.path.file(), maxStateFile)
		if readErr != nil || old.info == nil {
			return cmp.Or(readErr, err)
		}
		defer old.close()
		m, err := h.create(temporary, content, old.info)
		if err != nil {
			return err
		}
		m.close()
	}
	return rename(temporary, path)
}

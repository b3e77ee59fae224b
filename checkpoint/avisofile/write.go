package avisofile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/store"
)

// errMoved says that the lock file, or a link on the way to the state file, was
// replaced while the lock was held. Nothing was written: the lock is taken anew.
var errMoved = errors.New("the lock file was replaced")

// temporary returns a random name beside the state file for a file in the making.
// The state file's own name is part of it: so a sweep removes only what belongs to
// the lock that the sweeper holds.
func (h *hold) temporary() string {
	dir, base := h.temporaries()
	return filepath.Join(dir, base+rand.Text()+temporarySuffix)
}

const temporarySuffix = ".tmp"

// temporaries returns where temporary files lie, and how their names begin.
func (h *hold) temporaries() (dir, base string) {
	file := h.place.file()
	return filepath.Dir(file), "." + filepath.Base(file) + ".holdfast-"
}

// sweep removes what writers that were killed have left. Whoever holds the lock is
// the only writer, so nothing of this name is in use.
func (h *hold) sweep() error {
	dir, base := h.temporaries()
	d, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	var names []string
	err = trust.EachName(d, ".", math.MaxInt, func(name string) {
		random, ok := strings.CutPrefix(name, base)
		random, ok2 := strings.CutSuffix(random, temporarySuffix)
		if ok && ok2 && trust.IsRandom(random) {
			names = append(names, name)
		}
	})
	for _, name := range names {
		if err != nil {
			break
		}
		info, lost := d.Lstat(name)
		if lost == nil && info.Mode().IsRegular() {
			lost = d.Remove(name)
		}
		if !errors.Is(lost, fs.ErrNotExist) {
			err = lost
		}
	}
	return err
}

// create makes a file with this content, durable but for its name. like, if not nil,
// tells owner and mode.
func create(path string, content []byte, like os.FileInfo) (_ *image, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return nil, err
	}
	m := &image{file: f}
	defer func() {
		if err != nil || !keepOpen {
			m.close()
			m.file = nil
		}
		if err != nil {
			os.Remove(path) // what stays is swept later
		}
	}()
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, err
	}
	if like != nil {
		if err := keepOwner(f, like); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	m.info, err = f.Stat()
	return m, err
}

// replace puts content in the place of path, which is the state file or one beside
// it, durably. Owner and mode are kept; those of a new file are the state file's, if
// there is one. before, if not nil, is called when the new content is complete, just
// before it takes its place. The errors tell their outcome: not applied as long as the
// old content stands for certain, unknown from the rename on, since then the new one
// can be seen, but may not survive.
func (h *hold) replace(path string, content []byte, before func() error) (*image, error) {
	like, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		like, err = os.Lstat(h.place.file())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, store.MarkNotApplied(denied(err))
	}
	temporary := h.temporary()
	m, err := create(temporary, content, like)
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
		os.Remove(temporary) // if it is still there; what stays is swept later
		return nil, err
	}
	return m, nil
}

// swap renames a complete file into place.
func (h *hold) swap(temporary, path string, m *image) error {
	if !h.valid() {
		return store.MarkNotApplied(errMoved)
	}
	if err := rename(temporary, path); err != nil {
		// A rename happens or it does not; which of the two, the name tells.
		now, lost := os.Lstat(temporary)
		if lost == nil && os.SameFile(now, m.info) {
			return store.MarkNotApplied(denied(err))
		}
		return store.MarkUnknown(err)
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return store.MarkUnknown(fmt.Errorf("%s was replaced, but may not survive a power cut: %w", path, err))
	}
	if !h.valid() {
		return store.MarkUnknown(fmt.Errorf("%s: %w while it was written", path, errMoved))
	}
	if now, err := os.Lstat(path); err != nil || !os.SameFile(now, m.info) {
		return store.MarkUnknown(errors.Join(fmt.Errorf("%s was replaced by somebody who did not take its lock", path), err))
	}
	return nil
}

// keepGood keeps the state file that is about to be replaced, and was read without
// an error, as the last good copy. It is a second name of that file: until that is
// replaced, who damages the one damages the other.
func (h *hold) keepGood(v *view) error {
	if v.stateImage.info == nil {
		return nil
	}
	good := h.place.file() + goodSuffix
	if info, err := os.Lstat(good); err == nil && os.SameFile(info, v.stateImage.info) {
		return nil
	}
	if h.keepAs(good) == nil {
		return nil
	}
	// There are file systems without links, and systems that forbid some.
	temporary := h.temporary()
	defer os.Remove(temporary) // if the rename did not take it away
	like, err := os.Lstat(h.place.file())
	if err != nil {
		return err
	}
	m, err := create(temporary, encode(v.state), like)
	if err != nil {
		return err
	}
	m.close()
	return rename(temporary, good)
}

// keepAs gives the state file a second name.
func (h *hold) keepAs(path string) error {
	temporary := h.temporary()
	defer os.Remove(temporary) // if the rename did not take it away
	if err := os.Link(h.place.file(), temporary); err != nil {
		return err
	}
	return rename(temporary, path)
}

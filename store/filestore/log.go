package filestore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// log is one register, as far as this process has read it.
type log struct {
	key  string
	name string   // the name of its directory
	slot          // of the goroutine that reads or extends the log
	seg  *segment // the newest one known; nil: none; guarded by the slot

	known bool            // this process has seen the log; guarded by the slot
	first *incompleteScan // of a listing, which does not wait for this log alone; guarded by the slot

	pins  int           // guarded by the cache's mutex, like place
	place *list.Element // in the list of unused logs
}

// dir returns the directory of the log, below that of the store.
func (l *log) dir() string { return keysDir + "/" + l.name }

// drop closes the segment and forgets what was read. The log of a deleted register may be
// removed, see [Store.SweepDeleted]: where it is not found, no person did that.
func (l *log) drop() {
	if l.seg != nil {
		l.known = l.known && !l.seg.state.Deleted
		l.seg.release()
		l.seg = nil
	}
}

// adopt replaces the segment by a newer one.
func (l *log) adopt(seg *segment) {
	l.drop()
	l.seg, l.known, l.key = seg, true, seg.key
}

// version returns the version of the state; zero where the register is absent.
func (l *log) version() store.Version {
	if l.seg == nil || l.seg.state.Deleted {
		return ""
	}
	return versionOf(l.seg.state.Number, l.seg.state.Nonce)
}

// versionOf returns the version that an entry makes.
func versionOf(number uint64, nonce string) store.Version {
	return store.Version(strconv.FormatUint(number, 10) + "." + nonce)
}

// value returns the value, which belongs to the caller, and the version.
func (l *log) value() ([]byte, store.Version) {
	v := l.version()
	if v == "" {
		return nil, ""
	}
	return append([]byte{}, l.seg.state.Value...), v
}

// current reads the log to its end: GET. It leaves l.seg at the segment that can be
// appended to, or nil where the register was never created.
//
// A reader is content with a sealed last segment where this process cannot make the next
// one.
func (s *Store) current(ctx context.Context, l *log, reader bool) error {
	for try := 0; ; try++ {
		if err := store.CheckContext(ctx); err != nil {
			return err
		}
		if l.seg == nil {
			if err := s.findNewest(ctx, l); err != nil || l.seg == nil {
				return err
			}
		}
		err := l.seg.read()
		switch {
		case err != nil && l.seg.cut && !s.named(l.seg): // a person has removed it meanwhile
			l.drop()
		case err != nil:
			return err
		case l.seg.state.Sealed && !l.seg.unlinked: // otherwise later ones have been sealed, too
			err := s.next(l, false)
			var end *endError
			if reader && errors.As(err, &end) {
				return nil
			}
			if err != nil {
				return err
			}
		case l.seg.unlinked, time.Since(l.seg.checked) > nameTrust && (l.seg.denied != nil && try == 0 || !s.named(l.seg)):
			l.drop() // the segment may have lost its name, or be writable by now
		default:
			return nil
		}
	}
}

// change is the change that a caller asks for.
type change struct {
	key     string
	prev    store.Version
	value   []byte
	deleted bool
	durable bool
}

// write carries out a change: PUT. With an unknown outcome it returns the version that the
// change would have made.
func (s *Store) write(ctx context.Context, c change) (store.Version, error) {
	if err := s.beginWrite(); err != nil {
		return "", err
	}
	defer s.end()
	var v store.Version
	var sync position
	err := s.withLog(ctx, c.key, func(l *log) (err error) {
		v, sync, err = s.extend(ctx, l, c)
		return err
	})
	if sync.seg == nil || err != nil {
		return v, err
	}
	// Other writers may read and extend the log meanwhile. A durable write that follows
	// this one makes this one durable too.
	return v, s.makeDurable(ctx, sync)
}

// position is the offset up to which a segment must be made durable. A mark with a segment
// keeps that segment open.
type position struct {
	seg *segment
	off int64
}

// extend appends a change to the log. If the change still has to be made durable, extend
// returns a mark whose segment the caller releases.
func (s *Store) extend(ctx context.Context, l *log, c change) (store.Version, position, error) {
	var held *floor
	for {
		if err := s.current(ctx, l, false); err != nil {
			return "", position{}, notApplied(err)
		}
		if v := l.version(); v != c.prev {
			return "", position{}, conflict(l)
		}
		if held == nil && c.prev == "" {
			var err error
			if held, err = s.lockFloor(ctx, false); err != nil {
				return "", position{}, notApplied(err)
			}
			defer held.release()
			continue
		}
		if l.seg == nil {
			if v, err := s.create(l, c, held.at+1); v != "" || err != nil {
				return v, position{}, err
			}
			continue
		}
		if err := l.seg.writable(); err != nil {
			return "", position{}, notApplied(err)
		}
		e := l.seg.state.Next(random(), c.value, c.deleted)
		counts, err := l.seg.append(e, c.durable)
		if err != nil {
			return versionOf(e.Number, e.Nonce), position{}, err
		}
		if counts {
			sync, err := s.confirm(l, c)
			return versionOf(e.Number, e.Nonce), sync, err
		}
		// The entry is void for ever: another writer was faster, or the segment was
		// sealed before. The next round finds out which.
	}
}

// conflict returns a conflict with the state that the write found.
func conflict(l *log) error {
	value, v := l.value()
	return &store.ConflictError{Key: l.key, HasCurrent: true, Value: value, Version: v}
}

// confirm checks that the segment of an applied change is still the register's, and seals
// a segment that is full.
func (s *Store) confirm(l *log, c change) (position, error) {
	seg := l.seg
	if !s.named(l.seg) {
		if err := seg.read(); err != nil {
			return position{}, unknown(err)
		}
		if !seg.state.Sealed {
			l.drop()
			return position{}, unknown(fmt.Errorf("%w: the log of the key was removed or moved away during the write", store.ErrUnavailable))
		}
	}
	sync := position{seg, seg.off}
	seg.retain()
	if s.isFull(seg) {
		s.seal(l)
	}
	if !c.durable {
		seg.release()
		return position{}, nil
	}
	return sync, nil
}

// makeDurable makes an applied write durable, and releases the segment. An error of it has an unknown outcome.
func (s *Store) makeDurable(ctx context.Context, m position) error {
	defer m.seg.release()
	if err := s.counting(ctx, func() error { return s.syncPosition(m) }); err != nil {
		return unknown(fmt.Errorf("the write was applied, but may not be durable: %w", err))
	}
	return nil
}

// syncPosition makes a segment durable up to a mark, and the names that lead to it.
func (s *Store) syncPosition(m position) error {
	if err := m.seg.sync(m.off); err != nil {
		return err
	}
	if m.seg.pathSynced.Load() {
		return nil
	}
	// If the directory no longer exists, the sync did not fail: the log was removed after
	// the write.
	if err := s.syncNames(s.root, m.seg.dir); err != nil && !notExist(err) {
		return err
	}
	if err := s.syncPath(); err != nil {
		return err
	}
	m.seg.markPath()
	return nil
}

// syncPath makes the names durable that lead to the directories of logs.
func (s *Store) syncPath() error {
	if err := s.syncNames(s.root, keysDir); err != nil && !notExist(err) {
		return err
	}
	return s.syncTop()
}

// named reports whether the name of a segment still leads to the open file. It looks up
// the whole path, so that a directory which was moved away or mounted over counts as
// removed.
func (s *Store) named(seg *segment) bool {
	now := time.Now()
	info, err := os.Lstat(s.dir + string(os.PathSeparator) + seg.path())
	if err != nil || !os.SameFile(info, seg.info) {
		return false
	}
	seg.checked = now
	return true
}

// create makes a register that has no log, with the change as its first state, which gets
// this number. It renames the complete directory of the log into place. It returns no
// version and no error if another writer was faster. With an unknown outcome it returns the
// version that it would have made.
func (s *Store) create(l *log, c change, number uint64) (store.Version, error) {
	if err := s.lost(); err != nil {
		return "", notApplied(err)
	}
	if err := s.makeKeys(); err != nil {
		return "", notApplied(err)
	}
	st, err := s.tmpStage()
	if err != nil {
		return "", s.notStaged(err)
	}
	defer st.remove()
	base := fold.Entry{Kind: fold.Base, Number: number, Nonce: random(), Value: c.value}
	v := versionOf(base.Number, base.Nonce)
	dir, err := s.prepareDir(st, l, base)
	if err != nil {
		return "", s.notStaged(err)
	}
	if err := s.root.Rename(st.name+"/"+dir, l.dir()); err != nil {
		info, statErr := s.root.Lstat(l.dir())
		if err = notCreated(err, statErr == nil && info.IsDir()); err != nil {
			return v, err
		}
		// A network file system may have repeated a rename that it had applied.
		if _, err := s.openNewest(l); err != nil || l.seg == nil || l.seg.state.Base != base.Nonce {
			return "", nil
		}
	}
	if err := s.lost(); err != nil {
		return v, unknown(err)
	}
	if err := s.syncPath(); err != nil {
		return v, unknown(fmt.Errorf("the write was applied, but may not be durable: %w", err))
	}
	// This write was applied, even if the log cannot be read or has changed since.
	if _, err := s.openNewest(l); err == nil && l.seg != nil && l.seg.state.Base == base.Nonce {
		l.seg.markPath()
	}
	return v, nil
}

// notCreated returns the error for a new log that could not be renamed into place. exists
// says whether a directory has its name now. It is nil, which means a retry, where
// another writer was faster or a sweep removed the new log.
func notCreated(err error, exists bool) error {
	switch {
	case notExist(err), errors.Is(err, fs.ErrExist), refused(err) && exists:
		return nil
	case refused(err), errors.Is(err, safefile.ErrNotDirectory):
		return notApplied(err)
	}
	return unknown(err) // the directory there may be this writer's
}

// notStaged returns the error for a new log that could not be prepared. It is nil, which
// means a retry, where the directory of temporaries was exchanged meanwhile: two
// processes that make that directory at the same time can do so.
func (s *Store) notStaged(err error) error {
	if notExist(err) {
		err = s.lost()
	}
	return notApplied(err)
}

// prepareDir makes the directory of a new log in a stage.
func (s *Store) prepareDir(st *stage, l *log, base fold.Entry) (dir string, err error) {
	if dir, err = st.mkdir(s.modes.dir); err != nil {
		return "", err
	}
	seg, err := s.newSegment(st.dir, dir+"/"+segmentName(1), l, 1, base)
	if err != nil {
		return "", err
	}
	seg.release()
	return dir, s.syncNames(st.dir, dir)
}

package filestore

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
)

// Entries of a log that take no part in its fold.
const (
	// kindKey is the first entry of each segment. Its number is that of the format,
	// its value the key.
	kindKey fold.Kind = 'K'

	// kindPath says that the names which lead to this segment were made durable
	// before it was written.
	kindPath fold.Kind = 'D'
)

// format is the format that this package writes, and the highest that it reads.
const format = 1

// segment is one open file of a log.
type segment struct {
	key    string
	dir    string // of the log
	number uint64
	file   *os.File
	info   os.FileInfo // tells which file it is
	denied error       // why it cannot be written to

	refs       atomic.Int32
	syncedTo   atomic.Int64          // it is durable up to there
	pathSynced atomic.Bool           // the names that lead to it are
	failed     atomic.Pointer[error] // a sync failed

	// What was read so far; guarded by the slot of the log.
	state    fold.State
	off      int64 // of the first line that was not read
	entries  int
	header   bool // the first entry names the key
	newer    uint64
	unlinked bool // it has no name any more
	checked  time.Time
}

func (g *segment) retain() { g.refs.Add(1) }

func (g *segment) release() {
	if g.refs.Add(-1) == 0 {
		g.file.Close() // what matters was synced before
	}
}

// openSegment opens a segment by its name and reads it.
func (s *Store) openSegment(l *log, number uint64) (*segment, error) {
	g := &segment{key: l.key, dir: l.dir(), number: number, checked: time.Now()}
	path := l.path(number)
	var err error
	g.file, err = s.root.OpenFile(path, os.O_RDWR|os.O_APPEND|openFlags, 0)
	if err != nil && refused(err) {
		g.denied = err
		g.file, err = s.root.OpenFile(path, os.O_RDONLY|openFlags, 0)
	}
	if err != nil {
		return nil, err
	}
	g.refs.Store(1)
	if err := s.examine(g, path); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// examine reads a segment that was just opened.
func (s *Store) examine(g *segment, path string) (err error) {
	if g.info, err = g.file.Stat(); err != nil {
		return err
	}
	if !g.info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a file", store.ErrCorrupt, path)
	}
	if name, err := s.root.Lstat(path); err == nil && name.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%w: %s is a symbolic link", store.ErrCorrupt, path)
	}
	if err := g.read(); err != nil {
		return err
	}
	switch {
	case g.newer > 0:
		return fmt.Errorf("%w: %s has format %d; this program reads formats up to %d", store.ErrCorrupt, path, g.newer, format)
	case !g.header || !g.state.Set:
		return fmt.Errorf("%w: %s is not a log of this key", store.ErrCorrupt, path)
	}
	return nil
}

// newSegment makes the file of a segment under a temporary name, durably.
func (s *Store) newSegment(l *log, number uint64, path string, base fold.Entry) (*segment, error) {
	key, err := json.Marshal(l.key)
	if err != nil {
		return nil, err
	}
	file, err := s.newFile(path)
	if err != nil {
		return nil, err
	}
	g := &segment{key: l.key, dir: l.dir(), number: number, file: file, checked: time.Now()}
	g.refs.Store(1)
	err = func() error {
		text := fold.AppendLine(nil, fold.Entry{Kind: kindKey, Number: format, Nonce: "0", Value: key})
		text = fold.AppendLine(text, base)
		if n, err := writeOnce(file, text); err != nil || n < len(text) {
			return cmp.Or[error](err, io.ErrShortWrite)
		}
		if err := file.Sync(); err != nil {
			return err
		}
		return s.examine(g, path)
	}()
	if err != nil {
		g.release()
		return nil, err
	}
	g.syncedTo.Store(g.off)
	return g, nil
}

// writable reports why nothing can be appended to the segment.
func (g *segment) writable() error {
	if g.denied != nil {
		return g.denied
	}
	if err := g.failed.Load(); err != nil {
		return fmt.Errorf("%w: an earlier sync of this log failed, and what it lost is not known; mend the disk and open the store again: %w", store.ErrUnavailable, *err)
	}
	return nil
}

// read reads what was appended since the last time, and folds it.
func (g *segment) read() error { return g.readFor("", nil) }

// readFor is read; counts is set when the entry of that nonce is met, to whether it
// counts.
func (g *segment) readFor(nonce string, met func(counts bool)) error {
	size, unlinked, err := sizeOf(g.file)
	if err != nil {
		return err
	}
	g.unlinked = unlinked
	if size == g.off {
		return nil
	}
	if size < g.off {
		return fmt.Errorf("%w: the log became shorter", store.ErrCorrupt)
	}
	data := make([]byte, size-g.off)
	n, err := g.file.ReadAt(data, g.off)
	if err != nil && err != io.EOF {
		return err
	}
	value := g.state.Value
	g.off += int64(fold.Scan(data[:n], func(e fold.Entry) {
		counts := g.take(e)
		if e.Nonce == nonce {
			met(counts)
		}
	}))
	if len(g.state.Value) > 0 && (len(value) == 0 || &value[0] != &g.state.Value[0]) {
		g.state.Value = bytes.Clone(g.state.Value) // not to keep all of data
	}
	return nil
}

// take folds one entry, and reports whether it counts.
func (g *segment) take(e fold.Entry) bool {
	switch e.Kind {
	case kindKey:
		var key string
		if e.Number > format {
			g.newer = e.Number
		} else if json.Unmarshal(e.Value, &key) == nil && key == g.key && g.entries == 0 {
			g.header = true
		}
		return false
	case kindPath:
		g.pathSynced.Store(true)
		return false
	}
	g.entries++
	return g.header && g.state.Apply(e)
}

// append appends an entry, and reads the log up to it. It reports whether the entry
// counts. Its errors tell the outcome.
func (g *segment) append(e fold.Entry) (counts bool, err error) {
	text := fold.AppendLine(nil, e)
	n, err := writeOnce(g.file, text)
	if n == len(text)-1 {
		// Whoever writes next would complete the entry.
		var more int
		if more, err = writeOnce(g.file, []byte{'\n'}); more == 1 {
			n++
		}
	}
	switch {
	case n == len(text):
	case n == len(text)-1:
		return false, unknown(cmp.Or[error](err, io.ErrShortWrite))
	case n > 0:
		// What stands there is torn, and void for everybody.
		return false, notApplied(fmt.Errorf("only a part could be written, the disk may be full: %w", cmp.Or[error](err, io.ErrShortWrite)))
	case refused(err):
		return false, notApplied(err)
	default:
		return false, unknown(cmp.Or[error](err, io.ErrShortWrite))
	}
	found := false
	err = g.readFor(e.Nonce, func(c bool) { found, counts = true, c })
	if err != nil {
		return false, unknown(err)
	}
	if !found {
		return false, unknown(fmt.Errorf("%w: the file system lost an append", store.ErrUnsafe))
	}
	return counts, nil
}

// sync makes the segment durable up to off.
func (g *segment) sync(off int64) error {
	if g.syncedTo.Load() >= off {
		return nil
	}
	if err := g.failed.Load(); err != nil {
		return *err
	}
	if err := syncData(g.file); err != nil {
		// The system may have dropped what it could not write, and would call the
		// next sync a success.
		g.failed.Store(&err)
		return err
	}
	for {
		old := g.syncedTo.Load()
		if old >= off || g.syncedTo.CompareAndSwap(old, off) {
			return nil
		}
	}
}

// markPath notes that the names which lead to the segment are durable, for all who
// come later: it spares each of them some syncs. That it fails does no harm.
func (g *segment) markPath() {
	g.pathSynced.Store(true)
	if g.denied == nil {
		_, _ = writeOnce(g.file, fold.AppendLine(nil, fold.Entry{Kind: kindPath, Nonce: "0"}))
	}
}

// isFull reports whether a segment is to be sealed.
func (s *Store) isFull(g *segment) bool {
	return g.off > s.limits.sealBytes && g.entries >= s.limits.sealEntries && !g.state.Sealed
}

// seal ends the log's segment and goes on with the next: SEAL. Where that fails the
// next write tries again; a failed sync is kept in the segment.
func (s *Store) seal(l *log) {
	g := l.seg
	e := fold.Entry{Kind: fold.Seal, Number: g.state.Number, Nonce: random(), Prev: g.state.Nonce}
	if counts, err := g.append(e); err != nil || !counts {
		return
	}
	if g.sync(g.off) == nil {
		_ = s.next(l)
	}
}

// endError says that a log cannot go on after its sealed segment, which is its last.
type endError struct{ err error }

func (e *endError) Error() string { return "the log cannot be continued: " + e.err.Error() }
func (e *endError) Unwrap() error { return e.err }

// next goes on from a sealed segment: NEXT. It leaves l.seg nil where the log is to
// be read anew.
func (s *Store) next(l *log) error {
	after, err := s.openSegment(l, l.seg.number+1)
	if gone(err) {
		after, err = s.link(l)
	}
	if err != nil {
		return err
	}
	// The name may have been that of an older log, which somebody slow brought back;
	// it is the next one if ours is still there.
	if after == nil || !s.named(l) {
		if after != nil {
			after.release()
		}
		l.drop()
		return nil
	}
	l.adopt(after)
	return nil
}

// link makes the segment after a sealed one. It returns nil where the log is to be
// read anew.
func (s *Store) link(l *log) (*segment, error) {
	seg := l.seg
	tmp, err := s.makeNext(l)
	if err != nil {
		// Nobody made the next one when we looked, and ours is still there.
		if s.named(l) {
			return nil, &endError{err}
		}
		return nil, nil
	}
	if !s.named(l) {
		_ = s.root.Remove(tmp) // a leftover is swept
		return nil, nil
	}
	path := l.path(seg.number + 1)
	err = s.root.Link(tmp, path)
	linked := err == nil
	_ = s.root.Remove(tmp)
	if !s.named(l) {
		return nil, nil // what we linked is touched no more
	}
	if err != nil && !errors.Is(err, fs.ErrExist) && !gone(err) {
		return nil, &endError{err}
	}
	if err := s.syncNames(l.dir()); err != nil {
		return nil, err
	}
	if linked {
		s.prune(l, seg.number-1)
	}
	after, err := s.openSegment(l, seg.number+1)
	if gone(err) {
		return nil, nil
	}
	if err == nil && linked && seg.pathSynced.Load() {
		after.markPath()
	}
	return after, err
}

// makeNext makes the file of the next segment under a temporary name, and makes the
// sealed one durable: otherwise a power cut could leave a base without what it
// stands on.
func (s *Store) makeNext(l *log) (string, error) {
	tmp, err := s.tmpName()
	if err != nil {
		return "", err
	}
	g, err := s.newSegment(l, l.seg.number+1, tmp, l.seg.state.Rebase())
	if err == nil {
		g.release()
		err = l.seg.sync(l.seg.off)
	}
	if err != nil {
		_ = s.root.Remove(tmp) // a leftover is swept
		return "", err
	}
	return tmp, nil
}

// prune removes segments up to a number: it walks down while there are any and
// removes upwards, so that those which are left always reach to the newest without
// a gap.
func (s *Store) prune(l *log, number uint64) {
	low := number
	for low > 0 {
		if _, err := s.root.Lstat(l.path(low)); err != nil {
			break
		}
		low--
	}
	for n := low + 1; n <= number; n++ {
		if err := s.root.Remove(l.path(n)); err != nil && !gone(err) {
			return
		}
	}
}

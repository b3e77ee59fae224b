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
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/internal/safefile"
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

const (
	// maxSegment is the largest segment that is read, in bytes. A segment is sealed at 32
	// KiB. What concurrent writers append after the seal is void, and bounded by their
	// number.
	maxSegment = 256 << 20

	// maxLine is larger than the longest entry: a value of 64 KiB in base64, and 300
	// bytes. A longer line is void.
	maxLine = 128 << 10

	// readSize is how much of a segment is read at a time.
	readSize = 2 * maxLine

	// smallRead is the most for which a read takes no buffer of readSize.
	smallRead = 16 << 10
)

var buffers = sync.Pool{New: func() any { return new([readSize]byte) }}

// segment is one open file of a log.
type segment struct {
	dir    string // of the log
	key    string // in its first entry
	number uint64
	file   *os.File
	info   os.FileInfo // identifies the file
	denied error       // why it cannot be written to

	refs       atomic.Int32
	syncing    chan struct{}         // full while a goroutine syncs
	wanted     atomic.Int64          // the offset up to which a caller wants it durable
	syncedTo   atomic.Int64          // the offset up to which it is durable
	pathSynced atomic.Bool           // the names that lead to it are durable
	failed     atomic.Pointer[error] // a sync failed

	// What was read so far; guarded by the slot of the log.
	state    fold.State
	off      int64 // offset of the first line that was not read
	long     bool  // off is within a line that is too long
	entries  int
	header   bool // the first entry names the key
	newer    uint64
	unlinked bool // it has lost its last name
	cut      bool // it was once shorter than what was read, so what was read is not what is there
	checked  time.Time
}

// path returns the name of the segment, below the store's directory.
func (g *segment) path() string { return g.dir + "/" + segmentName(g.number) }

func (g *segment) retain() { g.refs.Add(1) }

func (g *segment) release() {
	if g.refs.Add(-1) == 0 {
		g.file.Close() // everything that matters was synced before
	}
}

// segmentOf returns a segment that is to be opened.
func segmentOf(l *log, number uint64) *segment {
	return &segment{dir: l.dir(), number: number, syncing: make(chan struct{}, 1), checked: time.Now()}
}

// openSegment opens a segment in the directory of its log, and reads it.
func openSegment(dir *os.Root, l *log, number uint64) (*segment, error) {
	g := segmentOf(l, number)
	name := segmentName(number)
	var err error
	g.file, err = dir.OpenFile(name, os.O_RDWR|os.O_APPEND|safefile.NoFollow, 0)
	if err != nil && refused(err) {
		g.denied = err
		g.file, err = dir.OpenFile(name, os.O_RDONLY|safefile.NoFollow, 0)
	}
	if err != nil {
		return nil, err
	}
	g.refs.Store(1)
	if err := g.examine(dir, name); err != nil {
		g.release()
		return nil, err
	}
	return g, nil
}

// examine reads a segment that was just opened.
func (g *segment) examine(dir *os.Root, name string) (err error) {
	if g.info, err = g.file.Stat(); err != nil {
		return err
	}
	if !g.info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a file", store.ErrCorrupt, g.path())
	}
	if link, err := dir.Lstat(name); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%w: %s is a symbolic link", store.ErrCorrupt, g.path())
	}
	if err := g.read(); err != nil {
		return err
	}
	switch {
	case g.newer > 0:
		return fmt.Errorf("%w: %s has format %d; this program reads formats up to %d", store.ErrCorrupt, g.path(), g.newer, format)
	case !g.header || !g.state.Set:
		return fmt.Errorf("%w: %s is not a log of this key", store.ErrCorrupt, g.path())
	}
	return nil
}

// newSegment makes the file of a segment, durably.
func (s *Store) newSegment(dir *os.Root, name string, l *log, number uint64, base fold.Entry) (*segment, error) {
	key, err := json.Marshal(l.key)
	if err != nil {
		return nil, err
	}
	file, err := s.newFile(dir, name, s.modes.file)
	if err != nil {
		return nil, err
	}
	g := segmentOf(l, number)
	g.file = file
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
		return g.examine(dir, name)
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
	return g.broken()
}

// broken returns an error if a sync failed. The system may have dropped what it could not
// write, and would report the next sync as a success. So the store syncs this segment no
// more.
func (g *segment) broken() error {
	if err := g.failed.Load(); err != nil {
		return fmt.Errorf("%w: an earlier sync of this log failed, and may have lost data; repair the disk and open the store again: %w", store.ErrUnavailable, *err)
	}
	return nil
}

// read reads what was appended since the last time, and folds it.
func (g *segment) read() error { return g.readFor("", nil) }

// readFor is read. When it reads the entry with that nonce, it calls found with whether the
// entry counts.
func (g *segment) readFor(nonce string, found func(counts bool)) error {
	size, unlinked, err := sizeOf(g.file)
	if err != nil {
		return err
	}
	g.unlinked = unlinked
	if g.cut = g.cut || size < g.off; g.cut {
		return fmt.Errorf("%w: the log became shorter, so another program cut the log; open the store again", store.ErrCorrupt)
	}
	if size == g.off {
		return nil
	}
	if size > maxSegment {
		return fmt.Errorf("%w: %s has %d bytes, and the store reads at most %d; a log continues in a new file at %d bytes, so another program has written to this file", store.ErrCorrupt, g.path(), size, maxSegment, sealBytes)
	}
	value := g.state.Value
	var data []byte
	if left := size - g.off; left <= smallRead {
		data = make([]byte, left)
	} else {
		buffer := buffers.Get().(*[readSize]byte)
		defer buffers.Put(buffer)
		data = buffer[:]
	}
	for g.off < size {
		n, err := g.file.ReadAt(data[:min(size-g.off, int64(len(data)))], g.off)
		if err != nil && err != io.EOF {
			var p *fs.PathError // has the name that the file had when it was made
			if errors.As(err, &p) {
				p.Path = g.path()
			}
			return err
		}
		used := g.scan(data[:n], func(e fold.Entry) {
			counts := g.apply(e)
			if e.Nonce == nonce {
				found(counts)
			}
		})
		if len(g.state.Value) > 0 && (len(value) == 0 || &value[0] != &g.state.Value[0]) {
			value = bytes.Clone(g.state.Value) // the next read overwrites data
			g.state.Value = value
		}
		g.off += int64(used)
		if used == 0 {
			break // the last line is not complete
		}
	}
	return nil
}

// scan is [fold.Scan] with a bound for lines: it skips a line that is too long, as far as
// data reaches.
func (g *segment) scan(data []byte, f func(fold.Entry)) (n int) {
	if g.long {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return len(data)
		}
		g.long, n = false, end+1
	}
	n += fold.Scan(data[n:], f)
	if len(data)-n > maxLine {
		g.long, n = true, len(data)
	}
	return n
}

// apply folds one entry, and reports whether it counts.
func (g *segment) apply(e fold.Entry) bool {
	switch e.Kind {
	case kindKey:
		var key string
		if e.Number > format {
			g.newer = e.Number
		} else if g.entries == 0 && json.Unmarshal(e.Value, &key) == nil && store.CheckKey(key) == nil && keysDir+"/"+encodeKey(key) == g.dir {
			g.key, g.header = key, true
		}
		return false
	case kindPath:
		g.pathSynced.Store(true)
		return false
	}
	g.entries++
	return g.header && len(e.Value) <= store.MaxValue && g.state.Apply(e)
}

// append appends an entry, and reads the log up to it. It reports whether the entry
// counts. Its errors state the outcome. If the caller then makes the entry durable, append begins
// to write it: the disk works while this process reads.
func (g *segment) append(e fold.Entry, durable bool) (counts bool, err error) {
	text := fold.AppendLine(nil, e)
	n, err := writeOnce(g.file, text)
	if n == len(text)-1 {
		// Only the line feed is missing, and the next writer's entry would complete this
		// one.
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
		// The part that was written is torn, and void for all readers.
		return false, notApplied(fmt.Errorf("%w: only a part of the entry could be written; the disk may be full: %w", store.ErrUnavailable, cmp.Or[error](err, io.ErrShortWrite)))
	case refused(err):
		return false, notApplied(err)
	default:
		return false, unknown(cmp.Or[error](err, io.ErrShortWrite))
	}
	if durable {
		if err := startSync(g.file, g.off); err != nil {
			g.fails(err)
		}
	}
	found := false
	err = g.readFor(e.Nonce, func(c bool) { found, counts = true, c })
	if err != nil {
		return false, unknown(err)
	}
	if !found {
		return false, unknown(fmt.Errorf("%w: the file system lost an append, so the file system is not safe for this store", store.ErrUnsafe))
	}
	return counts, nil
}

// sync makes the segment durable up to off. Only one goroutine syncs at a time: the
// system reports a failure once, and a second sync at the same time would be reported as
// a success although data is lost. A sync covers what the waiting callers want durable.
func (g *segment) sync(off int64) error {
	raise(&g.wanted, off)
	if g.syncedTo.Load() >= off {
		return nil
	}
	g.syncing <- struct{}{}
	defer func() { <-g.syncing }()
	if g.syncedTo.Load() >= off {
		return nil
	}
	if err := g.broken(); err != nil {
		return err
	}
	upTo := g.wanted.Load()
	if err := syncData(g.file); err != nil {
		return g.fails(err)
	}
	raise(&g.syncedTo, upTo)
	return nil
}

// fails notes that a sync failed.
func (g *segment) fails(err error) error {
	err = &fs.PathError{Op: "sync", Path: g.path(), Err: err}
	g.failed.Store(&err)
	return err
}

// raise makes n at least as large as a value.
func raise(n *atomic.Int64, to int64) {
	for old := n.Load(); old < to && !n.CompareAndSwap(old, to); old = n.Load() {
		continue
	}
}

// markPath notes in the log that the names which lead to the segment are durable. That
// spares later writers some syncs. A failure does no harm.
func (g *segment) markPath() {
	g.pathSynced.Store(true)
	if g.denied == nil {
		_, _ = writeOnce(g.file, fold.AppendLine(nil, fold.Entry{Kind: kindPath, Nonce: "0"}))
	}
}

// isFull reports whether a segment must be sealed.
func (s *Store) isFull(g *segment) bool {
	full := g.off > s.limits.sealBytes && (g.entries >= manyEntries || g.off > largeSeals*s.limits.sealBytes)
	return full && g.entries >= s.limits.sealEntries && !g.state.Sealed
}

package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/store"
)

// tmpPrefix starts the names of segments that are being made.
const tmpPrefix = "tmp-"

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

// openDir opens the directory of a log. What follows is done in that directory, so
// that it cannot hit another one which somebody puts in its place meanwhile.
func (s *Store) openDir(l *log) (*os.Root, error) {
	dir, _, err := trust.OpenBelow(s.root, l.dir())
	return dir, err
}

// next goes on from a sealed segment: NEXT. It leaves l.seg nil where the log is to
// be read anew.
func (s *Store) next(l *log) error {
	dir, err := s.openDir(l)
	if gone(err) {
		l.drop()
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	after, err := openSegment(dir, l, l.seg.number+1)
	if gone(err) {
		after, err = s.link(dir, l)
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
	if after.state.Base != l.seg.state.Nonce {
		after.release()
		return fmt.Errorf("%w: segment %d of %s does not start where the one before it ends", store.ErrCorrupt, l.seg.number+1, l.dir())
	}
	l.adopt(after)
	return nil
}

// link makes the segment after a sealed one. It returns nil where the log is to be
// read anew.
func (s *Store) link(dir *os.Root, l *log) (*segment, error) {
	seg := l.seg
	tmp, err := s.makeNext(dir, l)
	if err != nil {
		// Nobody had made the next one when we looked, and ours is still there.
		if s.named(l) {
			return nil, &endError{err}
		}
		return nil, nil
	}
	if info, err := dir.Lstat(segmentName(seg.number)); err != nil || !os.SameFile(info, seg.info) {
		_ = dir.Remove(tmp) // a leftover is swept
		if gone(err) {
			err = nil
		}
		return nil, err
	}
	err = dir.Link(tmp, segmentName(seg.number+1))
	linked := err == nil
	_ = dir.Remove(tmp)
	if !s.named(l) {
		return nil, nil // what we linked is touched no more
	}
	if err != nil && !errors.Is(err, fs.ErrExist) && !gone(err) {
		return nil, &endError{err}
	}
	if err := s.syncNames(dir, "."); err != nil {
		return nil, err
	}
	if linked {
		prune(dir, seg.number-1)
	}
	after, err := openSegment(dir, l, seg.number+1)
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
func (s *Store) makeNext(dir *os.Root, l *log) (string, error) {
	tmp := tmpPrefix + random()
	g, err := s.newSegment(dir, tmp, l, l.seg.number+1, l.seg.state.Rebase())
	if err == nil {
		g.release()
		err = l.seg.sync(l.seg.off)
	}
	if err != nil {
		_ = dir.Remove(tmp) // a leftover is swept
		return "", err
	}
	return tmp, nil
}

// prune removes segments up to a number: it walks down while there are any and
// removes upwards, so that those which are left always reach to the newest without
// a gap. One that cannot be removed keeps those after it: whoever stopped in it
// would make the next one again, and go on where nobody reads.
func prune(dir *os.Root, number uint64) {
	low := number
	for low > 0 {
		_, err := dir.Lstat(segmentName(low))
		if gone(err) {
			break
		}
		if err != nil {
			return
		}
		low--
	}
	for n := low + 1; n <= number; n++ {
		if err := dir.Remove(segmentName(n)); err != nil && !gone(err) {
			return
		}
	}
}

// sweep removes what nobody needs from the directory of a log: segments before the
// two newest, and temporaries that are nobody's any more. What it cannot remove
// does no harm, as long as it leaves no gap; see prune.
func sweep(dir *os.Root, names []string, high uint64) {
	slices.Sort(names) // so that the lowest go first
	stuck := false
	for _, name := range names {
		switch n := segmentNumber(name); {
		case n > 0 && n+1 < high && !stuck:
			err := dir.Remove(name)
			stuck = err != nil && !gone(err)
		case strings.HasPrefix(name, tmpPrefix):
			if info, err := dir.Lstat(name); err == nil && time.Since(info.ModTime()) > staleAge {
				removeLeftover(dir, name)
			}
		}
	}
}

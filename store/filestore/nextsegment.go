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
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// tmpPrefix starts the names of segments that are being made.
const tmpPrefix = "tmp-"

// seal ends the log's segment and continues with the next: SEAL. If that fails, the next
// write tries again; the segment remembers a failed sync.
func (s *Store) seal(l *log) {
	g := l.seg
	if mine, err := g.seal(); err == nil && g.sync(g.off) == nil {
		_ = s.next(l, mine)
	}
}

// seal ends the segment, unless it has ended, and reports whether the entry of this call did that.
// Nothing counts in the segment any more when the error is nil.
func (g *segment) seal() (mine bool, err error) {
	for !g.state.Sealed {
		e := fold.Entry{Kind: fold.Seal, Number: g.state.Number, Nonce: random(), Prev: g.state.Nonce}
		if mine, err = g.append(e, true); err != nil {
			return false, err
		}
	}
	return mine, nil
}

// endError says that the last segment of a log is sealed and the next one cannot be made.
type endError struct{ err error }

func (e *endError) Error() string {
	return "the store cannot continue the log in a new file: " + e.err.Error()
}
func (e *endError) Unwrap() error { return e.err }

// openDir opens the directory of a log. The caller works in that open directory, so it
// cannot hit another one that takes its place meanwhile.
func (s *Store) openDir(l *log) (dir *os.Root, err error) {
	for range 10 {
		// A sweep may have removed the log of a deleted register, and a writer may have
		// made it again.
		if dir, _, err = safefile.OpenBelow(s.root, l.dir()); !errors.Is(err, safefile.ErrReplaced) {
			break
		}
	}
	return dir, err
}

// sealerTime is how long a process waits for the next segment before it makes that itself: the
// process that sealed the one before makes it, unless it was killed. Otherwise all processes would
// make the file at the same time.
const sealerTime = 10 * time.Millisecond

// next moves from a sealed segment to the one after it: NEXT. It sets l.seg to nil if the
// log must be read again. sealer says that this call has sealed the segment.
func (s *Store) next(l *log, sealer bool) error {
	dir, err := s.openDir(l)
	if notExist(err) {
		l.drop()
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	after, err := openSegment(dir, l, l.seg.number+1)
	for pause := s.limits.sealer / 32; notExist(err) && !sealer && pause < s.limits.sealer; pause *= 2 {
		time.Sleep(pause)
		after, err = openSegment(dir, l, l.seg.number+1)
	}
	if notExist(err) {
		after, err = s.link(dir, l)
	}
	if err != nil {
		return err
	}
	// A slow process may have created that name again, with the segment of an older log.
	// It is the next segment if the sealed one still has its name.
	if after == nil || !s.named(l.seg) {
		if after != nil {
			after.release()
		}
		l.drop()
		return nil
	}
	if !after.state.Continues(&l.seg.state) {
		after.release()
		return fmt.Errorf("%w: segment %d of %s does not start where the segment before it ends", store.ErrCorrupt, l.seg.number+1, l.dir())
	}
	l.adopt(after)
	return nil
}

// link makes the segment after a sealed one. It returns nil if the log must be read again.
func (s *Store) link(dir *os.Root, l *log) (*segment, error) {
	seg := l.seg
	tmp, err := s.makeNext(dir, l)
	if err != nil {
		// There was no next segment, and the sealed one still has its name.
		if s.named(l.seg) {
			return nil, &endError{err}
		}
		return nil, nil
	}
	if info, err := dir.Lstat(segmentName(seg.number)); err != nil || !os.SameFile(info, seg.info) {
		_ = dir.Remove(tmp) // a leftover is swept
		if notExist(err) {
			err = nil
		}
		return nil, err
	}
	err = dir.Link(tmp, segmentName(seg.number+1))
	linked := err == nil
	_ = dir.Remove(tmp)
	if !s.named(l.seg) {
		return nil, nil // the linked file stays: it may be part of another log
	}
	if err != nil && !errors.Is(err, fs.ErrExist) && !notExist(err) {
		return nil, &endError{err}
	}
	if err := s.syncNames(dir, "."); err != nil {
		return nil, err
	}
	if linked {
		prune(dir, seg.number-1)
	}
	after, err := openSegment(dir, l, seg.number+1)
	if notExist(err) {
		return nil, nil
	}
	if err == nil && linked && seg.pathSynced.Load() {
		after.markPath()
	}
	return after, err
}

// makeNext makes the file of the next segment under a temporary name, and makes the
// sealed one durable: otherwise a power cut could leave a base without the segment that
// it continues.
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

// prune removes the segments up to a number. It finds the lowest one, then removes
// upwards, so that the remaining segments always reach the newest without a gap. If one
// cannot be removed, prune keeps those after it. A process that still has the old segment
// open would find no next one, make it again, and write where no other process reads.
func prune(dir *os.Root, number uint64) {
	low := number
	for low > 0 {
		_, err := dir.Lstat(segmentName(low))
		if notExist(err) {
			break
		}
		if err != nil {
			return
		}
		low--
	}
	for n := low + 1; n <= number; n++ {
		if err := dir.Remove(segmentName(n)); err != nil && !notExist(err) {
			return
		}
	}
}

// sweep removes what is no longer needed from the directory of a log: segments before the
// two newest, and abandoned temporaries. What it cannot remove does no harm, as long as
// the sweep leaves no gap; see prune.
func sweep(dir *os.Root, names []string, high uint64) {
	slices.Sort(names) // so that the lowest go first
	stuck := false
	for _, name := range names {
		switch n := segmentNumber(name); {
		case n > 0 && n+1 < high && !stuck:
			err := dir.Remove(name)
			stuck = err != nil && !notExist(err)
		case strings.HasPrefix(name, tmpPrefix):
			if info, err := dir.Lstat(name); err == nil && time.Since(info.ModTime()) > staleAge {
				removeLeftover(dir, name)
			}
		}
	}
}

package filestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxReadPause is the longest pause between two attempts to read a log that is being
	// changed.
	maxReadPause = 50 * time.Millisecond

	// incompleteTimeout is how long the segments of an unchanged directory may fail to form a
	// log before the log counts as corrupt.
	incompleteTimeout = 2 * time.Second

	// removalPause is how long the store waits before it calls a removed log absent. If
	// the directory of the store is removed as well, that is another error: the store is
	// lost.
	removalPause = 100 * time.Millisecond

	// maxSegments is how many names are read in the directory of a log. A log has two or
	// three segments, and more only where old ones cannot be removed.
	maxSegments = 10_000
)

// incompleteScan is the first sight of segments that are not a complete log.
type incompleteScan struct {
	at      time.Time
	numbers []uint64
}

// errIncomplete says that the segments in a listing are not a complete log. The store reads
// them again before the log counts as corrupt, also if there are none: a listing during a
// write may miss the new segment and the one that it replaces.
var errIncomplete = errors.New("the log is being changed")

// findNewest finds the newest segment of a log of which this process has no segment open:
// COLD. It leaves l.seg nil where the register was never created.
func (s *Store) findNewest(ctx context.Context, l *log) error {
	first := l.first
	if first == nil {
		first = &incompleteScan{}
	}
	for try := 0; ; try++ {
		numbers, err := s.openNewest(l)
		if notExist(err) && l.known {
			// No process removes a log, so a person does. A person who removes the whole
			// directory of the store removes what is inside first.
			l.known = false
			if err := s.rest(ctx, removalPause); err != nil {
				return err
			}
			continue
		}
		if notExist(err) {
			return s.lost()
		}
		if err != nil || l.seg != nil {
			return err
		}
		if err := s.lost(); err != nil {
			return err
		}
		if first.at.IsZero() || !slices.Equal(numbers, first.numbers) {
			first.numbers, first.at = numbers, time.Now()
		}
		if time.Since(first.at) > s.limits.incompleteTimeout {
			return fmt.Errorf("%w: the segments %v in %s are not a complete log", store.ErrCorrupt, numbers, l.dir())
		}
		if l.first != nil && try > 0 {
			return errIncomplete
		}
		if err := s.rest(ctx, min(time.Duration(try)*time.Millisecond, maxReadPause)); err != nil {
			return err
		}
	}
}

// pause waits for a while.
func pause(ctx context.Context, d time.Duration) error {
	_ = backoff.Sleep(ctx, d)
	return store.CheckContext(ctx)
}

// openNewest opens the newest segment of a log, if it is certainly the end of the log. It
// returns the numbers of the segments that it found.
func (s *Store) openNewest(l *log) ([]uint64, error) {
	dir, err := s.openDir(l)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var names []string
	var numbers []uint64
	err = safefile.EachName(dir, ".", maxSegments, func(name string) {
		n := segmentNumber(name)
		if n > 0 {
			numbers = append(numbers, n)
		}
		if n > 0 || strings.HasPrefix(name, tmpPrefix) {
			names = append(names, name)
		}
	})
	if errors.Is(err, safefile.ErrTooMany) {
		return nil, fmt.Errorf("%w: the log directory %s has more than %d files; a log has at most three", store.ErrCorrupt, l.dir(), maxSegments)
	}
	if err != nil {
		return nil, err
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	slices.Sort(numbers)
	high := numbers[len(numbers)-1]
	seg, err := openSegment(dir, l, high)
	if notExist(err) {
		return numbers, nil
	}
	if err != nil {
		return nil, err
	}
	good := s.named(seg) // the log's directory may have been moved away
	if good && high > 1 {
		good, err = follows(dir, l, seg)
	}
	if !good {
		seg.release()
		return numbers, err
	}
	l.adopt(seg)
	sweep(dir, names, high)
	return numbers, nil
}

// follows reports whether the segment before seg is there and ends where seg starts.
func follows(dir *os.Root, l *log, seg *segment) (bool, error) {
	prev, err := openSegment(dir, l, seg.number-1)
	if notExist(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer prev.release()
	return seg.state.Continues(&prev.state), nil
}

package filestore

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// coldPause is the longest pause between two looks at a log that is being
	// changed.
	coldPause = 50 * time.Millisecond

	// coldPatience is for how long a directory that does not change may make no
	// sense before it is called corrupt.
	coldPatience = 2 * time.Second
)

// cold finds the newest segment of a log that this process knows nothing of: COLD.
// It leaves l.seg nil where the register was never made.
func (s *Store) cold(ctx context.Context, l *log) error {
	var before []uint64
	since := time.Now()
	for try := 0; ; try++ {
		numbers, err := s.segments(l)
		if gone(err) {
			return s.lost()
		}
		if err != nil {
			return err
		}
		seg, err := s.newest(l, numbers)
		if err != nil {
			return err
		}
		if seg != nil {
			l.adopt(seg)
			s.sweep(l, numbers)
			return nil
		}
		if !slices.Equal(numbers, before) {
			before, since = numbers, time.Now()
		}
		if time.Since(since) > coldPatience {
			return fmt.Errorf("%w: the segments %v in %s are not a complete log", store.ErrCorrupt, numbers, l.dir())
		}
		select {
		case <-ctx.Done():
			return store.CheckContext(ctx)
		case <-time.After(min(time.Duration(try)*time.Millisecond, coldPause)):
		}
	}
}

// segments lists the segments of a log, in order.
func (s *Store) segments(l *log) ([]uint64, error) {
	info, err := s.root.Lstat(l.dir())
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s: %w", l.dir(), syscall.ENOTDIR)
	}
	names, err := s.names(l.dir())
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, name := range names {
		if n := segmentNumber(name); n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// newest opens the highest segment, if it is the end of the log for certain;
// otherwise it returns nil.
func (s *Store) newest(l *log, numbers []uint64) (*segment, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	high := numbers[len(numbers)-1]
	seg, err := s.openSegment(l, high)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var good bool
	if high == 1 {
		good = s.leads(l, seg)
	} else if good, err = s.follows(l, seg); err != nil {
		seg.release()
		return nil, err
	}
	if !good {
		seg.release()
		return nil, nil
	}
	return seg, nil
}

// follows reports whether the segment before seg is there and ends where seg starts.
func (s *Store) follows(l *log, seg *segment) (bool, error) {
	prev, err := s.openSegment(l, seg.number-1)
	if gone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer prev.release()
	return prev.state.Sealed && prev.state.Nonce == seg.state.Base, nil
}

// sweep removes what is left of segments that nobody needs.
func (s *Store) sweep(l *log, numbers []uint64) {
	for _, n := range numbers {
		if n+1 >= l.seg.number {
			return
		}
		_ = s.root.Remove(l.path(n)) // what it cannot remove does no harm
	}
}

package filestore

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// The log of a deleted register remains, so that the numbers of its versions continue. A
// sweep can remove it: the sweep first raises a floor above its number, and a new log
// starts above the floor.
//
// A writer that finds no value and a sweep exclude each other by a lock on the file of the
// floor; writers share it. All other writers name a state that a deleted register does not
// have, so they write nothing. The sweep seals the log. So a process that has it open reads
// the directory again, and does not answer from a log that was replaced.
const (
	floorFile = "floor"

	// floorLockTimeout is how long a process waits for the lock. A writer has it for the time of
	// a few syncs, a sweep for that of one sync and floorHold.
	floorLockTimeout = 10 * time.Second

	// floorHold is how long a sweep moves logs away under one lock. Then waiting writers
	// get the lock first, so their wait is short however many logs are removed.
	floorHold = 10 * time.Millisecond

	// maxMoved is how many logs a sweep moves away before it makes that durable and removes
	// them.
	maxMoved = 256
)

// floor is the file of the floor, locked.
type floor struct {
	file *os.File // nil: this store has no floor
	at   uint64
	free int64  // the place of the next line
	firm uint64 // what this sweep has made durable
}

func (f *floor) release() {
	if f.file != nil {
		f.file.Close()
	}
}

// hasFloor reports whether logs of deleted registers are ever removed: where the file system has
// locks, and the system can rename a directory that has open files, which Windows cannot.
func (s *Store) hasFloor() bool { return !s.network && runtime.GOOS != "windows" }

// lockFloor locks and reads the floor. Its caller is counted, and its wait is not; see counting.
//
// Writers share the lock, so without a rule a sweep could wait for ever while writers
// create keys without a pause. So a sweep that waits marks the file. A writer that reads
// the mark lets the sweep go first, for a tenth of floorLockTimeout at most. It then removes
// the mark: the sweep may have been killed, or is stopped, and a sweep that waits marks the
// file again. The mark is courtesy: only the lock excludes.
func (s *Store) lockFloor(ctx context.Context, exclusive bool) (*floor, error) {
	if !s.hasFloor() {
		return &floor{}, nil
	}
	f, err := s.openFloor()
	if err != nil {
		return nil, err
	}
	held := &floor{file: f}
	if err := s.awaitFloor(ctx, held, exclusive); err != nil {
		if exclusive {
			held.setMark(unmarked)
		}
		held.release()
		return nil, err
	}
	return held, nil
}

const marked, unmarked = "w", " "

// setMark writes the mark. Where it cannot be written, the sweep waits without it.
func (f *floor) setMark(mark string) { _, _ = f.file.WriteAt([]byte(mark), markPlace) }

func (s *Store) awaitFloor(ctx context.Context, f *floor, exclusive bool) error {
	yields := !exclusive
	for since, looks := time.Now(), time.Duration(1); ; {
		free, err := lockFile(f.file, exclusive)
		if err != nil {
			return err
		}
		if free {
			mark, err := f.read()
			if err != nil || mark != marked {
				return err
			}
			if exclusive {
				f.setMark(unmarked)
			}
			if !yields {
				return nil
			}
			if err := s.yieldFloor(ctx, f); err != nil {
				return err
			}
			yields, since, looks = false, time.Now(), 1
			continue
		}
		if exclusive {
			f.setMark(marked)
		}
		if waited := time.Since(since); waited > looks*s.courtesy() {
			looks++
			if err := s.floorLocked(f.file, exclusive, waited); err != nil {
				return err
			}
		}
		if err := s.rest(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// courtesy is how long a writer lets a sweep go first.
func (s *Store) courtesy() time.Duration { return s.limits.floor / 10 }

// yieldFloor gives the lock up until a sweep has taken the mark away.
func (s *Store) yieldFloor(ctx context.Context, f *floor) error {
	if err := unlockFile(f.file); err != nil {
		return err
	}
	for since := time.Now(); ; {
		if err := s.rest(ctx, time.Millisecond); err != nil {
			return err
		}
		if mark, err := f.read(); err != nil || mark != marked {
			return err
		}
		if time.Since(since) > s.courtesy() {
			f.setMark(unmarked)
			return nil
		}
	}
}

// floorLocked returns the error for a wait that is pointless, because a process with the lock is
// stopped, or that was too long.
//
// A writer cannot pass a stopped sweep. The next system call of that sweep may be the rename
// that moves a log away, and its check of the log was before: it would move the log that the
// writer creates. The lock ends with the sweep's process alone.
func (s *Store) floorLocked(f *os.File, exclusive bool, waited time.Duration) error {
	process, stopped := lockHolder(f)
	if !stopped && waited <= s.limits.floor {
		return nil
	}
	by := "a sweep"
	if exclusive {
		by = "a writer that creates a key"
	}
	switch {
	case stopped:
		by += ", " + process + ", which is stopped; continue or end this process"
	case process != "":
		by += ", " + process + "; find out whether this process is stopped or the disk is slow"
	default:
		by += "; look for a stopped process or a slow disk"
	}
	return fmt.Errorf("%w: %s/%s has been locked for %v by %s", store.ErrUnavailable, s.dir, floorFile, waited.Round(100*time.Millisecond), by)
}

// openFloor opens the file of the floor, and makes it if it does not exist: complete with its
// owner, group and mode, and never over another.
func (s *Store) openFloor() (*os.File, error) {
	for range 10 {
		f, err := s.root.OpenFile(floorFile, os.O_RDWR|safefile.NoFollow, 0)
		if err == nil {
			if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
				f.Close()
				return nil, errors.Join(fmt.Errorf("%w: %s is not a file", store.ErrCorrupt, floorFile), err)
			}
			return f, nil
		}
		if !notExist(err) {
			return nil, err
		}
		if err := s.makeFloor(); err != nil && !errors.Is(err, os.ErrExist) && (!notExist(err) || s.lost() != nil) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: another process repeatedly removes %s", store.ErrUnavailable, floorFile)
}

func (s *Store) makeFloor() error {
	st, err := s.tmpStage()
	if err != nil {
		return err
	}
	defer st.remove()
	name := random()
	f, err := s.newFile(st.dir, name, s.modes.lock)
	if err != nil {
		return err
	}
	f.Close()
	return s.root.Link(st.name+"/"+name, floorFile)
}

// The file of the floor has two lines of equal length. The higher one counts, and the other is
// written over. So a line that a power cut has torn, or that is being written, was not counted
// on by any removal. The mark of a sweep that waits follows them.
const (
	floorLine = "%020d %08x\n"
	floorSize = 30
	markPlace = 2 * floorSize

	// floorStep is how far the floor leaps, so that it is rarely raised.
	floorStep = 1 << 16
)

// read reads the floor, the place of the line that does not count, and the mark.
func (f *floor) read() (mark string, err error) {
	text := make([]byte, markPlace+1)
	n, err := f.file.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	f.at, f.free = 0, 0
	for i := 0; i < markPlace && i+floorSize <= n; i += floorSize {
		line := string(text[i : i+floorSize])
		var value uint64
		var sum uint32
		if _, err := fmt.Sscanf(line, floorLine, &value, &sum); err == nil && line == floorText(value) && value > f.at {
			f.at, f.free = value, int64(floorSize-i)
		}
	}
	return string(text[min(n, markPlace):n]), nil
}

func floorText(at uint64) string {
	return fmt.Sprintf(floorLine, at, crc32.ChecksumIEEE(strconv.AppendUint(nil, at, 10)))
}

// raise makes the floor at least n, durably. What was read may be a line that a sweep has written
// and, killed or refused, not made durable. So each sweep writes one: a sync after a failed one
// can succeed without it.
func (s *Store) raise(f *floor, n uint64) error {
	if n <= min(f.firm, f.at) {
		return nil
	}
	at := max(f.at, n|(floorStep-1))
	if _, err := f.file.WriteAt([]byte(floorText(at)), f.free); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return err
	}
	f.at, f.free = at, floorSize-f.free
	if err := s.syncNames(s.root, "."); err != nil {
		return err
	}
	f.firm = at
	return nil
}

// currentFloor reads the floor without its lock.
func (s *Store) currentFloor() (uint64, error) {
	file, err := s.root.OpenFile(floorFile, os.O_RDONLY|safefile.NoFollow, 0)
	if notExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	f := &floor{file: file}
	defer f.release()
	_, err = f.read()
	return f.at, err
}

// SweepDeleted removes the logs of registers that were deleted at least age ago and not written
// later. The times of these deletes are the time stamps of the files. It returns the number of
// removed logs. It may run while the store is in use: a Put that creates a key and a sweep take the
// same lock, so one waits for the other. If a process stops while it has this lock, the other
// processes fail with an error that matches [store.ErrUnavailable]. If the system shows which
// process has the lock, the error names that process.
//
// After a sweep, the store does not use an old version of a key again. If the outcome of a
// write is unknown, and SweepDeleted then removes its register, the outcome stays unknown; see
// [store.Resolve].
//
// On Windows, and on a file system without locks, the error matches [errors.ErrUnsupported].
func (s *Store) SweepDeleted(ctx context.Context, age time.Duration) (removed int, err error) {
	if !s.hasFloor() {
		return 0, fmt.Errorf("sweep deleted registers of %s: %w", s.name(), errors.ErrUnsupported)
	}
	var keys []string
	err = s.eachKey(ctx, "", func(key string, v store.Version, err error) error {
		if v != "" || err != nil {
			return nil // what cannot be read stays
		}
		old, err := bound(ctx, s, key, func() (old bool, err error) {
			err = s.withLog(ctx, key, func(l *log) (err error) {
				old, err = s.isOldDeleted(ctx, l, age)
				return err
			})
			return old, err
		})
		if old {
			keys = append(keys, key)
		}
		if err != nil || len(keys) < maxMoved {
			return err
		}
		n, err := s.removeDeleted(ctx, keys, age)
		removed, keys = removed+n, nil
		return err
	})
	if err == nil {
		n, sweepErr := s.removeDeleted(ctx, keys, age)
		removed, err = removed+n, sweepErr
	}
	if err != nil {
		return removed, fmt.Errorf("sweep deleted registers of %s: %w", s.name(), explain(err))
	}
	return removed, nil
}

// removeDeleted moves the logs of deleted registers to the temporaries, makes that durable, and
// removes them: in that order, or a power cut could leave half of a log. What a killed process
// leaves there is swept.
func (s *Store) removeDeleted(ctx context.Context, keys []string, age time.Duration) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	return counted(ctx, s, "", s.beginWrite, func() (int, error) { return s.removeAll(ctx, keys, age) })
}

func (s *Store) removeAll(ctx context.Context, keys []string, age time.Duration) (int, error) {
	if _, err := s.mkdirTop(tmpDir); err != nil {
		return 0, err
	}
	s.sweepTmp()
	var moved []string
	err := s.counting(ctx, func() (err error) {
		moved, err = s.moveAll(ctx, keys, age)
		return err
	})
	if len(moved) > 0 {
		if err := s.syncNames(s.root, keysDir); err != nil {
			return 0, err
		}
	}
	for _, path := range moved {
		if dir, _, err := safefile.OpenBelow(s.root, path); err == nil {
			removeLeftovers(dir, 1)
			dir.Close()
			_ = s.root.Remove(path)
		}
	}
	return len(moved), err
}

// moveAll moves the logs of deleted registers away, and returns their paths then.
func (s *Store) moveAll(ctx context.Context, keys []string, age time.Duration) (moved []string, err error) {
	for firm := uint64(0); len(keys) > 0; {
		floor, err := s.lockFloor(ctx, true)
		if err != nil {
			return moved, err
		}
		floor.firm = firm
		for since := time.Now(); len(keys) > 0 && time.Since(since) < floorHold; keys = keys[1:] {
			path, err := s.moveKey(ctx, keys[0], floor, age)
			if path != "" {
				moved = append(moved, path)
			}
			if err != nil {
				floor.release()
				return moved, err
			}
		}
		firm = floor.firm
		floor.release()
		if len(keys) > 0 {
			if err := s.rest(ctx, floorHold/2); err != nil { // the writers look for the lock every millisecond
				return moved, err
			}
		}
	}
	return moved, nil
}

// moveKey moves the log of one key away. The path is empty where this process uses the log: its
// user may be a writer that waits for the floor.
func (s *Store) moveKey(ctx context.Context, key string, floor *floor, age time.Duration) (path string, err error) {
	l := s.logs.pin(key)
	defer s.logs.unpin(l)
	select {
	case l.slot <- struct{}{}:
		defer l.unlock()
		return s.moveDeleted(ctx, l, floor, age)
	default:
		return "", nil
	}
}

// moveDeleted moves the log of a deleted register to the temporaries, and returns its path there.
// The path is empty where the log stays: it is in use again, too young, not this user's to
// move, or has more in its directory than a log.
func (s *Store) moveDeleted(ctx context.Context, l *log, floor *floor, age time.Duration) (path string, err error) {
	if old, err := s.isOldDeleted(ctx, l, age); !old {
		return "", err
	}
	dir, err := s.openDir(l)
	if err != nil {
		if notExist(err) {
			err = nil
		}
		return "", err
	}
	defer dir.Close()
	if !onlyLeftovers(dir, 1) {
		return "", nil
	}
	if err := s.raise(floor, l.seg.state.Number); err != nil {
		return "", err
	}
	if _, err := l.seg.seal(); err != nil || !l.seg.state.Deleted {
		return "", err
	}
	path = tmpDir + "/" + random()
	switch err := s.root.Rename(l.dir(), path); {
	case refused(err), notExist(err):
		return "", nil // it stays, and continues in the next segment; or a person has removed it
	case err != nil:
		return "", err
	}
	// A reader may have continued the sealed log before it was moved, but none can any more.
	for n := l.seg.number + 1; err == nil; n++ {
		var g *segment
		if g, err = openSegment(dir, l, n); err == nil {
			_, err = g.seal()
			g.release()
		}
	}
	l.drop()
	if notExist(err) {
		err = nil
	}
	return path, err
}

// isOldDeleted reads a log, and reports whether its register was deleted long ago. A log that
// cannot be written to, or that cannot be read, stays.
func (s *Store) isOldDeleted(ctx context.Context, l *log, age time.Duration) (bool, error) {
	if err := s.current(ctx, l, true); err != nil {
		if errors.Is(err, store.ErrCorrupt) {
			err = nil
		}
		return false, err
	}
	if l.seg == nil || !l.seg.state.Deleted || l.seg.writable() != nil || !s.named(l.seg) {
		return false, nil
	}
	info, err := l.seg.file.Stat()
	return err == nil && time.Since(info.ModTime()) >= age, err
}

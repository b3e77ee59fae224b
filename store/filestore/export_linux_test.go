package filestore

import (
	"context"
	"encoding/binary"
	"syscall"
	"time"
)

// WatchOnce waits for events of a directory.
func WatchOnce(dir string) (woken <-chan struct{}, stop func()) {
	w, err := process.add(dir, logEvents, "")
	if err != nil {
		panic(err)
	}
	return w.wake, w.stop
}

// Overflow does what is done when the system lost events.
func Overflow() {
	event := make([]byte, syscall.SizeofInotifyEvent)
	binary.NativeEndian.PutUint32(event, ^uint32(0))
	binary.NativeEndian.PutUint32(event[4:], syscall.IN_Q_OVERFLOW)
	process.lock()
	defer process.unlock()
	process.in.dispatch(event)
}

// Patient returns options with which other processes wait long for the process that seals.
func Patient() *Options { return &Options{limits: limits{sealer: time.Minute}} }

// SealSlowly seals the segment of a register. Before it makes the next one, it calls between.
func (s *Store) SealSlowly(ctx context.Context, key string, between func()) error {
	l := s.logs.pin(key)
	defer s.logs.unpin(l)
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if err := s.current(ctx, l, true); err != nil {
		return err
	}
	if _, err := l.seg.seal(); err != nil {
		return err
	}
	between()
	return s.next(l, true)
}

// SweepStage sweeps an old stage.
func (s *Store) SweepStage(path string) { s.sweepStage(path) }

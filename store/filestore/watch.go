package filestore

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// safetyPoll is how often a waiter checks although it gets events: the removal of a
	// directory that a process holds open makes no event.
	safetyPoll = time.Second

	// Where the system reports no changes, or none of other machines, a waiter polls, at
	// growing intervals between these bounds.
	minPoll = 25 * time.Millisecond
	maxPoll = 250 * time.Millisecond

	// A register that several processes change all the time is busy. While it is, its
	// waiters poll after random pauses: if each change woke all of them at once, that
	// would cost more than the changes. The pauses are random so that no waiter is always
	// later than another. If a wait took longer than busyTime, the register is not busy.
	busyTime  = 4 * time.Millisecond
	busyPause = 400 * time.Microsecond // on average
)

// recent remembers the names of what has happened within the last busyTime.
type recent struct {
	mu   sync.Mutex
	at   map[string]time.Time
	last time.Time // of all
}

// maxRecent is how many names are remembered. Beyond it all are forgotten, which costs a
// busy register a little time.
const maxRecent = 1000

func (r *recent) note(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || len(r.at) >= maxRecent {
		r.at = make(map[string]time.Time)
	}
	r.last = time.Now()
	r.at[name] = r.last
}

func (r *recent) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[name]
	return ok && time.Since(at) < busyTime
}

// any reports whether anything has happened.
func (r *recent) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.last) < busyTime
}

// notify gets reports of changes from the system; see the files named after it.
type notify struct {
	poll bool // the system reports none, or must not be asked
}

// waiter waits for changes of one file or directory.
type waiter struct {
	wake chan struct{} // receives a value after a change
	stop func()        // ends the waiting

	mayMiss func() bool // called after a check: the system may not report the next change
}

// Watch implements [store.Watcher]. On Linux it notices a local change within about a
// millisecond. On other systems, and if inotify has reached its limits, Watch polls every
// 25 to 250 ms. On Windows it also gets reports of the system, for at most 64 waiters of a
// process. Windows may report a write only when it becomes durable.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := s.waitChange(ctx, key, seen); err != nil {
		return s.opError("watch", key, err)
	}
	return nil
}

func (s *Store) waitChange(ctx context.Context, key string, seen store.Version) error {
	if err := store.CheckKey(key); err != nil {
		return err
	}
	name := encodeKey(key)
	began := time.Now()
	err := s.wait(ctx, s.busy.has(key), func() (waiter, bool) { return s.watch.log(s.dir, name) }, func(bool) (bool, error) {
		v, err := bound(ctx, s, "watch "+key, func() (store.Version, error) { return s.version(ctx, key, nil) })
		return v != seen, err
	})
	if err == nil && time.Since(began) < busyTime {
		s.busy.note(key)
	}
	return err
}

// wait calls done until that returns true or an error: at once, after each change that
// the system reports (woken is true then), and at intervals. It registers a waiter before
// each check, so that no change falls between them, and a new one each time, since the
// file that it watches may have been replaced. Where the register is busy, it registers
// the first waiter only after busyTime.
func (s *Store) wait(ctx context.Context, busy bool, watch func() (waiter, bool), done func(woken bool) (bool, error)) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	began := time.Now()
	poll, woken := minPoll, false
	var w waiter
	defer func() { w.end() }()
	for {
		last := w
		notified := false
		if busy = busy && time.Since(began) < busyTime; !busy {
			w, notified = watch()
			last.end()
		}
		if ok, err := done(woken); ok || err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
				return context.Cause(ctx)
			}
			return err
		}
		pause := safetyPoll
		switch {
		case busy:
			pause = rand.N(2 * busyPause)
		case !notified || w.mayMiss != nil && w.mayMiss():
			pause, poll = poll, min(poll*3/2, maxPoll)
		}
		woken = false
		timer := time.NewTimer(pause)
		select {
		case <-w.wake:
			woken = true
		case <-timer.C:
		case <-s.closing:
			timer.Stop()
			return store.ErrClosed
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

func (w waiter) end() {
	if w.stop != nil {
		w.stop()
	}
}

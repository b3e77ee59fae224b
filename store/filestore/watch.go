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
	// safetyLook is how often somebody who waits for the system to tell looks all
	// the same: a directory that is removed while somebody holds it open makes no
	// event.
	safetyLook = time.Second

	// Where the system does not tell, or not of what other machines do, looks come
	// further and further apart between these bounds.
	minPoll = 25 * time.Millisecond
	maxPoll = 250 * time.Millisecond

	// A register that several processes change all the time is busy: while it is, those
	// who wait look for themselves, after random pauses. To be woken by each change, all
	// at once, costs them more than the changes do. The pauses are random so that none of
	// the waiters is always later than another. A wait that was longer than busyTime was
	// not for a busy register.
	busyTime  = 4 * time.Millisecond
	busyPause = 400 * time.Microsecond // on average
)

// recent remembers what has happened within the last busyTime, by name.
type recent struct {
	mu   sync.Mutex
	at   map[string]time.Time
	last time.Time // of all
}

// maxRecent is how many names are remembered: to forget one costs a little time.
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

// notify is what the system tells a store of changes; see the files named after it.
type notify struct {
	poll bool // it does not tell, or is not to be asked
}

// waiter waits for changes of one file or directory.
type waiter struct {
	wake chan struct{} // gets something after a change
	stop func()        // ends the waiting

	untold func() bool // asked after a look: the next change may not be told
}

// Watch implements [store.Watcher]. On Linux a local change is told within about a
// millisecond; elsewhere, and where the limits of inotify are reached, the log is
// looked at every 25 to 250 ms.
func (s *Store) Watch(ctx context.Context, key string, seen store.Version) error {
	if err := s.waitChange(ctx, key, seen); err != nil {
		return &store.OpError{Op: "watch", Key: key, Err: err}
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
		v, err := s.version(ctx, key)
		return v != seen, err
	})
	if err == nil && time.Since(began) < busyTime {
		s.busy.note(key)
	}
	return err
}

// wait calls done until that returns true or an error: at once, when the system tells
// of a change (woken is true then), and now and then. The waiter is made before the
// look, so that no change falls between them, and anew for each look, since what it
// watches may have been replaced. Where it is busy, the system is asked only after
// busyTime.
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
		told := false
		if busy = busy && time.Since(began) < busyTime; !busy {
			w, told = watch()
			last.end()
		}
		if ok, err := done(woken); ok || err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
				return context.Cause(ctx)
			}
			return err
		}
		pause := safetyLook
		switch {
		case busy:
			pause = rand.N(2 * busyPause)
		case !told || w.untold != nil && w.untold():
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

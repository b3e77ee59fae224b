package filestore

import (
	"context"
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
	mu sync.Mutex
	at map[string]time.Time // the empty name: of all
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
	now := time.Now()
	r.at[name], r.at[""] = now, now
}

// has reports whether a name was noted; with an empty name, whether any was.
func (r *recent) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[name]
	return ok && time.Since(at) < busyTime
}

// notify gets reports of changes from the system; see the files named after it.
type notify struct {
	poll bool // the system reports none, or must not be asked
}

// waiter waits for changes of one file or directory.
type waiter struct {
	wake chan struct{} // receives a value after a change
	stop func()        // ends the waiting

	notified bool // the system reports changes

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
	last, at := seen, time.Now()
	look := func() (bool, error) {
		for {
			now, err := s.get(ctx, key, nil)
			if err != nil {
				return false, err
			}
			if now.Version != last {
				if time.Since(at) < busyTime {
					s.busy.note(key)
				}
				last, at = now.Version, time.Now()
			}
			busy := s.busy.has(key)
			if changed := last != seen && (!busy || store.Wanted(ctx, now.Value)); changed || !busy {
				return changed, nil
			}
			if err := pause(ctx, rand.N(2*busyPause)); err != nil {
				return false, err
			}
		}
	}
	return s.wait(ctx, "watch "+key, s.busy.has(key), func() (waiter, bool) { return s.watch.log(s.dir, name) }, func(bool) (bool, error) {
		return bound(ctx, s, "watch "+key, look)
	})
}

// wait calls done until that returns true or an error: at once, after each change that
// the system reports (woken is true then), and at intervals. It registers a waiter before
// each check, so that no change falls between them, and a new one each time, since the
// file that it watches may have been replaced. Where the register is busy, it registers none
// before the first check, which ends when the register is quiet.
func (s *Store) wait(ctx context.Context, what string, busy bool, watch func() (waiter, bool), done func(woken bool) (bool, error)) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	poll, woken := minPoll, false
	var w waiter
	defer func() { w.end() }()
	for ; ; busy = false {
		if !busy {
			next, err := bound(ctx, s, what, func() (next waiter, _ error) {
				if next, next.notified = watch(); ctx.Err() != nil { // this call may have been abandoned
					next.end()
					next = waiter{}
				}
				return next, nil
			})
			if err != nil {
				return err
			}
			w.end()
			w = next
		}
		if ok, err := done(woken); ok || err != nil {
			return err
		} else if busy {
			continue
		}
		pause := safetyPoll
		if !w.notified || w.mayMiss != nil && w.mayMiss() {
			pause, poll = poll, min(poll*3/2, maxPoll)
		}
		woken = false
		select {
		case <-w.wake:
			woken = true
		case <-time.After(pause):
		case <-s.closing:
			return store.ErrClosed
		case <-ctx.Done():
			return store.Cause(ctx)
		}
	}
}

func (w waiter) end() {
	if w.stop != nil {
		w.stop()
	}
}

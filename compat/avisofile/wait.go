package avisofile

import (
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// waitPoll is how often a waiter checks whether a call still needs the lock, and
	// whether its lock file is still the one that other programs lock.
	waitPoll = 25 * time.Millisecond

	// While too many threads wait for locks in the kernel, further waiters try again after
	// pauses. The pauses grow with the time already waited, between these bounds.
	minLockPause = 100 * time.Microsecond
	maxLockPause = 25 * time.Millisecond

	// maxWaits is how many threads of the process may wait for locks in the kernel.
	maxWaits = 64
)

// waits counts the threads that wait in the kernel. It bounds the threads of the process,
// also those of closed stores.
var waits = make(chan struct{}, maxWaits)

// wait is a wait for one lock file in the kernel, which serves the waiters of all programs.
// No system call ends such a wait. So the wait continues after its caller has left, and
// releases the lock as soon as it gets it. Until then a caller can resume it.
type wait struct {
	name string // whose lock file it is
	over chan struct{}

	mu   sync.Mutex
	file *os.File // the lock file, locked once over is closed; nil: it was released
	left bool
	err  error
}

// startWait waits for the lock of an open lock file. It returns nil if there are too many
// waits already.
func startWait(name string, file *os.File) *wait {
	select {
	case waits <- struct{}{}:
	default:
		return nil
	}
	w := &wait{name: name, file: file, over: make(chan struct{})}
	go func() {
		defer func() { <-waits }()
		_, err := lock(file, true)
		w.mu.Lock()
		w.err = err
		close(w.over)
		var back *os.File
		if w.left {
			back = w.take()
		}
		w.mu.Unlock()
		giveBack(back)
	}()
	return w
}

// take removes the file from the wait. The caller holds the mutex.
func (w *wait) take() *os.File {
	f := w.file
	w.file = nil
	return f
}

// leave records that the caller no longer needs the lock. It returns the lock file for
// [giveBack] if the wait is over.
func (w *wait) leave() *os.File {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	select {
	case <-w.over:
		return w.take()
	default:
		return nil
	}
}

// resume reports whether a wait without a caller still runs, and if so resumes it for a
// caller.
func (w *wait) resume() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.over:
		return false
	default:
		w.left = false
		return true
	}
}

// result returns the locked file of a wait that is over and was not left.
func (w *wait) result() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.take()
	if w.err != nil {
		f.Close()
		return nil, w.err
	}
	return f, nil
}

// giveBack releases a lock file. It may be nil.
func giveBack(f *os.File) {
	if f != nil {
		unlock(f)
		f.Close() // nothing was written to it
	}
}

// locker takes the lock of a state file for one goroutine at a time.
type locker struct {
	path    string // absolute
	network bool
	unsafe  []string
	warn    *warner

	wait *wait // the last wait in the kernel; nil: none that can be resumed
}

// acquire waits for the lock. It calls wanted regularly; if the lock is no longer wanted,
// the result is nil. end, if not nil, makes it call wanted at once.
func (l *locker) acquire(end <-chan struct{}, wanted func() bool) (*hold, error) {
	start := time.Now()
	if l.wait != nil && !l.wait.resume() { // it was left
		l.wait = nil
	}
	var have lockFile
	for {
		if l.wait == nil {
			h, busy, err := tryHold(l.path, l.network, l.unsafe, have)
			if h != nil {
				h.warn = l.warn
			}
			if h != nil || err != nil {
				return h, err
			}
			have = lockFile{}
			if busy.file != nil {
				if l.wait = startWait(busy.name, busy.file); l.wait == nil {
					busy.file.Close()
				}
			}
		}
		pause := waitPoll
		var over chan struct{}
		if l.wait == nil {
			limit := min(max(time.Since(start)/16, 2*minLockPause), maxLockPause)
			pause = minLockPause + rand.N(limit)
		} else {
			over = l.wait.over
		}
		select {
		case <-over:
			file, err := l.wait.result()
			have = lockFile{l.wait.name, file}
			l.wait = nil
			if err != nil {
				return nil, err
			}
			continue // use the lock after the wait, even if it is no longer wanted
		case <-end:
		case <-time.After(pause):
		}
		if !wanted() {
			return nil, nil
		}
		if l.wait != nil && !l.leadsTo(l.wait) {
			giveBack(l.leave())
			l.wait = nil
		}
	}
}

// leave records that no caller needs the lock. It returns the lock file for [giveBack] if
// it has been locked by now.
func (l *locker) leave() *os.File {
	if l.wait == nil {
		return nil
	}
	return l.wait.leave()
}

// leadsTo reports whether the path still leads to the lock file of the wait.
func (l *locker) leadsTo(w *wait) bool {
	p, err := resolve(l.path)
	// The wait was not left, so no other goroutine takes its file.
	return err == nil && slices.Contains(p.names, w.name) && isNamed(w.file, w.name+lockSuffix)
}

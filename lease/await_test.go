package lease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// The lock is taken in time, at whatever times the renewals of the session and the reads of a
// waiter come.
func TestWaiterOfADeadSessionIsNotLate(t *testing.T) {
	for phase := range 40 {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			mustTry(t, open(t, client(t, w, nil)), "job")
			dead := 5*time.Minute + time.Duration(phase)*250*time.Millisecond
			time.AfterFunc(dead, func() { w.set(everything(drop)) })
			began := time.Now()
			mustAcquire(t, client(t, st, nil), "job")
			late := time.Since(began) - dead - expiry
			if late > lease.DefaultMaxPoll+time.Second {
				t.Errorf("taken %v later than it had to be", late)
			}
		})
	}
}

// Where the store reports changes, waiters get changes of the lock's record, and not the renewals
// of the session that holds it. They read these together: a dead session is taken over when its TTL
// has passed after the last read, and thirty waiters for its locks send no more requests than one
// does.
func TestPushedWaitersShareReadsOfASession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const locks = 30
		holder := newWire(st)
		s := open(t, client(t, holder, nil))
		names := make([]string, locks)
		for i := range names {
			names[i] = "lock-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			mustTry(t, s, names[i])
		}
		w := newWire(st)
		c := client(t, w, nil)
		var all sync.WaitGroup
		var mu sync.Mutex
		var last time.Time // when the last lock was taken
		for _, name := range names {
			all.Go(func() {
				report(t, errOf(c.Acquire(t.Context(), name, nil)))
				mu.Lock()
				last = time.Now()
				mu.Unlock()
			})
		}
		time.Sleep(5 * time.Minute)
		w.requests()
		time.Sleep(time.Minute)
		// The session every 2.5 s; each lock every 10 s, since a watcher may miss a change.
		if n := w.requests(); n > 25+locks*7 {
			t.Errorf("%d requests in a minute", n)
		}
		holder.set(everything(drop))
		silent := time.Now()
		all.Wait()
		if took := last.Sub(silent); took > expiry+lease.DefaultMaxPoll+time.Second {
			t.Errorf("taken over after %v; want %v and a read at most", took, expiry)
		}
	})
}

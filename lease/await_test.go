package lease_test

import (
	"math"
	"sync"
	"sync/atomic"
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
			mustTryIn(t, open(t, client(t, w, nil)), "job")
			dead := 5*time.Minute + time.Duration(phase)*250*time.Millisecond
			time.AfterFunc(dead, func() { w.set(everything(drop)) })
			began := time.Now()
			if _, err := client(t, st, nil).Acquire(t.Context(), "job", nil); err != nil {
				t.Fatal(err)
			}
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
func TestWaitersLookAtTheSessionOfTheHolder(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const locks = 30
		holder := newWire(st)
		s := open(t, client(t, holder, nil))
		names := make([]string, locks)
		for i := range names {
			names[i] = "lock-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			mustTryIn(t, s, names[i])
		}
		w := newWire(st)
		c := client(t, w, nil)
		var all sync.WaitGroup
		var mu sync.Mutex
		var last time.Time // when the last lock was taken
		for _, name := range names {
			all.Go(func() {
				if _, err := c.Acquire(t.Context(), name, nil); err != nil {
					t.Error(err)
				}
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

// A fair queue of thirty, on a store that wakes all of them with each change: the lock goes
// round in order, and a hand-over costs the requests of those near the head.
func TestQueueThatAllAreWokenIn(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		const members, hold = 30, 50 * time.Millisecond
		w := newWire(st)
		grants := make([]atomic.Int32, members)
		end := time.Now().Add(20 * time.Second)
		var all sync.WaitGroup
		for i := range members {
			s := open(t, client(t, w, nil))
			h, err := s.Handle("job", &lease.LockOptions{Fair: true})
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for time.Now().Before(end) {
					g, err := h.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					grants[i].Add(1)
					time.Sleep(hold)
					mustRelease(t, g)
				}
			})
		}
		time.Sleep(10 * time.Second) // until all stand in the queue
		w.requests()
		count := func() (all, least, most int) {
			least = math.MaxInt
			for i := range grants {
				k := int(grants[i].Load())
				all, least, most = all+k, min(least, k), max(most, k)
			}
			return all, least, most
		}
		before, _, _ := count()
		time.Sleep(10 * time.Second)
		n := w.requests()
		after, least, most := count()
		handed := after - before
		all.Wait()
		if handed < int(10*time.Second/hold)*8/10 {
			t.Errorf("%d hand-overs in 10 s of one each %v", handed, hold)
		}
		// Without waiters that doze while their turn is far it is 50.
		if per := float64(n) / float64(max(handed, 1)); per > 15 {
			t.Errorf("%.1f requests for a hand-over among %d", per, members)
		}
		if most-least > 2 {
			t.Errorf("from %d to %d grants", least, most)
		}
	})
}

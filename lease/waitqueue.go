package lease

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// waitQueue is the goroutines of a client that wait for one lock, in the order in which they came,
// whatever their handles. The first has the turn: it reads the store, for all of them. So many
// waiters send the requests of one, and none of them overtakes another.
type waitQueue struct {
	waiters    []*waiter // guarded by the client's mutex
	batchPolls bool      // guarded by it, too: the queue uses batch polls
	lastRead   readTimes // guarded by it, too: the last read of a handle of the client

	unanswered cell.Unanswered // of the requests that were sent for all of them

	// held is what the last read showed that found the lock held.
	held atomic.Pointer[HeldError]

	// Only the waiter that has the turn uses the rest. The next one continues with it.
	last             *cell.Seen       // the state that was seen last
	notified         string           // the grant that a waiting event was sent for
	yieldRequestedOf string           // the grant that was requested, since its handle keeps it after its work
	notifiedBreak    string           // the nonce of the break of which the holder's session was notified
	polls            polls            // pauses while the lock is held
	until            time.Time        // end of the pause that was begun; zero: none was
	due              time.Time        // when the holder may be dead, by the read before the pause
	lag              time.Duration    // how much shorter the next pause is: the last batch poll began that long ago
	waits            bool             // the pause is for a held lock, and the end of the grant may end it
	errors           *cell.RetryPause // pauses while the store fails
	watched          store.Version    // the version that the last pause was for
	early            bool             // that pause ended before its time
	idle             time.Duration    // pause after one that ended early without a change
	place            int              // the place in the lock's queue, as last seen; negative: in none
	placed           time.Time        // since when it has that place; zero: not known
	step             time.Duration    // estimate of the time in which it moves forward by one place
	skips            time.Duration    // how long it does not read, since it is far from the head
}

// waiter is a goroutine in a wait queue.
type waiter struct {
	h    *Handle
	turn chan struct{} // closed when it is the first
	wake chan struct{} // its handle was granted the lock, or the lock was released
}

// enter puts a goroutine that waits through h at the end of the wait queue.
func (c *Client) enter(ctx context.Context, h *Handle) (*waitQueue, *waiter) {
	w := &waiter{h: h, turn: make(chan struct{}), wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.waitQueues[h.cell.Key]
	if l == nil {
		l = &waitQueue{errors: c.space.Backoff(c.space.Set.MinPoll, c.space.Set.MaxPoll)}
		c.waitQueues[h.cell.Key] = l
	}
	if l.waiters = append(l.waiters, w); len(l.waiters) == 1 {
		close(w.turn)
	}
	return l, w
}

// leave takes a goroutine out of the wait queue and gives the turn to the next.
func (c *Client) leave(l *waitQueue, w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, i, i+1)
	switch {
	case len(l.waiters) == 0:
		delete(c.waitQueues, w.h.cell.Key)
		c.batchPolls.counts(l, false)
	case i == 0:
		close(l.waiters[0].turn)
	}
}

// granted wakes the goroutines that wait through a handle that was granted the lock.
func (c *Client) granted(h *Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.waitQueues[h.cell.Key]; l != nil {
		for _, w := range l.waiters {
			if w.h == h {
				w.stir()
			}
		}
	}
}

// freed wakes the first waiter for the lock that h has released, if it waits through another
// handle.
func (c *Client) freed(h *Handle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.waitQueues[h.cell.Key]; l != nil && l.waiters[0].h != h {
		l.waiters[0].stir()
	}
}

// show wakes the goroutines whose entries in the queue have become holders, as h has seen.
func (c *Client) show(h *Handle, s *cell.Seen) {
	if s.Rec == nil || h.own != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.waitQueues[h.cell.Key]; l != nil {
		for _, w := range l.waiters {
			if w.h != h && w.h.shows(s) {
				w.stir()
			}
		}
	}
}

func (w *waiter) stir() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// owns reports whether a grant is one of this client's.
func (c *Client) owns(grant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owned[grant] > 0 || c.sessions[lockrec.SessionOf(grant)] != nil
}

// pause sleeps until a time, or until w is woken, or ctx ends.
func (w *waiter) pause(ctx context.Context, d time.Duration) {
	_ = backoff.SleepOrWake(ctx, d, w.wake)
}

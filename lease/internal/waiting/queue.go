// Package waiting is about the goroutines of a client that want one record to change: who of them
// reads it, and for how long the others pause. It does not know who may hold a lock.
package waiting

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
)

// Queues are the goroutines of a client that wait for locks, a queue for each lock.
type Queues struct {
	space      *cell.Space
	batchPolls *batchPolls // nil where waiters make no use of listings

	mu    sync.Mutex
	byKey map[string]*Queue // by the lock's key
}

// NewQueues returns the queues of a client. From then on they observe the reads of its space.
func NewQueues(space *cell.Space) *Queues {
	q := &Queues{space: space, batchPolls: newBatchPolls(space), byKey: map[string]*Queue{}}
	if q.batchPolls != nil {
		space.Reads = q
	}
	return q
}

// Queue is the goroutines of a client that wait for one lock, in the order in which they came,
// whatever their handles. The first has the turn: it reads the store, for all of them. So many
// waiters send the requests of one, and none of them overtakes another.
type Queue struct {
	of             *Queues
	key            string    // of the lock
	waiters        []*Waiter // guarded by the mutex of the queues
	usesBatchPolls bool      // guarded by it, too

	Unanswered cell.Unanswered // of the requests that were sent for all of them

	held atomic.Pointer[error] // see Held

	// Only the waiter that has the turn uses the rest. The next one continues with it.
	Last             *cell.Seen // the state that was seen last
	Notified         string     // the grant that a waiting event was sent for
	YieldRequestedOf string     // the grant that was requested, since its handle keeps it after its work
	NotifiedBreak    string     // the nonce of the break of which the holder's session was notified
	pauses
}

// Party is what a goroutine waits with.
type Party interface {
	Cell() *cell.Cell        // where it waits for a change
	Entry() string           // the grant of its entry in the lock's own queue; empty if it has none
	Shows(s *cell.Seen) bool // notes s and returns true if its entry has become a holder there
}

// Waiter is a goroutine in a queue.
type Waiter struct {
	Turn chan struct{} // closed when it is the first
	Wake chan struct{} // its handle was granted the lock, or the lock was released

	party Party
}

// Alone returns a queue for one goroutine that only watches the record of c, and its waiter. The
// caller calls leave.
func (q *Queues) Alone(c *cell.Cell) (l *Queue, w *Waiter, leave func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l = q.newQueue(c.Key)
	return l, &Waiter{Wake: make(chan struct{}, 1)}, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.close(l)
	}
}

// newQueue returns a queue for the lock with that key, until close. The caller holds q.mu.
func (q *Queues) newQueue(key string) *Queue {
	if q.batchPolls != nil {
		q.batchPolls.opens(key)
	}
	return &Queue{of: q, key: key, pauses: pauses{errors: q.space.Backoff(q.space.Set.MinPoll, q.space.Set.MaxPoll)}}
}

func (q *Queues) close(l *Queue) {
	if q.batchPolls != nil {
		q.batchPolls.closes(l)
	}
}

// Enter puts a goroutine that waits with p at the end of its queue.
func (q *Queues) Enter(p Party) (*Queue, *Waiter) {
	w := &Waiter{party: p, Turn: make(chan struct{}), Wake: make(chan struct{}, 1)}
	key := p.Cell().Key
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.byKey[key]
	if l == nil {
		l = q.newQueue(key)
		q.byKey[key] = l
	}
	if l.waiters = append(l.waiters, w); len(l.waiters) == 1 {
		close(w.Turn)
	}
	return l, w
}

// StopsWaiting reports whether no goroutine but the caller's waits, which is about to leave without
// the lock. Those that come after it send a waiting event again.
func (l *Queue) StopsWaiting() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if len(l.waiters) > 1 {
		return false
	}
	l.Notified = "" // the caller has the turn
	return true
}

// Leave takes a goroutine out of the queue and gives the turn to the next.
func (l *Queue) Leave(w *Waiter) {
	q := l.of
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, i, i+1)
	switch {
	case len(l.waiters) == 0:
		delete(q.byKey, l.key)
		q.close(l)
	case i == 0:
		close(l.waiters[0].Turn)
	}
}

// Held is the error of the last read that found the lock held; nil if there was none.
func (l *Queue) Held() error {
	if err := l.held.Load(); err != nil {
		return *err
	}
	return nil
}

// Shared reports whether more than one goroutine waits.
func (l *Queue) Shared() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	return len(l.waiters) > 1
}

// NoteHeld notes what the waiter that has the turn has read, for the others.
func (l *Queue) NoteHeld(err error) { l.held.Store(&err) }

// Entries returns the entries in the lock's own queue of all that wait for it through the client.
func (q *Queues) Entries(key string) (all []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.byKey[key]; l != nil {
		for _, w := range l.waiters {
			if entry := w.party.Entry(); entry != "" {
				all = append(all, entry)
			}
		}
	}
	return all
}

// Granted wakes the goroutines that wait with the cell of a handle that was granted the lock.
func (q *Queues) Granted(c *cell.Cell) {
	q.stir(c.Key, func(p Party) bool { return p.Cell() == c })
}

// Wake wakes the goroutines that wait with p.
func (q *Queues) Wake(p Party) {
	q.stir(p.Cell().Key, func(of Party) bool { return of == p })
}

// stir wakes the goroutines in the queue for key that wait with some parties.
func (q *Queues) stir(key string, some func(Party) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.byKey[key]; l != nil {
		for _, w := range l.waiters {
			if some(w.party) {
				w.stir()
			}
		}
	}
}

// Freed wakes the first waiter for the lock that was released through c, if it waits with another
// handle.
func (q *Queues) Freed(c *cell.Cell) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.byKey[c.Key]; l != nil && l.waiters[0].party.Cell() != c {
		l.waiters[0].stir()
	}
}

// Show wakes the goroutines whose entries in the lock's own queue have become holders in the state s,
// which was seen through c.
func (q *Queues) Show(c *cell.Cell, s *cell.Seen) {
	if s.Rec != nil {
		q.stir(c.Key, func(p Party) bool { return p.Cell() != c && p.Shows(s) })
	}
}

func (w *Waiter) stir() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

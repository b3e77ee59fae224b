package reserve

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// maxIdle bounds the states that a Reserver remembers while none of its goroutines wants
// them. Forgetting one makes a later wait longer, and nothing else.
const maxIdle = 1024

// state names what is reserved.
type state struct {
	key     string
	version object.Version
}

// waitQueue lets one goroutine at a time work on a state; the others wait for it.
type waitQueue struct {
	mu      sync.Mutex
	entries map[state]*queueEntry
}

// queueEntry is the queue of one state.
type queueEntry struct {
	waiting int           // goroutines that wait or work
	busy    chan struct{} // closed when the goroutine that works has left; nil: none works

	checks   int   // of the object that were started
	staleErr error // of the last check that did not find the object in this state
	staleAt  int   // the number of that check

	// Only the goroutine that works uses the rest.

	seen  row    // the last row of the table, and since when this Reserver has seen it there
	spent string // the nonce of a row of this Reserver whose operation is certainly over
}

// row is a row as a waiter sees it.
type row struct {
	Row
	since time.Time // when the first answer that had it arrived
	polls
}

// enter waits until no other goroutine works on s. It returns the entry and the function
// that leaves it, which may be called more than once. The error is that of ctx, or of another
// goroutine's check meanwhile.
func (l *waitQueue) enter(ctx context.Context, s state) (*queueEntry, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.entries[s]
	if p == nil {
		p = new(queueEntry)
		if l.entries == nil {
			l.entries = make(map[state]*queueEntry)
		}
		l.entries[s] = p
	}
	p.waiting++
	joined := p.checks
	for p.busy != nil {
		busy := p.busy
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-busy:
		}
		l.mu.Lock()
		err := store.CheckContext(ctx)
		if p.staleErr != nil && p.staleAt > joined {
			err = p.staleErr
		}
		if err != nil {
			l.drop(s, p)
			return nil, nil, err
		}
	}
	busy := make(chan struct{})
	p.busy = busy
	leave := sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.busy = nil
		close(busy)
		l.drop(s, p)
	})
	return p, leave, nil
}

// drop counts one goroutine less, and forgets entries that no goroutine needs.
func (l *waitQueue) drop(s state, p *queueEntry) {
	p.waiting--
	if p.waiting > 0 {
		return
	}
	if p.seen.Row == (Row{}) && p.spent == "" {
		delete(l.entries, s)
		return
	}
	for other, idle := range l.entries {
		if len(l.entries) <= maxIdle {
			break
		}
		if idle.waiting == 0 {
			delete(l.entries, other)
		}
	}
}

// check checks the object for the goroutine that works, and for those that wait.
func (l *waitQueue) check(ctx context.Context, p *queueEntry, check func(context.Context) error) error {
	l.mu.Lock()
	p.checks++
	number := p.checks
	l.mu.Unlock()
	err := store.MarkNotApplied(check(ctx))
	if errors.Is(err, store.ErrConflict) {
		l.mu.Lock()
		p.staleErr, p.staleAt = err, number
		l.mu.Unlock()
	}
	return err
}

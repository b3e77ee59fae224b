package lease_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// sending notes when each request was sent, and for which key.
type sending struct {
	mu    sync.Mutex
	calls []call
}

type call struct {
	at    time.Time
	kind  store.Kind
	key   string
	fence bool
}

// of notes the requests of w. It reports those that write the record of a session.
func (l *sending) of(w *wire, session string) {
	w.set(func(op *store.Op) fault {
		l.mu.Lock()
		defer l.mu.Unlock()
		if op.Kind != store.OpWatch {
			l.calls = append(l.calls, call{time.Now(), op.Kind, op.Key, op.Kind.Write() && op.Key == session})
		}
		return pass
	})
}

// fromTheFence counts the requests from the instant of the first revocation on, those for the
// session's record apart; and the revocations.
func (l *sending) fromTheFence(session string) (locks, looks, fences int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var at time.Time
	for _, c := range l.calls {
		if c.fence && at.IsZero() {
			at = c.at
		}
	}
	for _, c := range l.calls {
		switch {
		case at.IsZero() || c.at.Before(at):
		case c.fence:
			fences++
		case c.key == session:
			looks++
		default:
			locks++
		}
	}
	return locks, looks, fences
}

// The locks of a dead session cost one revocation for all of them, and then one request each for a
// client that has waited for them: it claims over the state that it has seen. A claim is
// conditional on that, so that no further read is needed.
func TestTakeoverRequestsOfAWaitingClient(t *testing.T) {
	const locks = 20
	for name, reach := range map[string]func(store.Store) store.Store{
		"a store that pushes": func(st store.Store) store.Store { return st },
		"a store that polls":  func(st store.Store) store.Store { return hidden{st} },
	} {
		for _, dead := range []bool{false, true} { // whether its process is known to be dead
			t.Run(fmt.Sprintf("%s, dead process %v", name, dead), func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					p := &presence{Store: reach(st), verdict: store.Alive, died: make(chan struct{})}
					s := open(t, client(t, p, &lease.Options{ManualRenewal: true}))
					w := newWire(p)
					c := client(t, w, nil)
					var l sending
					l.of(w, sessionKey(s))
					var all sync.WaitGroup
					for i := range locks {
						mustTry(t, s, fmt.Sprint(i))
						all.Go(func() {
							report(t, errOf(c.Acquire(t.Context(), fmt.Sprint(i), nil)))
						})
					}
					if dead {
						time.Sleep(ttl/2 + time.Second) // not at the time of a read
						p.set(store.Dead)
						close(p.died)
					}
					all.Wait()
					n, looks, fences := l.fromTheFence(sessionKey(s))
					if n != locks || looks > 1 || fences != 1 {
						t.Errorf("%d requests for %d locks, %d reads of the session and %d revocations; want one for each lock, a read and a revocation", n, locks, looks, fences)
					}
				})
			})
		}
	}
}

// A client that comes when the session is dead reads each lock, too.
func TestTakeoverRequestsOfANewClient(t *testing.T) {
	const locks = 20
	for name, reach := range map[string]func(store.Store) store.Store{
		"a conflict tells":         func(st store.Store) store.Store { return st },
		"a conflict tells nothing": func(st store.Store) store.Store { return hidden{st} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				p := &presence{Store: reach(st), verdict: store.Dead}
				s := open(t, client(t, p, &lease.Options{ManualRenewal: true}))
				for i := range locks {
					mustTry(t, s, fmt.Sprint(i))
				}
				w := newWire(p)
				c := client(t, w, nil)
				for i := range locks {
					mustTry(t, c, fmt.Sprint(i))
					if got, want := w.requests(), 2; i > 0 && got != want || i == 0 && got != want+2 {
						t.Errorf("lock %d took %d requests; want %d, and a read and a revocation for the first", i, got, want)
					}
				}
			})
		})
	}
}

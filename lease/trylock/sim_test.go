package trylock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/trylock"
)

// ledger checks what all holders of a lock together may do.
type ledger struct {
	t      *testing.T
	mu     sync.Mutex
	guards map[*trylock.Guard]int // of all grants, with the number of the handle
	owners map[uint64]int         // the handle of each token
	last   uint64
	lost   int
}

// acquired checks that no other handle trusts its lease, and that the token is new.
func (l *ledger) acquired(n int, g *trylock.Guard) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.Err() != nil {
		return // it was already over when its goroutine ran
	}
	for other, of := range l.guards {
		switch {
		case other.Err() != nil:
			delete(l.guards, other)
		case of != n:
			l.t.Errorf("handles %d and %d trust their leases at the same time, with the tokens %d and %d", of, n, other.Token(), g.Token())
		}
	}
	if of, ok := l.owners[g.Token()]; ok && of != n || g.Token() < l.last {
		l.t.Errorf("handle %d has token %d, which is not new; the last is %d", n, g.Token(), l.last)
	}
	l.owners[g.Token()] = n
	l.last = max(l.last, g.Token())
	l.guards[g] = n
}

// Handles compete on a store that fails, loses replies, hangs, and is late. No two trust their leases at the same
// time, and the tokens rise. When the faults end, each handle gets the lock within the time of two leases.
func TestSimulation(t *testing.T) {
	seeds := 6
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		bubble(t, func(t *testing.T, s *server) { simulate(t, s, uint64(seed)) })
	}
}

func simulate(t *testing.T, s *server, seed uint64) {
	l := &ledger{t: t, guards: map[*trylock.Guard]int{}, owners: map[uint64]int{}}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	chance := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	some := func(most time.Duration) time.Duration { return time.Duration(chance(int(most))) }
	faults := 1 + chance(60) // of 100 calls
	s.setFault(func(c call) fault {
		if chance(100) >= faults {
			return fault{}
		}
		switch chance(7) {
		case 0:
			return fault{fail: true}
		case 1:
			return fault{lost: true}
		case 2:
			return fault{before: some(15 * time.Second)}
		case 3:
			return fault{after: some(15 * time.Second), lost: chance(2) == 0}
		case 4:
			hang := make(chan struct{})
			time.AfterFunc(some(30*time.Second), func() { close(hang) })
			return fault{hang: hang, lost: chance(2) == 0}
		case 5:
			if !s.callersClock { // otherwise the backend would break its contract
				return fault{behind: some(30 * time.Second)}
			}
		}
		return fault{before: some(time.Second), after: some(time.Second)}
	})
	end := time.Now().Add(10 * time.Minute)
	var all sync.WaitGroup
	var handles []*trylock.Handle
	for n := range 4 {
		h := newHandle(t, s)
		handles = append(handles, h)
		for range 1 + chance(2) {
			all.Go(func() {
				for time.Now().Before(end) {
					ctx, cancel := context.WithTimeout(t.Context(), some(40*time.Second))
					acquire := h.Acquire
					if chance(3) == 0 {
						acquire = h.TryAcquire
					}
					g, err := acquire(ctx)
					cancel()
					if err != nil {
						time.Sleep(some(2 * time.Second))
						continue
					}
					l.acquired(n, g)
					work, stop := context.WithTimeout(g.Context(), some(20*time.Second))
					<-work.Done()
					stop()
					if err := g.Release(t.Context()); errors.Is(err, lease.ErrLost) {
						l.mu.Lock()
						l.lost++
						l.mu.Unlock()
					}
					time.Sleep(some(time.Second))
				}
			})
		}
	}
	all.Wait()
	s.setFault(nil)
	time.Sleep(45 * time.Second) // the last late call has been applied, and its lease is over
	for n, h := range handles {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		g, err := h.Acquire(ctx)
		cancel()
		if err != nil {
			t.Errorf("after the end of all faults: %v", err)
			continue
		}
		l.acquired(n, g)
		if err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(l.owners) < 5 {
		t.Errorf("only %d grants", len(l.owners))
	}
	if testing.Verbose() {
		fmt.Printf("seed %d: %d faults of 100, %d calls, %d grants, %d losses\n", seed, faults, len(s.all()), len(l.owners), l.lost)
	}
}

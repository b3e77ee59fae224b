package waiting

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A goroutine that comes while the last waiter gives up sends a waiting event again, since the
// event of the failure says that the client stops waiting.
func TestWaitThatBeginsWhileTheLastEnds(t *testing.T) {
	leaving, coming := &Waiter{Turn: make(chan struct{})}, &Waiter{Turn: make(chan struct{})}
	q := &Queues{byKey: map[string]*Queue{}}
	l := &Queue{of: q, key: "job", waiters: []*Waiter{leaving}, Notified: "grant"}
	q.byKey["job"] = l
	if !l.StopsWaiting() {
		t.Error("the only waiter does not end the wait")
	}
	l.waiters = append(l.waiters, coming)
	l.Leave(leaving)
	select {
	case <-coming.Turn:
	default:
		t.Error("the second waiter does not have the turn")
	}
	if l.Notified != "" {
		t.Error("the second waiter sends no event for the grant")
	}
	l.waiters = append(l.waiters, leaving)
	if l.StopsWaiting() {
		t.Error("one of two waiters ends the wait")
	}
}

// standing is a party that waits with a cell.
type standing struct{ c *cell.Cell }

func (p standing) Cell() *cell.Cell      { return p.c }
func (p standing) Entry() string         { return "" }
func (p standing) Shows(*cell.Seen) bool { return false }

// A cell may forget what it has seen at any time: then there is no change to wait for.
func TestRestWithoutAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		space := cell.NewSpace(t.Context(), st, &cell.Settings{TTL: time.Second, MinPoll: time.Millisecond, MaxPoll: time.Second, KeyPrefix: "lock", Traits: store.TraitsOf(st)}, nil)
		c, err := space.Lock("job")
		if err != nil {
			t.Fatal(err)
		}
		l, w := NewQueues(space).Enter(standing{c})
		defer l.Leave(w)
		if began := time.Now(); l.Rest(t.Context(), time.Minute, w, c, nil) || time.Since(began) != time.Minute {
			t.Errorf("it may have changed, or the rest took %v", time.Since(began))
		}
	})
}

package waiting

import "testing"

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

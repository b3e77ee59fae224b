package lease_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// A waiter in the queue of a semaphore stays there when the semaphore gets another number of slots than
// the waiter names, and does not set it back.
func TestResizeKeepsTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		o := lease.HandleOptions{Slots: 2, Fair: true}
		first, second := mustTake(t, with(t, opened(t, st), "job", o)), mustTake(t, with(t, opened(t, st), "job", o))
		waits, last := acquiring(t, with(t, opened(t, st), "job", o)), acquiring(t, with(t, opened(t, st), "job", o))
		if _, err := client(t, st, nil).Resize(t.Context(), "job", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * ttl)
		if waits.over() {
			t.Fatalf("the wait has ended: %v", waits.err)
		}
		mustRelease(t, first)
		time.Sleep(time.Second)
		if waits.over() {
			t.Fatal("two hold the one slot")
		}
		mustRelease(t, second)
		for _, w := range []*pending{waits, last} {
			if <-w.done; w.err != nil {
				t.Fatal(w.err)
			}
			mustRelease(t, w.guard)
		}
		if rec := record(t, st, "job"); rec.Slots != 1 {
			t.Errorf("%d slots; want 1", rec.Slots)
		}
	})
}

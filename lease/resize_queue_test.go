package lease_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// A waiter for a semaphore continues to wait when the semaphore gets another number of slots than
// the waiter names, and does not set it back.
func TestResizeKeepsTheQueue(t *testing.T) {
	for name, fair := range map[string]bool{"fair": true, "not fair": false} {
		t.Run(name, func(t *testing.T) { resizeBesideWaiters(t, lease.LockOptions{Slots: 2, Fair: fair}) })
	}
}

func resizeBesideWaiters(t *testing.T, o lease.LockOptions) {
	bubble(t, func(t *testing.T, st store.Store) {
		first, second := mustTake(t, with(t, opened(t, st), "job", o)), mustTake(t, with(t, opened(t, st), "job", o))
		waits := acquiring(t, with(t, opened(t, st), "job", o))
		time.Sleep(time.Second)
		last := acquiring(t, with(t, opened(t, st), "job", o))
		time.Sleep(time.Second)
		must(t, errOf(client(t, st, nil).Resize(t.Context(), "job", 1)))
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
		one, other := waits.done, last.done
		for range 2 { // in any order, if the semaphore is not fair
			w := waits
			select {
			case <-one:
				one = nil
			case <-other:
				w, other = last, nil
			}
			if w.err != nil {
				t.Fatal(w.err)
			}
			mustRelease(t, w.guard)
		}
		h := with(t, opened(t, st), "job", o)
		if _, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrSlotCount) {
			t.Errorf("one that did not wait: %v", err)
		}
		if rec := record(t, st, "job"); rec.Slots != 1 {
			t.Errorf("%d slots; want 1", rec.Slots)
		}
	})
}

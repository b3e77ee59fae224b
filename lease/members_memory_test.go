package lease_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
)

// TestRememberedStateRefusesNothing: an earlier process has seen the semaphore with another
// number of slots. That refuses no later one: the record has been changed since.
func TestRememberedStateRefusesNothing(t *testing.T) {
	st := named(t)
	memory := &sightings{}
	process := func() *lease.Session { return open(t, client(t, st, &lease.Options{Cache: memory})) }
	mustRelease(t, mustTake(t, with(t, process(), "job", lease.LockOptions{Slots: 2})))
	// The next process remembers the record as it is now, and the one after it still does.
	if _, err := with(t, process(), "job", lease.LockOptions{Slots: 3}).TryAcquire(t.Context()); !errors.Is(err, lease.ErrSlotCount) {
		t.Fatal(err)
	}
	must(t, errOf(client(t, st, nil).Resize(t.Context(), "job", 3)))
	mustRelease(t, mustTake(t, with(t, process(), "job", lease.LockOptions{Slots: 3})))
}

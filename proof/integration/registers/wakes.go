package registers

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Wakes tests that a waiter hears of a release at once, although it would look by itself only after seconds.
// The function open opens a handle on one space.
func Wakes[S store.Store](t *testing.T, open func() S) {
	o := &lease.Options{Tuning: lease.Tuning{MinPoll: 9 * time.Second, MaxPoll: 9 * time.Second}}
	var clients [2]*lease.Client
	for i := range clients {
		var err error
		if clients[i], err = lease.New(open(), o); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	var waited time.Duration
	for range 5 {
		guard, err := clients[0].Acquire(ctx, "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time, 1)
		go func() {
			guard, err := clients[1].Acquire(ctx, "job", nil)
			if err != nil {
				t.Error(err)
			} else if err := guard.Release(ctx); err != nil {
				t.Error(err)
			}
			got <- time.Now()
		}()
		time.Sleep(300 * time.Millisecond)
		if err := guard.Release(ctx); err != nil {
			t.Fatal(err)
		}
		released := time.Now()
		waited += (<-got).Sub(released)
	}
	if waited > 2*time.Second {
		t.Errorf("five hand-overs took %v", waited)
	}
	t.Logf("a hand-over took %v", waited/5)
}

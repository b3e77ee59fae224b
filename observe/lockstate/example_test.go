package lockstate_test

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/lockstate"
	"github.com/holdfast-go/holdfast/store"
)

func ExampleFacts_Words() {
	now := time.Now()
	expired := lockstate.ExpiryOf(now.Add(-time.Hour), now, -1, time.Minute, lease.DefaultMaxClockDrift, store.LivenessUnknown)
	for _, f := range []lockstate.Facts{
		{State: lease.Free},
		{State: lease.Held, Liveness: store.Alive.String()},
		{State: lease.Held, Liveness: store.LivenessUnknown.String(), Expired: expired},
		{State: lease.Shared, Slots: 5, Holders: 2},
	} {
		fmt.Println(f.Words())
	}
	// Output:
	// free
	// held (alive)
	// expired?
	// 2 of 5 slots
}

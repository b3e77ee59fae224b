package leaderlock_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/holdfast-go/holdfast/adapters/leaderlock"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A controller works while it leads. The store can be any store of Holdfast, for example a bucket.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	lock, err := leaderlock.New(memstore.New(), "prod/invoices", "host-7", nil)
	if err != nil {
		panic(err)
	}
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				token, err := lock.Token(ctx)
				fmt.Println("leads:", token > 0, err) // each write of the work carries the token
				cancel()
			},
			OnStoppedLeading: func() { fmt.Println("stops") },
		},
	})
	// Output:
	// leads: true <nil>
	// stops
}

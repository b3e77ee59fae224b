package integration_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/integration/faultproxy"
	"github.com/holdfast-go/holdfast/lease/leasetest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// life is how long a PUT may take in the suites of registers on buckets with
// versions. They do not run beside other tests: what takes longer has an unknown
// outcome, which the suites take for a failure.
func life() time.Duration {
	if torture() {
		return 2 * time.Second
	}
	return time.Second
}

// openVersioned opens a store of a kind in a space of its own.
func openVersioned(t *testing.T, k kind, proxied bool) store.Store {
	at := k.target(t)
	if proxied {
		at = at.at(faultproxy.New(t, at.endpoint()).URL)
	}
	st, err := at.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return opened{st, at}
}

// The suite of registers on buckets with versions: MinIO directly, versitygw through
// the proxy.
func TestVersionedStores(t *testing.T) {
	eachOf(t, versioned(life()), func(t *testing.T, k kind) {
		storetest.Run(t, func(t *testing.T) store.Store { return openVersioned(t, k, k.name == "s3versioned/versitygw") }, &storetest.Options{
			Second: second, Parallel: true, Rounds: 1, Racers: 4, Keys: 20, Patience: 5 * time.Minute,
		})
	})
}

// The suite of leases on buckets with versions.
func TestVersionedLeases(t *testing.T) {
	eachOf(t, versioned(life()), func(t *testing.T, k kind) {
		leasetest.Run(t, func(t *testing.T) store.Store { return openVersioned(t, k, k.name == "s3versioned/minio") }, &leasetest.Options{
			Second: second, Parallel: true, Contenders: 3, Patience: 5 * time.Minute,
		})
	})
}

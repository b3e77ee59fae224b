package sessionmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/sessionmodel"
)

// leaseWorld is a world with one lock, of which one client takes plain leases, in which all
// else may happen.
func leaseWorld() sessionmodel.Config {
	c := everything
	c.Lease, c.Locks, c.Attempts = true, 1, 2
	return c
}

// TestReductions compares the nearest states of worlds in which everything may happen with
// their reduced forms, step by step: those of the right protocol, and a few for each fault.
func TestReductions(t *testing.T) {
	lab.Reduce(t, everything, sessionmodel.NoFault, 8_000)
	lab.Reduce(t, leaseWorld(), sessionmodel.NoFault, 12_000)
	c := everything
	c.Attempts = 2
	lab.ReduceFaults(t, c, sessionmodel.Faults(), 1_000)
}

// TestReductionsAtLength compares many states of a small world, and of large ones: a million,
// if long searches are asked for.
func TestReductionsAtLength(t *testing.T) {
	lab.ReduceAll(t, sessionmodel.Config{Locks: 1, Flight: 1}, 1_000_000)
	if exploretest.Torture() { // else TestReductions compares as many as there is time for
		lab.Reduce(t, everything, sessionmodel.NoFault, 200_000)
		lab.Reduce(t, leaseWorld(), sessionmodel.NoFault, 200_000)
	}
}

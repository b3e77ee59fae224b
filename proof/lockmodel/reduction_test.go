package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

// compareFaults compares the nearest states of a world with their reduced forms, step by
// step: those of the right protocol, and a share of as many for each fault.
func compareFaults(t *testing.T, c lockmodel.Config, share int, faults []lockmodel.Fault) {
	t.Helper()
	const limit = 40_000
	lab.Reduce(t, c, lockmodel.NoFault, limit)
	lab.ReduceFaults(t, c, faults, limit/share)
}

func TestReductions(t *testing.T) {
	c := everything
	c.TTL = [2]int{2, 2}
	compareFaults(t, c, 40, lockmodel.Faults())
}

// TestReductionsAtLength compares all states of a small world, and many of the full one; or
// the nearest of both.
func TestReductionsAtLength(t *testing.T) {
	const limit = 2_000_000
	if states := lab.ReduceAll(t, lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1}, limit); states == limit {
		t.Errorf("%d states are not all", states)
	}
	if exploretest.Torture() { // else TestReductions compares as many as there is time for
		lab.Reduce(t, everything, lockmodel.NoFault, 200_000)
	}
}

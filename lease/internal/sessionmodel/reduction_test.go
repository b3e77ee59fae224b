package sessionmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/sessionmodel"
)

func compareReduced(t *testing.T, c sessionmodel.Config, limit int) (states, reduced int) {
	t.Helper()
	states, reduced, differs := sessionmodel.CompareReduced(c, limit)
	t.Logf("%d states have %d reduced forms", states, reduced)
	for _, line := range differs {
		t.Error(line)
	}
	return states, reduced
}

// TestReductions compares the nearest states of worlds in which everything may happen with
// their reduced forms, step by step: those of the right protocol, and a few for each fault.
func TestReductions(t *testing.T) {
	c := everything
	compareReduced(t, c, 8_000)
	c.Lease, c.Locks, c.Attempts = true, 1, 2
	compareReduced(t, c, 12_000)
	c = everything
	c.Attempts = 2
	for p := range sessionmodel.Freedom + 1 {
		c.Ignore = append(c.Ignore, p) // or the search would end at the faults
	}
	for _, f := range sessionmodel.Faults() {
		t.Run(f.String(), func(t *testing.T) {
			c.Fault = f
			compareReduced(t, c, 1_000)
		})
	}
}

// TestReductionsAtLength compares all states of a small world, and many of large ones. Of
// the small world no state is overlooked by the search, which knows states by their hashes
// only.
func TestReductionsAtLength(t *testing.T) {
	exploretest.Torture(t)
	small := sessionmodel.Config{Locks: 1, Flight: 1}
	limit := 1_000_000
	states, reduced := compareReduced(t, small, limit)
	if r := explore(t, small); states == limit || r.States != reduced || !r.Complete {
		t.Errorf("%d states have %d reduced forms, the search found %d", states, reduced, r.States)
	}
	c := everything
	compareReduced(t, c, 200_000)
	c.Lease, c.Locks, c.Attempts = true, 1, 2
	compareReduced(t, c, 200_000)
}

package sessionmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/sessionmodel"
)

func compareReduced(t *testing.T, c sessionmodel.Config, limit int) (reduced int) {
	t.Helper()
	states, reduced, differs := sessionmodel.CompareReduced(c, limit)
	t.Logf("%d states have %d reduced forms", states, reduced)
	for _, line := range differs {
		t.Error(line)
	}
	return reduced
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

// TestReductionsAtLength compares a million states of a small world, and many of large ones.
// Those of the small world have as many reduced forms as the search finds: so it overlooks
// none, although it knows states by their hashes only.
func TestReductionsAtLength(t *testing.T) {
	exploretest.Torture(t)
	small := sessionmodel.Config{Locks: 1, Flight: 1}
	reduced := compareReduced(t, small, 1_000_000)
	if r := explore(t, small); r.States != reduced || !r.Complete {
		t.Errorf("%d reduced forms, the search found %d", reduced, r.States)
	}
	c := everything
	compareReduced(t, c, 200_000)
	c.Lease, c.Locks, c.Attempts = true, 1, 2
	compareReduced(t, c, 200_000)
}

package model_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/model"
)

func compareReduced(t *testing.T, c model.Config, limit int) (states, reduced int) {
	t.Helper()
	states, reduced, differs := model.CompareReduced(c, limit)
	t.Logf("%d states have %d reduced forms", states, reduced)
	for _, line := range differs {
		t.Error(line)
	}
	return states, reduced
}

// compareFaults compares the nearest states of a world with their reduced forms, step by
// step: those of the right protocol, and a share of as many for each fault.
func compareFaults(t *testing.T, c model.Config, share int, faults []model.Fault) {
	t.Helper()
	limit := 40_000
	if raceEnabled {
		limit = 4_000
	}
	compareReduced(t, c, limit)
	for p := range model.NotDelayed + 1 {
		c.Ignore = append(c.Ignore, p) // or the search would end at the faults
	}
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) {
			c.Fault = f
			compareReduced(t, c, limit/share)
		})
	}
}

// between returns the faults from first to last.
func between(first, last model.Fault) (all []model.Fault) {
	for f := first; f <= last; f++ {
		all = append(all, f)
	}
	return all
}

func TestReductions(t *testing.T) {
	c := everything
	c.TTL = [2]int{2, 2}
	compareFaults(t, c, 40, model.Faults())
}

// TestReductionsAtLength compares all states of a small world, and many of the full one.
// Of the small world no state is overlooked by the search, which knows states by their
// hashes only.
func TestReductionsAtLength(t *testing.T) {
	exploretest.Torture(t)
	small := model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1}
	limit := 2_000_000
	states, reduced := compareReduced(t, small, limit)
	if r := explore(t, small); states == limit || r.States != reduced || !r.Complete {
		t.Errorf("%d states have %d reduced forms, the search found %d", states, reduced, r.States)
	}
	compareReduced(t, everything, 200_000)
}

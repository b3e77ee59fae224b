// Package exploretest has the checks that the tests of models share.
package exploretest

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore"
)

// Torture skips a test that takes minutes, unless it is asked for.
func Torture(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_TORTURE") == "" {
		t.Skip("takes minutes: set HOLDFAST_TORTURE=1")
	}
}

// Log tells the size of what was visited.
func Log[E explore.Event, P explore.Property](t *testing.T, r explore.Report[E, P]) explore.Report[E, P] {
	t.Helper()
	t.Logf("%d states, %d transitions, depth %d, all of them: %t, %d left alone, %.1f s",
		r.States, r.Edges, r.Depth, r.Complete, r.Probed, r.Elapsed.Seconds())
	return r
}

// NoViolation fails if a property was broken, and tells how.
func NoViolation[E explore.Event, P explore.Property](t *testing.T, r explore.Report[E, P]) {
	t.Helper()
	if v := r.Violation; v != nil {
		t.Errorf("after %d steps %s:", v.Steps, v.Property)
		for _, line := range v.Trace {
			t.Log(line)
		}
	}
}

// VisitsAll fails unless the search came to its end, after at least so many states.
func VisitsAll[E explore.Event, P explore.Property](t *testing.T, r explore.Report[E, P], least int) {
	t.Helper()
	if !r.Complete || r.States < least {
		t.Errorf("%d states, complete: %t; want all, at least %d", r.States, r.Complete, least)
	}
}

// Happens fails for each event that never happened.
func Happens[E explore.Event, P explore.Property](t *testing.T, r explore.Report[E, P], events []E) {
	t.Helper()
	for _, e := range events {
		t.Logf("%9d  %s", r.Counts[e], e)
		if r.Counts[e] == 0 {
			t.Errorf("never: %s", e)
		}
	}
}

// Caught fails unless a wrong rule was found to break a property, after so many steps.
func Caught[E explore.Event, P explore.Property](t *testing.T, r explore.Report[E, P], breaks P, steps int) {
	t.Helper()
	v := r.Violation
	if v == nil {
		t.Error("not caught")
		return
	}
	if v.Property != breaks || v.Steps != steps {
		t.Errorf("caught after %d steps, as %s; want %d, %s", v.Steps, v.Property, steps, breaks)
	}
	t.Logf("caught after %d steps: %s", v.Steps, v.Property)
	for _, line := range v.Trace {
		t.Log(line)
	}
}

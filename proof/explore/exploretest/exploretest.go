// Package exploretest has the tests that models share.
package exploretest

import (
	"os"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// Torture reports whether HOLDFAST_TORTURE requests searches that take minutes. Without it a test
// of a large world searches its nearest states.
func Torture() bool { return os.Getenv("HOLDFAST_TORTURE") != "" }

// Nearest returns limit if HOLDFAST_TORTURE requests long searches. Otherwise it returns a
// smaller number: the states next to the start that a test of a large world visits.
func Nearest(limit int) int {
	switch {
	case Torture():
		return limit
	case Race:
		return 2_000
	}
	return 20_000
}

// Model is a model under test. C says how large its worlds are and what may happen in them.
type Model[C any, E explore.Event, F explore.Fault, P explore.Property] struct {
	// Explore and Compare are the functions of the model. A model without reductions has no
	// Compare.
	Explore func(C, explore.Options[F, P]) explore.Report[P]
	Compare func(C, explore.Options[F, P], int) (states, forms int, differs []string)

	// Faults lists its wrong rules.
	Faults []F

	// Alone lists the properties that Probe checks, when a client is left alone.
	Alone []P

	// RaceSteps is a length of runs; 0 means no bound. With the race detector, the test visits
	// only the nearest states if it looks for a longer run. Then the test may miss the run.
	RaceSteps int
}

// Search searches a world, and logs its size.
func (m *Model[C, E, F, P]) Search(t *testing.T, world C, o explore.Options[F, P]) explore.Report[P] {
	t.Helper()
	r := m.Explore(world, o)
	t.Logf("%d states, %d transitions, depth %d, complete: %t, %d probes, %.1f s",
		r.States, r.Edges, r.Depth, r.Complete, r.Probed, r.Elapsed.Seconds())
	return r
}

// Visit visits a world with the right rules. The test fails if a property is broken, or if one of
// the events never happens. Visit visits all states; there must be at least as many as least
// says. If the options have a bound, it visits only the nearest states.
func (m *Model[C, E, F, P]) Visit(t *testing.T, world C, o explore.Options[F, P], least int, events ...E) {
	t.Helper()
	r := m.Search(t, world, o)
	if v := r.Violation; v != nil {
		t.Errorf("after %d steps %s:", v.Steps, v.Property)
		tell(t, v)
	}
	if o.MaxStates == 0 && !r.Complete || r.States < least {
		t.Errorf("%d states, complete: %t; want all, at least %d", r.States, r.Complete, least)
	}
	for _, e := range events {
		t.Logf("%9d  %s", r.Counts[e], e)
		if r.Counts[e] == 0 {
			t.Errorf("never: %s", e)
		}
	}
}

// VisitAtLength is Visit for a large world. Without HOLDFAST_TORTURE it visits only the nearest
// states, in which some events do not happen yet.
func (m *Model[C, E, F, P]) VisitAtLength(t *testing.T, world C, o explore.Options[F, P], least int, events ...E) {
	t.Helper()
	if !Torture() {
		o.MaxStates, events = Nearest(0), nil
		least = o.MaxStates
	}
	m.Visit(t, world, o, least, events...)
}

func tell[P explore.Property](t *testing.T, v *explore.Violation[P]) {
	t.Helper()
	for _, line := range v.Trace {
		t.Log(line)
	}
}

// Catch says what a search with a wrong rule must find in a small world: the property that the
// rule breaks, and the length of the shortest run that breaks it. The search ignores all other
// properties.
type Catch[C any, F explore.Fault, P explore.Property] = struct {
	Fault  F
	World  C
	Breaks P
	Steps  int
}

// CatchFaults looks for a run that shows what is wrong with each wrong rule. A rule has more than
// one line if it breaks more than one property.
func (m *Model[C, E, F, P]) CatchFaults(t *testing.T, catches []Catch[C, F, P]) {
	t.Helper()
	missing := slices.Clone(m.Faults)
	for _, c := range catches {
		missing = slices.DeleteFunc(missing, func(f F) bool { return f == c.Fault })
		t.Run(c.Fault.String(), func(t *testing.T) {
			m.catch(t, c)
		})
	}
	if len(missing) > 0 {
		t.Errorf("no test tries the fault %v", missing)
	}
}

func (m *Model[C, E, F, P]) catch(t *testing.T, c Catch[C, F, P]) {
	t.Helper()
	t.Log(c.Fault.Why())
	o := explore.Options[F, P]{Fault: c.Fault, Only: []P{c.Breaks}, MaxStates: 2_000_000}
	far := Race && m.RaceSteps > 0 && c.Steps > m.RaceSteps
	if far {
		o.MaxStates = Nearest(o.MaxStates)
	}
	if slices.Contains(m.Alone, c.Breaks) {
		o.Probe = 1
	}
	v := m.Search(t, c.World, o).Violation
	if v == nil {
		if !far {
			t.Error("not caught")
		}
		return
	}
	if v.Property != c.Breaks || v.Steps != c.Steps {
		t.Errorf("the search found the fault after %d steps, as %s; want %d steps, %s", v.Steps, v.Property, c.Steps, c.Breaks)
	}
	t.Logf("the search found the fault after %d steps: %s", v.Steps, v.Property)
	tell(t, v)
}

// Reduce compares the nearest states of a world, up to limit, with their reduced forms, step by
// step. It checks no property, because a wrong rule would end the search early.
func (m *Model[C, E, F, P]) Reduce(t *testing.T, world C, fault F, limit int) (states, forms int) {
	t.Helper()
	o := explore.Options[F, P]{Fault: fault}
	if fault != 0 {
		o.Only = []P{}
	}
	states, forms, differs := m.Compare(world, o, limit)
	t.Logf("%d states have %d reduced forms", states, forms)
	for _, line := range differs {
		t.Error(line)
	}
	return states, forms
}

// ReduceFaults is Reduce for each of the wrong rules.
func (m *Model[C, E, F, P]) ReduceFaults(t *testing.T, world C, faults []F, limit int) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.String(), func(t *testing.T) { m.Reduce(t, world, f, limit) })
	}
}

// ReduceAll is Reduce for all states of a small world, and returns their number. The states must
// have as many reduced forms as the search finds. This shows that the search misses no state,
// although it stores only hashes of states. Without HOLDFAST_TORTURE, ReduceAll compares only a
// few of the nearest states.
func (m *Model[C, E, F, P]) ReduceAll(t *testing.T, world C, limit int) (states int) {
	t.Helper()
	if !Torture() {
		states, _ = m.Reduce(t, world, 0, Nearest(limit)/10)
		return states
	}
	states, forms := m.Reduce(t, world, 0, limit)
	if r := m.Search(t, world, explore.Options[F, P]{}); r.States != forms || !r.Complete {
		t.Errorf("%d states have %d reduced forms, the search found %d", states, forms, r.States)
	}
	return states
}

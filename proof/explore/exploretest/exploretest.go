// Package exploretest has the tests that the models share.
package exploretest

import (
	"os"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// Torture reports whether HOLDFAST_TORTURE is set. Then the tests run searches that take minutes. If
// HOLDFAST_TORTURE is not set, a test of a large world visits only the states near the start.
func Torture() bool { return os.Getenv("HOLDFAST_TORTURE") != "" }

// Nearest returns the number of states that a test of a large world visits. With HOLDFAST_TORTURE it
// returns limit. Otherwise it returns a smaller number.
func Nearest(limit int) int {
	if Torture() {
		return limit
	}
	return 20_000
}

// Model is a model under test. C is the type of its configuration, which defines a world.
type Model[C any, E explore.Event, F explore.Fault, P explore.Property] struct {
	// Explore and Compare are the functions of the model. A model without reductions has no
	// Compare.
	Explore func(C, explore.Options[F, P]) explore.Report[P]
	Compare func(C, explore.Options[F, P], int) (states, forms int, differs []string)

	// Faults lists the wrong rules of the model.
	Faults []F

	// Alone lists the properties that [explore.World].Probe checks.
	Alone []P
}

// Search searches a world, and logs the number of its states.
func (m *Model[C, E, F, P]) Search(t *testing.T, world C, o explore.Options[F, P]) explore.Report[P] {
	t.Helper()
	r := m.Explore(world, o)
	t.Logf("%d states, %d transitions, depth %d, complete: %t, %d probes, %.1f s",
		r.States, r.Edges, r.Depth, r.Complete, r.Probed, r.Elapsed.Seconds())
	return r
}

// Visit searches a world with the right rules. If a property is broken, or one of the events never
// happens, the test fails. The search must visit all states, and there must be at least as many states as
// the parameter least. If the options have a limit, the search visits only the states near the start.
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

// VisitAtLength is Visit for a large world. Without HOLDFAST_TORTURE it visits only the states
// near the start. Some events do not happen in these states.
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

// Catch describes what a search with a wrong rule must find: the property that the rule breaks, and the
// length of the shortest run to such a state. The search ignores all other properties.
type Catch[C any, F explore.Fault, P explore.Property] = struct {
	Fault  F
	World  C
	Breaks P
	Steps  int
}

// CatchFaults checks that a search detects each wrong rule. If a rule breaks several properties, the list
// has several entries for this rule.
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
	if slices.Contains(m.Alone, c.Breaks) {
		o.Probe = 1
	}
	v := m.Search(t, c.World, o).Violation
	if v == nil {
		t.Error("not caught")
		return
	}
	if v.Property != c.Breaks || v.Steps != c.Steps {
		t.Errorf("the search found the fault after %d steps, as %s; want %d steps, %s", v.Steps, v.Property, c.Steps, c.Breaks)
	}
	t.Logf("the search found the fault after %d steps: %s", v.Steps, v.Property)
	tell(t, v)
}

// Reduce compares the states near the start with their reduced forms, step by step. The parameter limit
// is the largest number of states. Reduce checks no property, because a wrong rule would end the search
// early.
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

// ReduceAll is Reduce for all states of a small world, and returns their number. The number of reduced
// forms must be the number of states that the search finds. This shows that the search misses no state,
// although it stores only hashes of states. Without HOLDFAST_TORTURE, ReduceAll compares only a few
// states near the start.
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

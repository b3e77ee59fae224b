package model

import (
	"time"

	"github.com/holdfast-go/holdfast/lease/internal/explore"
)

// Result is what a search found.
type Result struct {
	States    int // distinct states
	Edges     int // transitions between them
	Depth     int // the longest of all shortest runs
	Complete  bool
	Probed    int // states from which each client was left alone, see Config.Probe
	Elapsed   time.Duration
	Counts    map[Event]int // how many transitions contain an event
	Violation *Violation
}

// Violation is a shortest run that breaks a property.
type Violation struct {
	Property Property
	Steps    int
	Trace    []string
}

// Explore searches all states that c allows, in order of their distance from the
// start, until it finds a violation.
func Explore(c Config) Result {
	m := newMachine(c)
	r := explore.Search(m, explore.Limits{Probe: c.Probe, MaxStates: c.MaxStates, Workers: c.Workers})
	res := Result{States: r.States, Edges: r.Edges, Depth: r.Depth, Complete: r.Complete, Probed: r.Probed,
		Elapsed: r.Elapsed, Counts: map[Event]int{}}
	for e := range eventCount {
		res.Counts[e] = r.Counts[e]
	}
	if f := r.Found; f != nil {
		t := newTracer(m)
		for i := range f.Way {
			t.step(&f.Way[i])
		}
		if f.Probed {
			t.alone(int(f.Who), Property(f.Broke))
		}
		res.Violation = &Violation{Property(f.Broke), len(f.Way), t.lines}
	}
	return res
}

// Start returns the first state, in its canonical form.
func (m *machine) Start() state {
	s := start()
	m.canonical(&s)
	return s
}

// Hash returns the digest of a canonical state.
func (m *machine) Hash(s *state) uint64 { return s.hash() }

// Expander returns a function that lists all steps from a state.
func (m *machine) Expander() func(*state) []edge {
	return (&expansion{m: m}).expand
}

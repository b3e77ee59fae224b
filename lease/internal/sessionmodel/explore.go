package sessionmodel

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// Result is what a search found.
type Result = explore.Report[Event, Property]

// Explore searches all states that c allows, in order of their distance from the
// start, until it finds a violation.
func Explore(c Config) Result {
	m := newMachine(c)
	r := explore.Search(m, explore.Limits{Probe: c.Probe, MaxStates: c.MaxStates, Workers: c.Workers})
	return explore.NewReport[Event, Property](r, eventCount, m.tell)
}

// tell tells a finding in words.
func (m *machine) tell(f *explore.Finding[state, step]) []string {
	t := &tracer{m: m, at: m.Start()}
	for i := range f.Way {
		t.step(&f.Way[i])
	}
	if f.Probed {
		t.alone(int(f.Who), Property(f.Broke))
	}
	return t.lines
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

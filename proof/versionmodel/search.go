package versionmodel

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// Result is the result of a search.
type Result struct {
	States int
	Whole  bool           // the search visited all states
	Events map[string]int // number of times that each event happened
	Broke  string         // the broken rule, or empty
	Trace  []string       // steps from the start to the violation
}

// String returns the result in one line.
func (r *Result) String() string {
	whole := "all"
	if !r.Whole {
		whole = "the first"
	}
	var events []string
	for _, name := range slices.Sorted(maps.Keys(r.Events)) {
		events = append(events, fmt.Sprintf("%s %d", name, r.Events[name]))
	}
	return fmt.Sprintf("%s %d states: %s", whole, r.States, strings.Join(events, ", "))
}

// fingerprint stands for a state. Two states with one fingerprint would be taken
// for one; with 128 bits that happens in one of very many billion searches.
type fingerprint [2]uint64

// search is the part that both ways of searching share.
type search struct {
	m     *Config
	limit int
	seeds [2]maphash.Seed
	seen  map[fingerprint]struct{}
	r     *Result
}

func newSearch(m *Config, limit int) *search {
	return &search{
		m: m, limit: limit,
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen:  map[fingerprint]struct{}{},
		r:     &Result{Events: map[string]int{}, Whole: true},
	}
}

// fresh reports whether a state is seen for the first time.
func (f *search) fresh(s *state) bool {
	p := fingerprint{maphash.Comparable(f.seeds[0], *s), maphash.Comparable(f.seeds[1], *s)}
	if _, ok := f.seen[p]; ok {
		return false
	}
	if f.limit > 0 && len(f.seen) >= f.limit {
		f.r.Whole = false
		return false
	}
	f.seen[p] = struct{}{}
	return true
}

// Search visits the states of a system until one breaks a rule. It visits at most limit states; 0 means
// all. It searches depth first, which needs little memory.
func Search(m *Config, limit int) *Result {
	f := newSearch(m, limit)
	type level struct {
		nexts []next
		taken int
	}
	first := m.initial()
	f.fresh(&first)
	levels := []level{{nexts: m.moves(&first, nil, f.r.Events)}}
	for depth := 0; depth >= 0; {
		l := &levels[depth]
		if l.taken == len(l.nexts) {
			depth--
			continue
		}
		n := &l.nexts[l.taken]
		l.taken++
		if n.broke != "" {
			f.r.Broke = n.broke
			for i := range depth + 1 {
				f.r.Trace = append(f.r.Trace, levels[i].nexts[levels[i].taken-1].String())
			}
			break
		}
		if !f.fresh(&n.state) {
			continue
		}
		depth++
		if depth == len(levels) {
			levels = append(levels, level{})
		}
		levels[depth].nexts = m.moves(&n.state, levels[depth].nexts[:0], f.r.Events)
		levels[depth].taken = 0
	}
	f.r.States = len(f.seen)
	return f.r
}

// Shortest is like Search, but searches breadth first. So its trace is the shortest.
func Shortest(m *Config, limit int) *Result {
	f := newSearch(m, limit)
	type node struct {
		next
		from *node
	}
	first := &node{next: next{state: m.initial()}}
	f.fresh(&first.state)
	level := []*node{first}
	for len(level) > 0 {
		var deeper []*node
		for _, n := range level {
			for _, to := range m.moves(&n.state, nil, f.r.Events) {
				d := &node{to, n}
				if d.broke != "" {
					f.r.Broke, f.r.States = d.broke, len(f.seen)
					for ; d.from != nil; d = d.from {
						f.r.Trace = append(f.r.Trace, d.String())
					}
					slices.Reverse(f.r.Trace)
					return f.r
				}
				if f.fresh(&d.state) {
					deeper = append(deeper, d)
				}
			}
		}
		level = deeper
	}
	f.r.States = len(f.seen)
	return f.r
}

// String returns a step of a trace.
func (n *next) String() string {
	who := "entry"
	if n.move.client != 0 {
		who = string(letter(n.move.client))
	}
	line := who + " " + n.move.what
	if n.move.entry != 0 {
		line = fmt.Sprintf("%s (%d)", line, n.move.entry)
	}
	return line + "\n      " + n.state.String()
}

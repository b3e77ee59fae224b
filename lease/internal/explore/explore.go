// Package explore visits every state that a small world can reach, breadth first, and
// finds a shortest run to a state or a step that breaks a property. The models of leases
// and of sessions stand on it; it knows nothing of either.
package explore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Edge is one step from a state to another.
type Edge[S, T any] struct {
	Next   S
	Step   T      // what happened, for the trace
	Events uint64 // the set of events that the step contains, one bit each
	Broke  uint8  // the property that the step breaks; 0 is none
}

// World is what a search has to know of the states.
type World[S, T any] interface {
	// Start is the first state.
	Start() S

	// Hash is a digest of a state, never zero. Two states with one hash count as one.
	Hash(s *S) uint64

	// Expander returns a function that lists all steps from a state, always in one order.
	// It serves one goroutine. Its next call reuses the slice.
	Expander() func(s *S) []Edge[S, T]

	// Probe looks at what could follow from a state. It returns the property that is
	// broken, 0 for none, and a number for the trace.
	Probe(s *S) (who, broke uint8)
}

// Limits bound a search.
type Limits struct {
	Probe     int // one state of that many is probed; 0 is none
	MaxStates int // the search ends after the level in which it is passed; 0 is never
	Workers   int // goroutines; default one per CPU
}

// Result is what a search found.
type Result[S, T any] struct {
	States   int // distinct states
	Edges    int // steps between them
	Depth    int // the longest of all shortest runs
	Complete bool
	Probed   int
	Elapsed  time.Duration
	Counts   [64]int // how many steps contain an event
	Found    *Finding[S, T]
}

// Finding is a shortest run that breaks a property.
type Finding[S, T any] struct {
	Broke uint8
	Way   []Edge[S, T] // from the start

	// Probed: not the last step breaks it, but what follows from the state that it leads
	// to. Who is the number that Probe returned.
	Probed bool
	Who    uint8
}

// spot is where a property is broken: at the state of a hash, or at a step from it.
type spot struct {
	from   uint64
	index  int // of the step, or what Probe returned
	broke  uint8
	probed bool
}

// before makes the choice between spots of one level the same in every run.
func (f *spot) before(g *spot) bool {
	if f.broke != g.broke {
		return f.broke < g.broke
	}
	return f.from < g.from || f.from == g.from && f.index < g.index
}

const blockSize = 2048

// search is one breadth-first search, level by level. A level is a list of blocks.
type search[S, T any] struct {
	world   World[S, T]
	probe   int
	visited *visited
	level   [][]S
}

// Search visits all states, in order of their distance from the start, until it finds a
// violation.
func Search[S, T any](w World[S, T], l Limits) Result[S, T] {
	began := time.Now()
	workers := l.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	s := &search[S, T]{world: w, probe: l.Probe, visited: newVisited()}
	first := w.Start()
	s.visited.add(w.Hash(&first), 0)
	s.level = [][]S{{first}}
	var res Result[S, T]
	for len(s.level) > 0 && (l.MaxStates == 0 || s.visited.len() <= l.MaxStates) {
		if found := s.advance(workers, &res); found != nil {
			res.Found = s.follow(found)
			break
		}
		if len(s.level) > 0 {
			res.Depth++
		}
	}
	res.Complete = len(s.level) == 0
	res.States = s.visited.len()
	res.Elapsed = time.Since(began)
	return res
}

// worker is what one goroutine gathers in one level.
type worker[S, T any] struct {
	expand func(*S) []Edge[S, T]
	full   [][]S
	open   []S
	counts [64]int
	edges  int
	probed int
	found  *spot
}

// advance expands the present level and makes the next one.
func (s *search[S, T]) advance(n int, res *Result[S, T]) *spot {
	var taken atomic.Int64
	workers := make([]*worker[S, T], n)
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker[S, T]{expand: s.world.Expander()}
		workers[i] = w
		wg.Go(func() {
			for {
				at := int(taken.Add(1)) - 1
				if at >= len(s.level) {
					return
				}
				for j := range s.level[at] {
					s.visit(w, &s.level[at][j])
				}
				s.level[at] = nil
			}
		})
	}
	wg.Wait()
	s.level = nil
	var found *spot
	for _, w := range workers {
		s.level = append(s.level, w.full...)
		if len(w.open) > 0 {
			s.level = append(s.level, w.open)
		}
		res.Edges += w.edges
		res.Probed += w.probed
		for e, k := range w.counts {
			res.Counts[e] += k
		}
		if f := w.found; f != nil && (found == nil || f.before(found)) {
			found = f
		}
	}
	return found
}

func (s *search[S, T]) visit(w *worker[S, T], st *S) {
	from := s.world.Hash(st)
	if s.probe > 0 && from/64%uint64(s.probe) == 0 {
		w.probed++
		if who, broke := s.world.Probe(st); broke != 0 {
			w.report(&spot{from, int(who), broke, true})
		}
	}
	edges := w.expand(st)
	w.edges += len(edges)
	for i := range edges {
		e := &edges[i]
		if e.Broke != 0 {
			w.report(&spot{from, i, e.Broke, false})
			continue
		}
		for bit, set := 0, e.Events; set != 0; bit, set = bit+1, set>>1 {
			w.counts[bit] += int(set & 1)
		}
		if s.visited.add(s.world.Hash(&e.Next), from) {
			w.push(&e.Next)
		}
	}
}

func (w *worker[S, T]) report(f *spot) {
	if w.found == nil || f.before(w.found) {
		w.found = f
	}
}

func (w *worker[S, T]) push(st *S) {
	if w.open == nil {
		w.open = make([]S, 0, blockSize)
	}
	w.open = append(w.open, *st)
	if len(w.open) == blockSize {
		w.full = append(w.full, w.open)
		w.open = nil
	}
}

// follow traces a spot back to the start and runs the way again.
func (s *search[S, T]) follow(f *spot) *Finding[S, T] {
	var way []uint64
	for h := f.from; h != 0; h = s.visited.parent(h) {
		way = append(way, h)
	}
	found := &Finding[S, T]{Broke: f.broke, Probed: f.probed}
	at, expand := s.world.Start(), s.world.Expander()
	for i := len(way) - 2; i >= 0; i-- {
		edges := expand(&at)
		for j := range edges {
			if e := &edges[j]; e.Broke == 0 && s.world.Hash(&e.Next) == way[i] {
				found.Way = append(found.Way, *e)
				at = e.Next
				break
			}
		}
	}
	if f.probed {
		found.Who = uint8(f.index)
	} else {
		found.Way = append(found.Way, expand(&at)[f.index])
	}
	return found
}

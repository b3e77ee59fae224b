// Package explore visits every state that a small world can reach, states near the start first.
//
// A world is a small system that a model describes: a few clients, the registers of a store, the network
// and the clocks. A state is the situation of the whole world at one time. A step leads from one state to
// the next. A run is a sequence of steps. A reduction removes from a state what has no effect on later
// steps, so that there are fewer states.
//
// A search finds the shortest run to a state or a step that breaks a property. The models of leases, of
// sessions and of records with several holders use it. The package contains what these models share, but
// none of their rules.
package explore

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Edge is one step from a state to the next.
type Edge[S, T any] struct {
	Next     S
	Step     T      // what happened, for the trace
	Events   uint64 // events of the step, one bit each
	Violated uint8  // property that the step breaks; 0 is none
}

// World is what a search needs from a model. S is a state, T is a step, and W is a state during a
// step.
type World[S, T, W any] interface {
	// Start is the first state.
	Start() S

	// Hash is a digest of a state, never zero. If two states have the same hash, the search visits
	// only one of them. With n states, the probability of this is about n²/2⁶⁵: 1 in 100,000 for 20
	// million states.
	Hash(s *S) uint64

	// Expand tries all steps from a state, always in the same order.
	Expand(x *Steps[S, T, W])

	// Begin copies a state to w. End reduces the state in w, and describes the step in e.
	Begin(w *W, s *S)
	End(w *W, e *Edge[S, T])

	// NumClients is the number of clients. Probe leaves client c alone with a good network. If lives is
	// true, the other clients are idle; otherwise they are dead. Probe returns the property that is
	// broken then, or 0.
	NumClients() int
	Probe(s *S, c int, lives bool) (broke uint8)

	// Teller returns a function that describes a run. The function gets the steps of the run in their
	// order. For each step, it describes what happens and the next state.
	Teller() func(e *Edge[S, T]) (what, where string)
}

// Steps collects the steps from one state.
type Steps[S, T, W any] struct {
	From  S
	world World[S, T, W]
	out   []Edge[S, T]
	w     W // reused, since it would otherwise be allocated for each step
}

// Try calls the function do, which changes the state in w. If the result of do is true, Try adds the step
// and its new state. If the result is false, the step is not possible.
func (x *Steps[S, T, W]) Try(step T, do func(w *W) bool) {
	x.world.Begin(&x.w, &x.From)
	if do(&x.w) {
		x.out = append(x.out, Edge[S, T]{Step: step})
		x.world.End(&x.w, &x.out[len(x.out)-1])
	}
}

// expander returns a function that lists all steps from a state. It serves one goroutine.
// Its next call reuses the slice.
func expander[S, T, W any](w World[S, T, W]) func(s *S) []Edge[S, T] {
	x := &Steps[S, T, W]{world: w}
	return func(s *S) []Edge[S, T] {
		x.From, x.out = *s, x.out[:0]
		w.Expand(x)
		return x.out
	}
}

// Options are the options of a search.
type Options[F Fault, P Property] struct {
	// Fault is the wrong rule of the search; 0 is none.
	Fault F

	// Only lists the properties that the search checks. The search ignores all others. Nil means all
	// properties.
	Only []P

	// Probe is the distance of probes. For example, 100 means that the search probes one of 100 states:
	// it leaves each client alone there. 0 means no probes.
	Probe int

	// If the search has found more than MaxStates states, it ends after the states at the same distance
	// from the start. 0 means no limit.
	MaxStates int
}

// Sees reports whether the search checks the property.
func (o *Options[F, P]) Sees(p P) bool { return o.Only == nil || slices.Contains(o.Only, p) }

// Broken returns the number of the property, or 0 if the search does not check it.
func (o *Options[F, P]) Broken(p P) uint8 {
	if o.Sees(p) {
		return uint8(p)
	}
	return 0
}

// spot is where a property is broken: at a step from the state of a hash, or in what follows
// there when a client is left alone.
type spot struct {
	from   uint64
	index  int // of the step, or of the client
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
type search[S, T, W any] struct {
	world   World[S, T, W]
	probe   int
	visited *visited
	level   [][]S
	tally
}

// tally is what is counted.
type tally struct {
	Edges  int     // steps between the states
	Probed int     // states from which it was looked at what follows
	Counts [64]int // how many steps contain an event
}

func (t *tally) add(u *tally) {
	t.Edges += u.Edges
	t.Probed += u.Probed
	for e, k := range u.Counts {
		t.Counts[e] += k
	}
}

// Search visits all states, in order of their distance from the start, until it finds a
// violation.
func Search[F Fault, P Property, S, T, W any](w World[S, T, W], o Options[F, P]) Report[P] {
	began := time.Now()
	s := &search[S, T, W]{world: w, probe: o.Probe, visited: newVisited()}
	first := w.Start()
	s.visited.add(w.Hash(&first), 0)
	s.level = [][]S{{first}}
	var res Report[P]
	for len(s.level) > 0 && (o.MaxStates == 0 || s.visited.len() <= o.MaxStates) {
		if found := s.advance(); found != nil {
			res.Violation = tell[P](w, found, s.follow(found))
			break
		}
		if len(s.level) > 0 {
			res.Depth++
		}
	}
	res.tally = s.tally
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
	found  *spot
	tally
}

// advance expands the present level and makes the next one.
func (s *search[S, T, W]) advance() *spot {
	var taken atomic.Int64
	workers := make([]*worker[S, T], runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker[S, T]{expand: expander(s.world)}
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
		s.add(&w.tally)
		if f := w.found; f != nil && (found == nil || f.before(found)) {
			found = f
		}
	}
	return found
}

func (s *search[S, T, W]) visit(w *worker[S, T], st *S) {
	from := s.world.Hash(st)
	if s.probe > 0 && from/64%uint64(s.probe) == 0 {
		w.Probed++
		for c := range s.world.NumClients() {
			for _, lives := range []bool{false, true} {
				if broke := s.world.Probe(st, c, lives); broke != 0 {
					w.report(&spot{from, c, broke, true})
				}
			}
		}
	}
	edges := w.expand(st)
	w.Edges += len(edges)
	for i := range edges {
		e := &edges[i]
		if e.Violated != 0 {
			w.report(&spot{from, i, e.Violated, false})
			continue
		}
		for bit, set := 0, e.Events; set != 0; bit, set = bit+1, set>>1 {
			w.Counts[bit] += int(set & 1)
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

// follow traces a spot back to the start, runs the way again and returns it, with the step
// that breaks a property.
func (s *search[S, T, W]) follow(f *spot) (run []Edge[S, T]) {
	var way []uint64
	for h := f.from; h != 0; h = s.visited.parent(h) {
		way = append(way, h)
	}
	at, expand := s.world.Start(), expander(s.world)
	for i := len(way) - 2; i >= 0; i-- {
		edges := expand(&at)
		for j := range edges {
			if e := &edges[j]; e.Violated == 0 && s.world.Hash(&e.Next) == way[i] {
				run = append(run, *e)
				at = e.Next
				break
			}
		}
	}
	if !f.probed {
		run = append(run, expand(&at)[f.index])
	}
	return run
}

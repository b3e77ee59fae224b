package model

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
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

// finding is a broken property, and on which edge: the state it starts from, and which of its successors it is.
type finding struct {
	from  uint64
	index int
	prop  Property
}

const blockSize = 2048

// block is a part of a level.
type block []state

// search is one breadth-first search, level by level.
type search struct {
	m       *machine
	visited *visited
	level   []block
}

// Explore searches all states that c allows, in order of their distance from the
// start, until it finds a violation.
func Explore(c Config) Result {
	began := time.Now()
	m := newMachine(c)
	workers := c.Workers
	if workers == 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	s := &search{m: m, visited: newVisited()}
	first := start()
	m.canonical(&first)
	s.visited.add(first.hash(), 0)
	s.level = []block{{first}}
	res := Result{Counts: make(map[Event]int)}
	var counts [eventCount]int
	for len(s.level) > 0 && (c.MaxStates == 0 || s.visited.len() <= c.MaxStates) {
		found := s.advance(workers, &res, &counts)
		if found != nil {
			res.Violation = s.trace(found)
			break
		}
		if len(s.level) > 0 {
			res.Depth++
		}
	}
	res.Complete = len(s.level) == 0
	res.States = s.visited.len()
	for e, n := range counts {
		res.Counts[Event(e)] = n
	}
	res.Elapsed = time.Since(began)
	return res
}

// worker is what one goroutine gathers in one level.
type worker struct {
	expansion
	full   []block
	open   block
	counts [eventCount]int
	edges  int
	probed int
	found  *finding
}

// advance expands the present level and makes the next one.
func (s *search) advance(n int, res *Result, counts *[eventCount]int) *finding {
	var taken atomic.Int64
	workers := make([]*worker, n)
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{expansion: expansion{m: s.m}}
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
	var found *finding
	for _, w := range workers {
		s.level = append(s.level, w.full...)
		if len(w.open) > 0 {
			s.level = append(s.level, w.open)
		}
		res.Edges += w.edges
		res.Probed += w.probed
		for e, k := range w.counts {
			counts[e] += k
		}
		if f := w.found; f != nil && (found == nil || f.before(found)) {
			found = f
		}
	}
	return found
}

// before makes the choice between findings of one level the same in every run.
func (f *finding) before(g *finding) bool {
	if f.prop != g.prop {
		return f.prop < g.prop
	}
	return f.from < g.from || f.from == g.from && f.index < g.index
}

func (s *search) visit(w *worker, st *state) {
	from := st.hash()
	if p := s.m.Probe; p > 0 && from/64%uint64(p) == 0 {
		w.probed++
		for c := range st.cl {
			if p := s.m.probe(st, c); p != Kept {
				w.report(&finding{from, c, p})
			}
		}
	}
	for i := range w.expand(st) {
		e := &w.out[i]
		w.edges++
		if e.broke != Kept {
			w.report(&finding{from, i, e.broke})
			continue
		}
		for e, set := Event(0), e.events; set != 0; e, set = e+1, set>>1 {
			w.counts[e] += int(set & 1)
		}
		if s.visited.add(e.next.hash(), from) {
			w.push(&e.next)
		}
	}
}

func (w *worker) report(f *finding) {
	if w.found == nil || f.before(w.found) {
		w.found = f
	}
}

func (w *worker) push(st *state) {
	if w.open == nil {
		w.open = make(block, 0, blockSize)
	}
	w.open = append(w.open, *st)
	if len(w.open) == blockSize {
		w.full = append(w.full, w.open)
		w.open = nil
	}
}

// trace follows the parents of a finding back to the start and runs the way again.
func (s *search) trace(f *finding) *Violation {
	var way []uint64
	for h := f.from; h != 0; h = s.visited.parent(h) {
		way = append(way, h)
	}
	t := newTracer(s.m)
	x := expansion{m: s.m}
	for i := len(way) - 2; i >= 0; i-- {
		for _, e := range x.expand(&t.at) {
			if e.next.hash() == way[i] && e.broke == Kept {
				t.step(&e)
				break
			}
		}
	}
	steps := len(way) - 1
	if f.prop == Progress || f.prop == KeptAlone {
		t.alone(f.index, f.prop)
	} else {
		t.step(&x.expand(&t.at)[f.index])
		steps++
	}
	return &Violation{f.prop, steps, t.lines}
}

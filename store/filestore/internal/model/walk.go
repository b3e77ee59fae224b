package model

import "math/rand/v2"

// Walk takes random walks until it finds a violation or has taken a number of
// steps. One process takes several steps in a row, and another may sleep for long
// meanwhile: that is where a protocol of this kind breaks.
func Walk(c Config, seed uint64, steps int) Result {
	w := newWorld(c)
	r := rand.New(rand.NewPCG(seed, 0))
	var (
		result Result
		next   []state
		way    []node
	)
	w.emit = func(s state) {
		if w.bad == "" && !s.findable() {
			w.bad = "the newest segment cannot be found"
		}
		next = append(next, s)
	}
	for result.States < steps {
		s := initial()
		way = append(way[:0], node{s, -1})
		var asleep [maxProcs]int // until that step
		for idleRounds := 0; idleRounds < 50; {
			i := r.IntN(w.procs)
			if asleep[i] > len(way) && r.IntN(20) > 0 {
				continue
			}
			if r.IntN(12) == 0 {
				asleep[i] = len(way) + r.IntN(250)
			}
			next = next[:0]
			switch {
			case r.IntN(100) == 0 && s.proc[i] != (proc{}):
				s.proc[i] = proc{}
				w.emit(s)
			case r.IntN(100) == 0 && w.removal && !s.removed && s.ids < w.ids:
				w.emit(removed(s))
			default:
				w.step(s, i)
			}
			if len(next) == 0 {
				idleRounds++
				continue
			}
			s = next[r.IntN(len(next))]
			if s.ids == w.ids && s.proc[i].step == idle {
				idleRounds++
			}
			s.collect()
			result.States++
			way = append(way, node{s, int32(len(way) - 1)})
			if w.bad != "" {
				result.Violation, result.Depth, result.Trace = w.bad, len(way)-1, trace(way)
				return result
			}
		}
	}
	return result
}

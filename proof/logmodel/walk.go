package logmodel

import "math/rand/v2"

// Walk takes random steps until it finds a violation, or has taken the given number of steps. A process
// takes several steps one after the other, while other processes may sleep for a long time. Protocols of
// this kind most often fail in this way. The same arguments give the same steps.
func Walk(c Config, seed uint64, steps int) Result {
	w := newWorld(c)
	r := rand.New(rand.NewPCG(seed, 0))
	var next []state
	w.emit = func(s state) {
		w.check(&s)
		next = append(next, s)
	}
	var result Result
	var way []node
	for result.States < steps {
		s := initial()
		way = append(way[:0], node{s, -1})
		i := 0
		for stuck := 0; stuck < 50; {
			if r.IntN(12) == 0 {
				i = r.IntN(w.procs)
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
				stuck++
				i = r.IntN(w.procs)
				continue
			}
			s = next[r.IntN(len(next))]
			if s.ids == w.ids && s.proc[i].step == idle {
				stuck++ // only reads are left
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

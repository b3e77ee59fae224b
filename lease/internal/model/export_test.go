package model

import "fmt"

// An edge as an outsider sees it: where it leads, once reduced, and what happened.
type edge struct {
	to     state
	broke  Property
	events events
}

func (m *machine) edges(from *state, with *machine) map[edge]step {
	all := map[edge]step{}
	x := expansion{m: with}
	for _, e := range x.expand(from) {
		m.canonical(&e.next)
		all[edge{e.next, e.broke, e.events}] = e.step
	}
	return all
}

// CompareReduced visits up to limit states of c without the reductions. From each, the
// steps must lead to the same reduced states, with the same events, as the steps from the
// reduced form of that state: then no future can tell the two apart. It returns how many
// states it compared, how many reduced forms they have, and the first difference.
func CompareReduced(c Config, limit int) (states, forms int, differs []string) {
	c.Plain = false
	m := newMachine(c)
	c.Plain = true
	plain := newMachine(c)
	x := expansion{m: plain}
	first := start()
	plain.canonical(&first)
	seen := map[state]bool{first: true}
	reduced := map[state]bool{}
	queue := []state{first}
	for ; states < len(queue) && states < limit; states++ {
		at := queue[states]
		for _, e := range x.expand(&at) {
			if e.broke == Kept && !seen[e.next] {
				seen[e.next] = true
				queue = append(queue, e.next)
			}
		}
		small := at
		m.canonical(&small)
		reduced[small] = true
		a, b := m.edges(&at, plain), m.edges(&small, m)
		for e, st := range a {
			if _, ok := b[e]; !ok {
				differs = append(differs, fmt.Sprintf("only without: %+v: %+v", st, e))
			}
		}
		for e, st := range b {
			if _, ok := a[e]; !ok {
				differs = append(differs, fmt.Sprintf("only reduced: %+v: %+v", st, e))
			}
		}
		if differs != nil {
			return states, len(reduced), append(differs, fmt.Sprintf("from %+v", at))
		}
	}
	return states, len(reduced), nil
}

package explore

import "fmt"

// outside is a step as an outsider sees it: where it leads, once reduced, and what
// happened.
type outside[S comparable] struct {
	to     S
	events uint64
	broke  uint8
}

func seen[S comparable, T any](edges []Edge[S, T], reduce func(*S)) map[outside[S]]T {
	all := map[outside[S]]T{}
	for i := range edges {
		e := &edges[i]
		to := e.Next
		reduce(&to)
		all[outside[S]{to, e.Events, e.Violated}] = e.Step
	}
	return all
}

// Compare checks the reductions of a model. The parameter plain is a world without reductions. Compare
// visits the first states of this world, at most limit states. For each state it also takes the reduced
// form of the state, and tries the steps of the world with reductions from there. Both worlds must reach
// the same reduced states, with the same events. Compare returns the number of states, the number of
// their reduced forms, and the first difference.
func Compare[S comparable, T, W any](plain, reduced World[S, T, W], reduce func(*S), limit int) (states, forms int, differs []string) {
	expand, expandReduced := expander(plain), expander(reduced)
	known := map[S]bool{plain.Start(): true}
	small := map[S]bool{}
	queue := []S{plain.Start()}
	for ; states < len(queue) && states < limit; states++ {
		at := queue[states]
		edges := expand(&at)
		for i := range edges {
			if e := &edges[i]; e.Violated == 0 && !known[e.Next] {
				known[e.Next] = true
				queue = append(queue, e.Next)
			}
		}
		less := at
		reduce(&less)
		small[less] = true
		a := seen(edges, reduce)
		b := seen(expandReduced(&less), reduce)
		for e, step := range a {
			if _, ok := b[e]; !ok {
				differs = append(differs, fmt.Sprintf("only the world without reductions has the step %+v: %+v", step, e))
			}
		}
		for e, step := range b {
			if _, ok := a[e]; !ok {
				differs = append(differs, fmt.Sprintf("only the reduced world has the step %+v: %+v", step, e))
			}
		}
		if differs != nil {
			return states, len(small), append(differs, fmt.Sprintf("from %+v", at))
		}
	}
	return states, len(small), nil
}

package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Options say what a search looks for, and how far it goes.
type Options = explore.Options[Fault, Property]

// Explore searches all states that c allows, in order of their distance from the
// start, until it finds a violation.
func Explore(c Config, o Options) explore.Report[Property] {
	return explore.Search(newMachine(c, o), o)
}

// Compare visits up to limit states of c without the reductions, and compares the steps from
// each with those from its reduced form. See [explore.Compare].
func Compare(c Config, o Options, limit int) (states, forms int, differs []string) {
	plain, reduced := newMachine(c, o), newMachine(c, o)
	plain.reduce = false
	return explore.Compare(plain, reduced, func(s *state) { reduced.canonical(s) }, limit)
}

package lockmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Options are the options of a search.
type Options = explore.Options[Fault, Property]

// Explore searches the world of c, states near the start first, until it finds a violation.
func Explore(c Config, o Options) explore.Report[Property] {
	return explore.Search(newMachine(c, o), o)
}

// Compare compares states of the world c with their reduced forms, at most limit states. See
// [explore.Compare].
func Compare(c Config, o Options, limit int) (states, forms int, differs []string) {
	plain, reduced := newMachine(c, o), newMachine(c, o)
	plain.reduce = false
	return explore.Compare(plain, reduced, func(s *state) { reduced.canonical(s) }, limit)
}

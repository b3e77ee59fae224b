package rostermodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Options are the options of a search.
type Options = explore.Options[Fault, Property]

// Explore searches the world of c, states near the start first, until it finds a violation.
func Explore(c Config, o Options) explore.Report[Property] {
	return explore.Search(newMachine(c, o), o)
}

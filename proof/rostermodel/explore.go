package rostermodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Options say what a search looks for, and how far it goes.
type Options = explore.Options[Fault, Property]

// Explore searches all states that c allows, in order of their distance from the start,
// until it finds a violation.
func Explore(c Config, o Options) explore.Report[Property] {
	return explore.Search(newMachine(c, o), o)
}

package sessionmodel

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// CompareReduced visits up to limit states of c without the reductions, and compares the
// steps from each with those from its reduced form. See [explore.Compare].
func CompareReduced(c Config, limit int) (states, forms int, differs []string) {
	c.Plain = false
	reduced := newMachine(c)
	c.Plain = true
	return explore.Compare(newMachine(c), reduced, func(s *state) { reduced.canonical(s) }, limit)
}

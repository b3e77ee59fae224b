//go:build !mutant

package lease

// mutant names a deliberate fault. Built with the tag mutant, this package commits
// the one that HOLDFAST_MUTANT names, and the tests have to notice; see
// mutants_test.go. Here there is none, and the compiler leaves no trace of it.
const mutant = ""

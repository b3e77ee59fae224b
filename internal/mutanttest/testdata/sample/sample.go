// Package sample is what the tests of package mutanttest put faults into.
package sample

// Max returns the larger number.
func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

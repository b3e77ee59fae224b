//go:build !race

package exploretest

// Race reports whether the tests run with the race detector.
const Race = false

//go:build !race

package exploretest

// Race says that the tests run with the race detector.
const Race = false

//go:build race

package exploretest

// With the race detector, tests search smaller worlds, because the race detector makes them ten times
// slower. It also finds in small worlds what it would find in large worlds.
const Race = true

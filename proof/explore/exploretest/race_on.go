//go:build race

package exploretest

// Race makes the tests search smaller worlds: the race detector slows them down ten times,
// and finds in them what it would find in large ones.
const Race = true

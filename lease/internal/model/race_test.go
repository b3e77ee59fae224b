//go:build race

package model_test

// raceEnabled makes the tests search smaller worlds: the race detector slows them down
// ten times, and finds in them what it would find in large ones.
const raceEnabled = true

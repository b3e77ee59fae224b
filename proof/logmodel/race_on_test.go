//go:build race

package logmodel_test

// raced says that the race detector is on. It makes this search, which is one
// goroutine, ten times slower and no better: so less is looked at.
const raced = true

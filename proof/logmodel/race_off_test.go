//go:build !race

package logmodel_test

// raced says that the race detector is on.
const raced = false

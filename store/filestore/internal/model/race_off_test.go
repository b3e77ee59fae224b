//go:build !race

package model_test

// raced says that the race detector is on.
const raced = false

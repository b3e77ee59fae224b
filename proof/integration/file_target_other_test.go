//go:build !linux

package integration_test

// What worker_linux_test.go has.
const tortureCounter = "counter"

// interrupt is for Linux.
func interrupt(how, instant string) {}

//go:build !linux

package integration_test

// work is for Linux, whose processes share a monotonic clock and can be stopped.
func work(string) {}

//go:build !linux

package integration_test

import "time"

// work is for Linux, whose processes share a monotonic clock and can be stopped.
func work(string) {}

// now is as near to such a clock as there is.
func now() int64 { return time.Now().UnixNano() }

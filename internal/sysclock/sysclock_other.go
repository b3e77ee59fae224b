//go:build !linux

package sysclock

import "time"

// Monotonic reports that this system has no such clock.
func Monotonic() (time.Duration, bool) { return 0, false }

// Boottime reports that this system has no such clock.
func Boottime() (time.Duration, bool) { return 0, false }

// Epoch returns "" on this system. So no process compares its readings with those of another process.
func Epoch() string { return "" }

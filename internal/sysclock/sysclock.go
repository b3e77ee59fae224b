// Package sysclock reads the clocks of the machine that Go's package time does not
// give out.
package sysclock

import "time"

// Suspended returns how long the machine has slept since it booted: what the
// boot-time clock counts and the monotonic clock does not. It is never too large,
// however long the goroutine is kept meanwhile; a value that is too small for once is
// made good by the next look. Where it is not known it is 0, and the wall clock tells
// of sleep.
func Suspended() time.Duration {
	boot, ok1 := Boottime()
	mono, ok2 := Monotonic() // in this order
	if !ok1 || !ok2 {
		return 0
	}
	return boot - mono
}

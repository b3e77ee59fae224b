// Package sysclock reads clocks of the machine that Go's package time does not offer.
package sysclock

import "time"

// Suspended returns how long the machine has slept since it booted: what the boot-time
// clock counts and the monotonic clock does not. It is never too large, however long the
// goroutine is delayed meanwhile. A value that is too small is corrected by the next
// call. Where the system does not know it, it is 0, and only the wall clock shows that
// the machine slept.
func Suspended() time.Duration {
	boot, ok1 := Boottime()
	mono, ok2 := Monotonic() // in this order
	if !ok1 || !ok2 {
		return 0
	}
	return boot - mono
}

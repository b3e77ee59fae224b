// Package sysclock reads clocks of the machine that Go's package time does not offer.
package sysclock

import "time"

// Suspended returns how long the machine has slept since it booted: the difference between the boot-time
// clock and the monotonic clock. The result is never too large, even if the goroutine is delayed between
// the two reads. If the result is too small, the next call corrects it. If the system does not know the
// time, the result is 0. Then only the wall clock shows that the machine slept.
func Suspended() time.Duration {
	boot, ok1 := Boottime()
	mono, ok2 := Monotonic() // in this order
	if !ok1 || !ok2 {
		return 0
	}
	return boot - mono
}

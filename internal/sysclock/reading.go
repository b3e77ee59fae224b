package sysclock

import "time"

// Reading is one look at the clocks of the machine.
type Reading struct {
	now       time.Time // with both of Go's clocks
	suspended time.Duration
}

// Read looks at the clocks.
func Read() Reading { return Reading{time.Now(), Suspended()} }

// Since returns the time that has passed since r by the clock that ran most: the
// monotonic clock with the time that the machine slept, or the wall clock. So a clock
// that jumps or stands still never makes it too short.
func (r Reading) Since() time.Duration {
	now := Read()
	passed := now.now.Sub(r.now) + max(0, now.suspended-r.suspended)
	return max(passed, now.now.Round(0).Sub(r.now.Round(0)))
}

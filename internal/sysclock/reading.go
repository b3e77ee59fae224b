package sysclock

import "time"

// Reading is one look at the clocks of the machine.
type Reading struct {
	Now       time.Time // with both of Go's clocks
	Suspended time.Duration
}

// Read looks at the clocks.
func Read() Reading { return Reading{time.Now(), Suspended()} }

// Until returns the time from r to a later reading by the clock that ran most: the
// monotonic clock with the time that the machine slept, or the wall clock. So a clock
// that jumps back or stops does not make it too short.
func (r Reading) Until(later Reading) time.Duration {
	passed := later.Now.Sub(r.Now) + max(0, later.Suspended-r.Suspended)
	return max(passed, later.Now.Round(0).Sub(r.Now.Round(0)))
}

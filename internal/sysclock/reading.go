package sysclock

import "time"

// Reading is one reading of the clocks of the machine.
type Reading struct {
	Mono      time.Time     // Until compares only its monotonic part
	Wall      time.Time     // has no monotonic part
	Suspended time.Duration // how long the machine has slept since it booted
}

// Read reads the clocks.
func Read() Reading {
	r := ReadAwake()
	r.Suspended = Suspended()
	return r
}

// ReadAwake is Read without Suspended, which needs two system calls.
func ReadAwake() Reading {
	now := time.Now()
	return Reading{Mono: now, Wall: now.Round(0)}
}

// Until returns the time from r to a later reading. It uses the clock that advanced most: the monotonic
// clock plus the time that the machine slept, or the wall clock. Go's monotonic clock stops while Linux
// sleeps, and the wall clock can be set. If a clock jumps forward, the result is too long. If a clock
// jumps back or stops, the result is still not too short.
func (r Reading) Until(later Reading) time.Duration {
	passed := later.Mono.Sub(r.Mono) + max(0, later.Suspended-r.Suspended)
	return max(0, passed, later.Wall.Sub(r.Wall))
}

// Elapsed returns the time from r to now, as [Reading.Until] does.
func (r Reading) Elapsed() time.Duration { return r.Until(Read()) }

package lease

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

// reading is the clocks of the machine, read once.
type reading struct {
	mono      time.Time     // compared by its monotonic part only
	wall      time.Time     // compared by its wall part only
	suspended time.Duration // how long the machine has slept since it started
}

func readClocks() reading {
	now := time.Now()
	return reading{mono: now, wall: now.Round(0), suspended: sysclock.Suspended()}
}

// clock measures time the way a holder must: cautiously.
//
// Go's monotonic clock stops while Linux sleeps, and the wall clock can be set. So at each reading
// a clock adds the largest step of three: of the monotonic clock, of the wall clock, and of the
// monotonic clock plus the time slept. A clock that jumps forward makes a holder give up early. No
// clock makes it believe for too long.
type clock struct {
	read func() reading

	mu      sync.Mutex
	last    reading
	slept   time.Duration // the largest suspended seen
	elapsed time.Duration
}

func newClock(read func() reading) *clock {
	r := read()
	return &clock{read: read, last: r, slept: r.suspended}
}

// sinceStart returns the time that has passed since the clock was made, by the clock that ran
// fastest.
func (c *clock) sinceStart() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.read()
	passed := max(0, r.mono.Sub(c.last.mono))
	if slept := r.suspended - c.slept; slept > 0 {
		c.slept = r.suspended
		passed += slept
	}
	passed = max(passed, r.wall.Sub(c.last.wall))
	c.last = r
	c.elapsed += passed
	return c.elapsed
}

// monotonic returns the reading that a waiter uses: the monotonic clock alone. That clock may stop,
// and then the waiter waits longer.
func (c *clock) monotonic() time.Time { return c.read().mono }

// wall returns the wall clock, for what people and other machines read.
func (c *clock) wall() time.Time { return c.read().wall }

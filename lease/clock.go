package lease

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

// reading is one look at the clocks of the machine.
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
// Go's monotonic clock stands still while Linux sleeps, and the wall clock can be
// set. So a clock adds up, look by look, the largest of what the monotonic clock,
// the wall clock and the monotonic clock together with the time slept say has
// passed. A clock that jumps forward makes a holder give up early; none makes it
// hold on too long.
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

// look returns the time that has passed since the clock was made, by the clock
// that ran most.
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

// monotonic returns the reading that a waiter uses: the monotonic clock alone,
// which may stand still and then makes it wait longer.
func (c *clock) monotonic() time.Time { return c.read().mono }

// wall returns the wall clock, for what people and other machines read.
func (c *clock) wall() time.Time { return c.read().wall }

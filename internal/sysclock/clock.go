package sysclock

import (
	"sync"
	"time"
)

// Clock measures time the way a holder must: at each reading it adds the time that passed by the
// clock of the machine that ran most (see [Reading.Until]). A clock that jumps forward makes
// a holder give up early. No clock makes it believe for too long.
type Clock struct {
	read  func() Reading // all clocks
	awake func() Reading // all but Suspended

	mu      sync.Mutex
	last    Reading // with the largest Suspended seen
	elapsed time.Duration
}

// NewClock returns a clock that reads with these functions: [Read] and [ReadAwake], except in tests.
func NewClock(read, awake func() Reading) *Clock {
	return &Clock{read: read, awake: awake, last: read()}
}

// SinceStart returns the time that has passed since the clock was made, by the clock that ran
// fastest.
func (c *Clock) SinceStart() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.read()
	c.elapsed += c.last.Until(r)
	r.Suspended = max(r.Suspended, c.last.Suspended)
	c.last = r
	return c.elapsed
}

// Monotonic returns the reading that a waiter uses: the monotonic clock alone. That clock may stop,
// and then the waiter waits longer.
func (c *Clock) Monotonic() time.Time { return c.awake().Mono }

// Wall returns the wall clock, for what people and other machines read.
func (c *Clock) Wall() time.Time { return c.awake().Wall }

package lease

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

// clock measures time the way a holder must: at each reading it adds the time that passed by the
// clock of the machine that ran most (see [sysclock.Reading.Until]). A clock that jumps forward makes
// a holder give up early. No clock makes it believe for too long.
type clock struct {
	read func() sysclock.Reading

	mu      sync.Mutex
	last    sysclock.Reading // with the largest Suspended seen
	elapsed time.Duration
}

func newClock(read func() sysclock.Reading) *clock { return &clock{read: read, last: read()} }

// sinceStart returns the time that has passed since the clock was made, by the clock that ran
// fastest.
func (c *clock) sinceStart() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.read()
	c.elapsed += c.last.Until(r)
	r.Suspended = max(r.Suspended, c.last.Suspended)
	c.last = r
	return c.elapsed
}

// monotonic returns the reading that a waiter uses: the monotonic clock alone. That clock may stop,
// and then the waiter waits longer.
func (c *clock) monotonic() time.Time { return c.read().Mono }

// wall returns the wall clock, for what people and other machines read.
func (c *clock) wall() time.Time { return c.read().Wall }

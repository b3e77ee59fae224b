package trylock

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

// Reading is a reading of clocks that a test makes up.
type Reading = sysclock.Reading

// SetClock gives the handle clocks of the test's own. Call it before the first use.
func SetClock(h *Handle, read func() Reading) { h.clock = sysclock.NewClock(read, read) }

// Trust is the time from the sending of a call to the end of the trust in its lease.
func Trust(h *Handle) time.Duration { return h.set.trust() }

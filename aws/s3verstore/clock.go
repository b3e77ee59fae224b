package s3verstore

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
)

// A stopwatch says how long something took, by the clock of the machine that ran
// most: Go's monotonic clock stops while Linux sleeps, and the wall clock can
// be set. One that is too fast makes a write unknown that was not; none makes a slow
// PUT look quick.
type stopwatch struct {
	start     time.Time
	suspended time.Duration
}

func startWatch() stopwatch { return stopwatch{time.Now(), sysclock.Suspended()} }

// elapsed returns the time since the start.
func (w stopwatch) elapsed() time.Duration {
	slept := max(0, sysclock.Suspended()-w.suspended) // read first: what passes between is in passed
	now := time.Now()
	passed := now.Sub(w.start) + slept
	return max(passed, now.Round(0).Sub(w.start.Round(0)))
}

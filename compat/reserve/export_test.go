package reserve

import "github.com/holdfast-go/holdfast/internal/sysclock"

// SetClock replaces the clocks of the machine.
func (r *Reserver) SetClock(read func() sysclock.Reading) { r.read = read }

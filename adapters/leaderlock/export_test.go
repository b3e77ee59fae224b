package leaderlock

import "github.com/holdfast-go/holdfast/internal/sysclock"

// SetClock replaces the clock of a lock.
func SetClock(l *Lock, read func() sysclock.Reading) { l.clock = sysclock.NewClock(read, read) }

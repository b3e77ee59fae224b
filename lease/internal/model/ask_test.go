package model_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/model"
)

// Worlds in which others ask the holder to give way, again and again.
var (
	askWorld  = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Ask: true}
	lateAsks  = model.Config{Attempts: 2, Flight: 3, Ask: true, Sleep: true, Jump: true}
	askBreaks = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Ask: true, Break: true, Crash: true, Presence: true}
)

// TestAsk visits all states of a small world with asks.
func TestAsk(t *testing.T) {
	c := askWorld
	c.Probe = 64
	if raceEnabled {
		c.MaxStates = 20_000
	}
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	if !raceEnabled {
		exploretest.Happens(t, r, model.AskEvents())
		exploretest.VisitsAll(t, r, 300_000)
	}
}

// TestAskReductions compares states with their reduced forms: the nearest ones of the right
// protocol and of each fault of asks.
func TestAskReductions(t *testing.T) {
	c := askBreaks
	c.Flight, c.Attempts, c.Sleep, c.Jump = 2, 2, true, true
	compareFaults(t, c, 10, between(model.AskIsALife, model.RenewalKeepsMark))
}

// TestLateAsks visits all states of a world in which asks and writes of the holders are under
// way at the same time, for any time.
func TestLateAsks(t *testing.T) {
	exploretest.Torture(t)
	c := lateAsks
	c.Probe = 64
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	exploretest.VisitsAll(t, r, 1_000_000)
}

// TestAsksAndBreaks visits all states of a world in which locks are asked for and broken, while
// their holders live, and after their processes have ended.
func TestAsksAndBreaks(t *testing.T) {
	exploretest.Torture(t)
	c := askBreaks
	c.Probe = 64
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, append(model.AskEvents(), model.WatchOutlastsBreak, model.FreedBroken))
	exploretest.VisitsAll(t, r, 1_000_000)
}

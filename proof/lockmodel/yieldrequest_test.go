package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

// Worlds in which others request the holder to yield, repeatedly.
var (
	askWorld  = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, YieldRequest: true}
	lateAsks  = lockmodel.Config{Attempts: 2, Flight: 3, YieldRequest: true, Sleep: true, Jump: true}
	askBreaks = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, YieldRequest: true, Break: true, Crash: true, Presence: true}
)

// TestAsk visits all states of a small world with requests to yield.
func TestAsk(t *testing.T) { visit(t, askWorld, 300_000, lockmodel.YieldEvents()...) }

// TestAskReductions compares states with their reduced forms: the nearest ones of the right
// protocol and of each fault of requests to yield.
func TestAskReductions(t *testing.T) {
	c := askBreaks
	c.Flight, c.Attempts, c.Sleep, c.Jump = 2, 2, true, true
	compareFaults(t, c, 10, explore.Between(lockmodel.RequestCountsAsTakeover, lockmodel.RequestRenews+1))
}

// TestLateAsks visits all states of a world in which requests to yield and writes of the holders
// are under way at the same time, for any time.
func TestLateAsks(t *testing.T) { visitAtLength(t, lateAsks, 1_000_000) }

// TestAsksAndBreaks visits all states of a world in which others request and break locks, while
// their holders live, and after their processes have ended.
func TestAsksAndBreaks(t *testing.T) {
	visitAtLength(t, askBreaks, 1_000_000, append(lockmodel.YieldEvents(), lockmodel.WatchOutlastsBreak, lockmodel.FreedBroken)...)
}

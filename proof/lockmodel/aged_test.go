package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

// Worlds in which locks are broken, and others decide by more than their own watch: by the presence
// of the holder, and by the age of a version by the store's clock.
var (
	evenBreaks   = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Break: true}
	presentWorld = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Break: true, Crash: true, Presence: true}
	agedWorld    = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Break: true, Age: true}
	sweepWorld   = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 2, Sweep: true}
	lateAge      = lockmodel.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 2, Break: true, Age: true}
)

// TestBreakOfTheDead visits all states of a world in which locks are broken while their
// holders live, and after their processes have ended.
func TestBreakOfTheDead(t *testing.T) {
	visitAtLength(t, presentWorld, 2_000_000, lockmodel.TookDeadBroken, lockmodel.WatchOutlastsBreak, lockmodel.FreedBroken, lockmodel.RetakenBroken)
}

// TestSweep visits all states of a world in which a program removes records that are not in use. A
// removal may be applied at any later time.
func TestSweep(t *testing.T) { visit(t, sweepWorld, 100_000, lockmodel.Swept) }

// TestBreakAndAge visits all states of a world in which waiters and breakers get the age of a
// version from the store's clock. A breaker may be stopped for any time between that and its write.
func TestBreakAndAge(t *testing.T) {
	visitAtLength(t, agedWorld, 4_000_000, lockmodel.SeenOld, lockmodel.SeenOldByBoth, lockmodel.WatchOutlastsBreak, lockmodel.FreedBroken, lockmodel.RetakenBroken)
}

// TestBreakBesideRenewal visits the nearest states of a world in which a break and a write
// of the holder are under way at the same time, too.
func TestBreakBesideRenewal(t *testing.T) {
	lab.VisitAtLength(t, lateAge, lockmodel.Options{MaxStates: 1_000_000}, 1_000_000)
}

// TestBreakReductions compares states with their reduced forms: the nearest ones of the
// right protocol and of each fault of breaks.
func TestBreakReductions(t *testing.T) {
	c := presentWorld
	c.Age, c.Flight, c.Attempts, c.Sleep, c.Jump = true, 2, 2, true, true
	compareFaults(t, c, 10, explore.Between(lockmodel.BreakNamesItself, lockmodel.RequestCountsAsTakeover))
}

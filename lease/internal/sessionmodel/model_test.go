package sessionmodel_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/sessionmodel"
)

func explore(t *testing.T, c sessionmodel.Config) sessionmodel.Result {
	t.Helper()
	return exploretest.Log(t, sessionmodel.Explore(c))
}

// everything is a world in which all may happen that the model knows.
var everything = sessionmodel.Config{TTL: [2]int{3, 2}, Flight: 2, Crash: true, Remove: true, Poke: true, Break: true}

// TestProtocol visits all states of a world with one lock, in which a fence and a beat, a
// claim and a release are under way at the same time.
func TestProtocol(t *testing.T) {
	r := explore(t, sessionmodel.Config{Locks: 1, Probe: 256})
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, sessionmodel.Events())
	exploretest.VisitsAll(t, r, 300_000)
}

// TestLeasesAndSessions visits all states of a world in which one client takes plain leases,
// and the other one sessions: each waits for the other.
func TestLeasesAndSessions(t *testing.T) {
	r := explore(t, sessionmodel.Config{Locks: 1, Flight: 1, Lease: true, Crash: true, Poke: true, Probe: 64})
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, append(sessionmodel.AskEvents(), sessionmodel.TookLease))
	exploretest.VisitsAll(t, r, 40_000)
}

// TestEverythingHappens visits the nearest states of a world with two locks in which all may
// happen that the model knows, and it does.
func TestEverythingHappens(t *testing.T) {
	c := everything
	c.MaxStates, c.Probe = 100_000, 256
	exploretest.NoViolation(t, explore(t, c))
	c.Locks, c.Flight, c.TTL = 1, 1, [2]int{2, 2}
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, slices.Concat(sessionmodel.RemoveEvents(), sessionmodel.AskEvents(), []sessionmodel.Event{sessionmodel.Broke, sessionmodel.HeardBreak}))
}

// TestProtocolAtLength visits all states of worlds with one lock: with records that are
// removed, with asks, with unequal clocks and plain leases.
func TestProtocolAtLength(t *testing.T) {
	exploretest.Torture(t)
	for _, w := range []struct {
		config sessionmodel.Config
		least  int
	}{
		{sessionmodel.Config{Locks: 1, Flight: 2, Crash: true}, 300_000},
		{sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Remove: true}, 400_000},
		{sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Poke: true}, 1_000_000},
		{sessionmodel.Config{Locks: 1, Flight: 2, Break: true}, 400_000},
		{sessionmodel.Config{TTL: [2]int{3, 2}, Locks: 1, Flight: 2, Attempts: 2, Lease: true, Crash: true, Poke: true}, 1_000_000},
	} {
		t.Logf("%+v", w.config)
		w.config.Probe = 64
		r := explore(t, w.config)
		exploretest.NoViolation(t, r)
		exploretest.VisitsAll(t, r, w.least)
	}
}

// TestLateOpening visits the nearest states of a world in which an opening lands after its
// session was fenced, and its record removed.
func TestLateOpening(t *testing.T) {
	exploretest.Torture(t)
	r := explore(t, sessionmodel.Config{Locks: 1, Flight: 2, Attempts: 2, Remove: true, MaxStates: 2_000_000})
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, []sessionmodel.Event{sessionmodel.LateOpening})
}

// TestTwoLocksAtLength visits all states of a world with two locks.
func TestTwoLocksAtLength(t *testing.T) {
	exploretest.Torture(t)
	r := explore(t, sessionmodel.Config{TTL: [2]int{3, 2}, Flight: 1, Probe: 1024})
	exploretest.NoViolation(t, r)
	exploretest.VisitsAll(t, r, 20_000_000)
}

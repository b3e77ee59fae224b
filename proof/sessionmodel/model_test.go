package sessionmodel_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/sessionmodel"
)

var lab = exploretest.Model[sessionmodel.Config, sessionmodel.Event, sessionmodel.Fault, sessionmodel.Property]{
	Explore: sessionmodel.Explore,
	Compare: sessionmodel.Compare,
	Faults:  sessionmodel.Faults(),
	Alone:   []sessionmodel.Property{sessionmodel.KeptAlone, sessionmodel.Progress, sessionmodel.Freedom},
}

// everything is a world in which all may happen that the model knows.
var everything = sessionmodel.Config{TTL: [2]int{3, 2}, Flight: 2, Crash: true, Remove: true, Notify: true, Break: true}

// TestProtocol visits all states of a world with one lock, in which a revocation and a renewal, a
// claim and a release are under way at the same time.
func TestProtocol(t *testing.T) {
	lab.Visit(t, sessionmodel.Config{Locks: 1}, sessionmodel.Options{Probe: 256}, 300_000, sessionmodel.Events()...)
}

// TestLeasesAndSessions visits all states of a world in which one client takes plain leases,
// and the other one sessions: each waits for the other.
func TestLeasesAndSessions(t *testing.T) {
	c := sessionmodel.Config{Locks: 1, Flight: 1, Lease: true, Crash: true, Notify: true}
	lab.Visit(t, c, sessionmodel.Options{Probe: 64}, 40_000, append(sessionmodel.YieldEvents(), sessionmodel.TookLease)...)
}

// TestEverythingHappens visits the nearest states of a world with two locks in which all may
// happen that the model knows, and it does.
func TestEverythingHappens(t *testing.T) {
	c, o := everything, sessionmodel.Options{Probe: 256, MaxStates: 100_000}
	lab.Visit(t, c, o, 0)
	c.Locks, c.Flight, c.TTL = 1, 1, [2]int{2, 2}
	lab.Visit(t, c, o, 0, slices.Concat(sessionmodel.RemoveEvents(), sessionmodel.YieldEvents(), []sessionmodel.Event{sessionmodel.Broke, sessionmodel.HeardBreak})...)
}

// TestProtocolAtLength visits all states of worlds with one lock: with records that are removed,
// with requests to yield, with unequal clocks and plain leases.
func TestProtocolAtLength(t *testing.T) {
	for _, w := range []struct {
		config sessionmodel.Config
		least  int
	}{
		{sessionmodel.Config{Locks: 1, Flight: 2, Crash: true}, 300_000},
		{sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Remove: true}, 400_000},
		{sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Notify: true}, 1_000_000},
		{sessionmodel.Config{Locks: 1, Flight: 2, Break: true}, 400_000},
		{sessionmodel.Config{TTL: [2]int{3, 2}, Locks: 1, Flight: 2, Attempts: 2, Lease: true, Crash: true, Notify: true}, 1_000_000},
	} {
		t.Logf("%+v", w.config)
		lab.VisitAtLength(t, w.config, sessionmodel.Options{Probe: 64}, w.least)
	}
}

// TestLateOpening visits the nearest states of a world in which an opening is applied after its
// session was revoked, and its record removed.
func TestLateOpening(t *testing.T) {
	c := sessionmodel.Config{Locks: 1, Flight: 2, Attempts: 2, Remove: true}
	lab.VisitAtLength(t, c, sessionmodel.Options{MaxStates: 2_000_000}, 0, sessionmodel.LateOpening)
}

// TestTwoLocksAtLength visits all states of a world with two locks.
func TestTwoLocksAtLength(t *testing.T) {
	lab.VisitAtLength(t, sessionmodel.Config{TTL: [2]int{3, 2}, Flight: 1}, sessionmodel.Options{Probe: 1024}, 20_000_000)
}

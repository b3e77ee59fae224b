package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

var lab = exploretest.Model[lockmodel.Config, lockmodel.Event, lockmodel.Fault, lockmodel.Property]{
	Explore: lockmodel.Explore,
	Compare: lockmodel.Compare,
	Faults:  lockmodel.Faults(),
	Alone:   []lockmodel.Property{lockmodel.KeptAlone, lockmodel.Progress},
}

// everything is a world in which all may happen that the model knows.
var everything = lockmodel.Config{Attempts: 3, Flight: 3, Break: true, Crash: true, Sleep: true, Jump: true}

// TestProtocol visits all states of a world without an operator.
func TestProtocol(t *testing.T) {
	visit(t, lockmodel.Config{Attempts: 2, Flight: 3, Crash: true}, 1_000_000)
}

// TestEverythingHappens visits the nearest states of a world in which everything may
// happen, and everything does.
func TestEverythingHappens(t *testing.T) {
	c := everything
	c.TTL, c.Attempts, c.Flight = [2]int{2, 2}, 2, 2
	lab.Visit(t, c, lockmodel.Options{Probe: 64, MaxStates: 250_000}, 0, lockmodel.Events()...)
}

// TestProtocolAtLength visits all states of the full world.
func TestProtocolAtLength(t *testing.T) {
	visitAtLength(t, everything, 10_000_000, lockmodel.Events()...)
}

// visit visits all states of a world.
func visit(t *testing.T, c lockmodel.Config, least int, events ...lockmodel.Event) {
	t.Helper()
	lab.Visit(t, c, lockmodel.Options{Probe: 64}, least, events...)
}

// visitAtLength visits the states of a large world.
func visitAtLength(t *testing.T, c lockmodel.Config, least int, events ...lockmodel.Event) {
	t.Helper()
	lab.VisitAtLength(t, c, lockmodel.Options{Probe: 64}, least, events...)
}

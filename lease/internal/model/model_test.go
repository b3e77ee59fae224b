package model_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/model"
)

// everything is a world in which all may happen that the model knows.
var everything = model.Config{Attempts: 3, Flight: 3, Break: true, Crash: true, Sleep: true, Jump: true}

func explore(t *testing.T, c model.Config) model.Result {
	t.Helper()
	return exploretest.Log(t, model.Explore(c))
}

// TestProtocol visits all states of a world without an operator.
func TestProtocol(t *testing.T) {
	c := model.Config{Attempts: 2, Flight: 3, Crash: true, Probe: 64}
	least := 1_000_000
	if raceEnabled {
		c = model.Config{TTL: [2]int{2, 2}, Attempts: 1, Flight: 1, Probe: 64}
		least = 10_000
	}
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	exploretest.VisitsAll(t, r, least)
}

// TestEverythingHappens visits the nearest states of a world in which everything may
// happen, and everything does.
func TestEverythingHappens(t *testing.T) {
	if raceEnabled {
		t.Skip("far away: searched without the race detector")
	}
	c := everything
	c.TTL, c.Attempts, c.Flight, c.Probe, c.MaxStates = [2]int{2, 2}, 2, 2, 64, 250_000
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, model.Events())
}

// TestProtocolAtLength visits all states of the full world.
func TestProtocolAtLength(t *testing.T) {
	exploretest.Torture(t)
	c := everything
	c.Probe = 64
	r := explore(t, c)
	exploretest.NoViolation(t, r)
	exploretest.Happens(t, r, model.Events())
	exploretest.VisitsAll(t, r, 10_000_000)
}

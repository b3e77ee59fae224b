package model_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/model"
)

// everything is a world in which all may happen that the model knows.
var everything = model.Config{Attempts: 3, Flight: 3, Break: true, Crash: true, Sleep: true, Jump: true}

func torture(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_TORTURE") == "" {
		t.Skip("takes minutes: set HOLDFAST_TORTURE=1")
	}
}

func explore(t *testing.T, c model.Config) model.Result {
	t.Helper()
	r := model.Explore(c)
	t.Logf("%d states, %d transitions, depth %d, all of them: %t, %d left alone, %.1f s",
		r.States, r.Edges, r.Depth, r.Complete, r.Probed, r.Elapsed.Seconds())
	return r
}

func noViolation(t *testing.T, r model.Result) {
	t.Helper()
	if v := r.Violation; v != nil {
		t.Errorf("after %d steps %s:", v.Steps, v.Property)
		for _, line := range v.Trace {
			t.Log(line)
		}
	}
}

// visitsAll fails unless the search came to its end, after at least so many states.
func visitsAll(t *testing.T, r model.Result, least int) {
	t.Helper()
	if !r.Complete || r.States < least {
		t.Errorf("%d states, complete: %t; want all, at least %d", r.States, r.Complete, least)
	}
}

// happens fails for each event that never happened.
func happens(t *testing.T, r model.Result, events []model.Event) {
	t.Helper()
	for _, e := range events {
		t.Logf("%9d  %s", r.Counts[e], e)
		if r.Counts[e] == 0 {
			t.Errorf("never: %s", e)
		}
	}
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
	noViolation(t, r)
	visitsAll(t, r, least)
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
	noViolation(t, r)
	happens(t, r, model.Events())
}

// TestProtocolAtLength visits all states of the full world.
func TestProtocolAtLength(t *testing.T) {
	torture(t)
	c := everything
	c.Probe = 64
	r := explore(t, c)
	noViolation(t, r)
	happens(t, r, model.Events())
	visitsAll(t, r, 10_000_000)
}

package rostermodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/rostermodel"
)

var lab = exploretest.Model[rostermodel.Config, rostermodel.Event, rostermodel.Fault, rostermodel.Property]{
	Explore: rostermodel.Explore,
	Faults:  rostermodel.Faults(),
	Alone:   []rostermodel.Property{rostermodel.Progress, rostermodel.Freedom},
}

// The worlds in which faults are looked for.
var (
	shared = rostermodel.Config{Flight: 1}
	two    = rostermodel.Config{Flight: 1, Clients: 2}
	races  = rostermodel.Config{Flight: 2}
)

// catches has a line for each fault, and more for some.
var catches = []exploretest.Catch[rostermodel.Config, rostermodel.Fault, rostermodel.Property]{
	{rostermodel.DropUnrevoked, shared, rostermodel.Exclusion, 6},
	{rostermodel.BelievesLate, two, rostermodel.Exclusion, 12},
	{rostermodel.LeaveBlind, races, rostermodel.Dropped, 4},
	{rostermodel.LeaveBlind, races, rostermodel.Exclusion, 6},
	{rostermodel.LeaveWithoutWrite, shared, rostermodel.Known, 5},
	{rostermodel.LeaveWithoutWrite, shared, rostermodel.Freedom, 3},
	{rostermodel.LeavesTheQueueOnly, shared, rostermodel.Known, 4},
	{rostermodel.OnlyTheHeadDecides, shared, rostermodel.Progress, 3},
}

// TestFaults looks for a run that shows what is wrong with each wrong rule.
func TestFaults(t *testing.T) { lab.CatchFaults(t, catches) }

// TestProtocol visits all states of small worlds: shared and exclusive, with three clients
// and with writes that are under way at the same time, and slots, the number of which changes.
func TestProtocol(t *testing.T) {
	for name, c := range map[string]rostermodel.Config{
		"shared":            {Clients: 2, Room: 3},
		"three clients":     {Room: 2, Flight: 1},
		"one slot":          {Slots: 1, Room: 3, Flight: 1},
		"slots that change": {Clients: 2, Slots: 1, Room: 3, Resize: true},
	} {
		t.Run(name, func(t *testing.T) { visit(t, c, 20_000) })
	}
}

// TestProtocolAtLength visits the states of larger worlds: all, or the nearest.
func TestProtocolAtLength(t *testing.T) {
	for _, c := range []rostermodel.Config{
		{Room: 3, Flight: 1},
		{Clients: 2},
		{Slots: 2, Flight: 1},
		{Clients: 2, Slots: 2, Resize: true},
	} {
		t.Logf("%+v", c)
		lab.VisitAtLength(t, c, rostermodel.Options{Probe: 64}, 500_000, eventsOf(c)...)
	}
}

func visit(t *testing.T, c rostermodel.Config, least int) {
	t.Helper()
	t.Logf("%+v", c)
	lab.Visit(t, c, rostermodel.Options{Probe: 64}, least, eventsOf(c)...)
}

func eventsOf(c rostermodel.Config) []rostermodel.Event {
	if c.Resize {
		return append(rostermodel.Events(), rostermodel.Resized)
	}
	return rostermodel.Events()
}

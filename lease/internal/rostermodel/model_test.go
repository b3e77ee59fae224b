package rostermodel_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/rostermodel"
)

// The worlds in which faults are looked for.
var (
	shared  = rostermodel.Config{Flight: 1}
	two     = rostermodel.Config{Flight: 1, Clients: 2}
	small   = rostermodel.Config{Flight: 1, Room: 2}
	slots   = rostermodel.Config{Flight: 1, Slots: 2}
	oneSlot = rostermodel.Config{Flight: 1, Slots: 1}
	races   = rostermodel.Config{Flight: 2}
	probed  = rostermodel.Config{Flight: 1, Probe: 1}
)

// catches says what must be found of each fault, and how long the shortest run to it is.
var catches = []struct {
	fault  rostermodel.Fault
	world  rostermodel.Config
	breaks rostermodel.Property
	steps  int
}{
	{rostermodel.DropUnfenced, shared, rostermodel.Exclusion, 6},
	{rostermodel.BelievesLate, two, rostermodel.Exclusion, 12},
	{rostermodel.LeaveBlind, races, rostermodel.Dropped, 4},
	{rostermodel.LeaveBlind, races, rostermodel.Exclusion, 6},
	{rostermodel.LeaveInSilence, shared, rostermodel.Known, 5},
	{rostermodel.LeaveInSilence, probed, rostermodel.Freedom, 3},
	{rostermodel.LeavesTheQueueOnly, shared, rostermodel.Known, 4},
	{rostermodel.ReaderPassesWriter, shared, rostermodel.Overtaken, 6},
	{rostermodel.WriterBesideReader, shared, rostermodel.Exclusion, 4},
	{rostermodel.TailFirst, shared, rostermodel.Overtaken, 8},
	{rostermodel.ReleaseHandsNothingOver, probed, rostermodel.Progress, 1},
	{rostermodel.OnlyTheHeadJudges, probed, rostermodel.Progress, 3},
	{rostermodel.SlotByCount, slots, rostermodel.Exclusion, 8},
	{rostermodel.OneSlotTooMany, oneSlot, rostermodel.TooMany, 4},
	{rostermodel.FullDropsOldest, small, rostermodel.Dropped, 6},
	{rostermodel.TokenKept, slots, rostermodel.TokenRises, 2},
	{rostermodel.TokenKept, shared, rostermodel.TokenRises, 2},
}

// only returns c with all properties but p out of sight.
func only(c rostermodel.Config, p rostermodel.Property) rostermodel.Config {
	for q := range rostermodel.Freedom + 1 {
		if q != p {
			c.Ignore = append(slices.Clip(c.Ignore), q)
		}
	}
	return c
}

// TestFaults looks for a run that shows what is wrong with each wrong rule.
func TestFaults(t *testing.T) {
	missing := rostermodel.Faults()
	for _, c := range catches {
		missing = slices.DeleteFunc(missing, func(f rostermodel.Fault) bool { return f == c.fault })
		t.Run(c.fault.String(), func(t *testing.T) {
			t.Log(c.fault.Why())
			world := only(c.world, c.breaks)
			world.Fault, world.MaxStates = c.fault, 1_000_000
			exploretest.Caught(t, exploretest.Log(t, rostermodel.Explore(world)), c.breaks, c.steps)
		})
	}
	if len(missing) > 0 {
		t.Errorf("no test looks for %v", missing)
	}
}

// TestProtocol visits all states of small worlds: shared and exclusive, with three clients
// and with writes that are under way at the same time, and slots, the number of which changes.
func TestProtocol(t *testing.T) {
	for _, c := range []rostermodel.Config{
		{Clients: 2, Room: 3},
		{Slots: 1, Room: 3, Flight: 1},
		{Clients: 2, Slots: 1, Room: 3, Resize: true},
	} {
		visit(t, c, 20_000)
	}
}

// TestProtocolAtLength visits all states of larger worlds.
func TestProtocolAtLength(t *testing.T) {
	exploretest.Torture(t)
	for _, c := range []rostermodel.Config{
		{Room: 3, Flight: 1},
		{Clients: 2},
		{Slots: 2, Flight: 1},
		{Clients: 2, Slots: 2, Resize: true},
	} {
		visit(t, c, 500_000)
	}
}

func visit(t *testing.T, c rostermodel.Config, least int) {
	t.Helper()
	t.Logf("%+v", c)
	c.Probe = 64
	r := exploretest.Log(t, rostermodel.Explore(c))
	exploretest.NoViolation(t, r)
	exploretest.VisitsAll(t, r, least)
	events := rostermodel.Events()
	if c.Resize {
		events = append(events, rostermodel.Resized)
	}
	exploretest.Happens(t, r, events)
}

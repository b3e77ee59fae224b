package sessionmodel_test

import (
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/sessionmodel"
)

// The worlds in which faults are looked for: small ones, so that little runs long.
var (
	oneLock     = sessionmodel.Config{Locks: 1, Flight: 1}
	raceWorld   = sessionmodel.Config{Locks: 1, Flight: 2}
	unequal     = sessionmodel.Config{Locks: 1, Flight: 1, TTL: [2]int{3, 2}}
	removeWorld = sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Remove: true}
	lateRemoval = sessionmodel.Config{Locks: 1, Flight: 1, Attempts: 2, Remove: true}
	oddRemoval  = sessionmodel.Config{Locks: 1, Flight: 1, TTL: [2]int{3, 2}, Remove: true}
	askWorld    = sessionmodel.Config{Locks: 1, Flight: 1, Poke: true}
	askRace     = sessionmodel.Config{Locks: 1, Flight: 2, Poke: true}
	breakWorld  = sessionmodel.Config{Locks: 1, Flight: 1, Break: true}
	probedWorld = sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Probe: 1}
)

// catches says what must be found of each fault, and how long the shortest run to it is.
// A fault stands more than once if more than one property tells of it.
var catches = []struct {
	fault  sessionmodel.Fault
	world  sessionmodel.Config
	breaks sessionmodel.Property
	steps  int
}{
	// (a) The session's deadline counts.
	{sessionmodel.LockHasItsOwnDeadline, oneLock, sessionmodel.Exclusion, 10},
	{sessionmodel.DeadlineFromReply, oneLock, sessionmodel.Exclusion, 16},
	{sessionmodel.BeatTrusted, oneLock, sessionmodel.Exclusion, 15},
	{sessionmodel.LateBeatRevives, oneLock, sessionmodel.Revived, 6},

	// (b) One fence, over the version that stood unchanged, and then the lock as it was read.
	{sessionmodel.WaitNot, oneLock, sessionmodel.Exclusion, 11},
	{sessionmodel.WaitWithoutRho, oneLock, sessionmodel.Exclusion, 12},
	{sessionmodel.WaitOwnTTL, unequal, sessionmodel.Exclusion, 13},
	{sessionmodel.WaitAcrossVersions, oneLock, sessionmodel.Exclusion, 16},
	{sessionmodel.WaitAnewEachLook, probedWorld, sessionmodel.Progress, 3},
	{sessionmodel.TakeWithoutFence, oneLock, sessionmodel.Exclusion, 13},
	{sessionmodel.FenceAssumed, raceWorld, sessionmodel.Exclusion, 14},
	{sessionmodel.BlindFence, raceWorld, sessionmodel.FencedBelieves, 11},
	{sessionmodel.BlindClaim, raceWorld, sessionmodel.TokenRises, 8},
	{sessionmodel.BlindClaim, raceWorld, sessionmodel.Exclusion, 14},

	// (c) An absent session is not a dead one.
	{sessionmodel.AbsentIsDead, removeWorld, sessionmodel.Exclusion, 9},
	{sessionmodel.AbsentIsFenced, removeWorld, sessionmodel.Exclusion, 11},
	{sessionmodel.StandInOwnTTL, oddRemoval, sessionmodel.Exclusion, 15},

	// (d) A fenced session never returns, and one whose opening is unknown is not used.
	{sessionmodel.OpeningTrusted, lateRemoval, sessionmodel.Exclusion, 15},
	{sessionmodel.FencedReturns, oneLock, sessionmodel.Known, 7},

	// (e) Close ends all belief first.
	{sessionmodel.CloseWritesFirst, oneLock, sessionmodel.FencedBelieves, 4},
	{sessionmodel.CloseWritesFirst, oneLock, sessionmodel.Exclusion, 10},

	// Nothing is held that its client does not know of.
	{sessionmodel.GiveUpInSilence, oneLock, sessionmodel.Known, 4},
	{sessionmodel.GiveUpInSilence, probedWorld, sessionmodel.Freedom, 4},
	{sessionmodel.GiveUpOnConflict, raceWorld, sessionmodel.Known, 6},
	{sessionmodel.ReleaseForgotten, oneLock, sessionmodel.Known, 5},
	{sessionmodel.TokenKept, oneLock, sessionmodel.TokenRises, 4},

	// Ask.
	{sessionmodel.PokeIsALife, askWorld, sessionmodel.NotDelayed, 8},
	{sessionmodel.PokeMarksItself, askWorld, sessionmodel.NoFalseLoss, 8},
	{sessionmodel.PokeOfAnEarlierWrite, askRace, sessionmodel.NoFalseLoss, 10},
	{sessionmodel.PokeOfAnEarlierWrite, askRace, sessionmodel.FencedBelieves, 13},
	{sessionmodel.AskIsLoss, askWorld, sessionmodel.NoFalseLoss, 8},

	// Break.
	{sessionmodel.BrokenIsFree, breakWorld, sessionmodel.Exclusion, 10},
	{sessionmodel.BreakForgotten, breakWorld, sessionmodel.Known, 7},
}

// only returns c with all properties but p out of sight.
func only(c sessionmodel.Config, p sessionmodel.Property) sessionmodel.Config {
	for q := range sessionmodel.Freedom + 1 {
		if q != p {
			c.Ignore = append(slices.Clip(c.Ignore), q)
		}
	}
	return c
}

// TestFaults looks for a run that shows what is wrong with each wrong rule.
func TestFaults(t *testing.T) {
	missing := sessionmodel.Faults()
	for _, c := range catches {
		missing = slices.DeleteFunc(missing, func(f sessionmodel.Fault) bool { return f == c.fault })
		t.Run(c.fault.String(), func(t *testing.T) {
			t.Log(c.fault.Why())
			world := only(c.world, c.breaks)
			world.Fault, world.MaxStates = c.fault, 2_000_000
			exploretest.Caught(t, explore(t, world), c.breaks, c.steps)
		})
	}
	if len(missing) > 0 {
		t.Errorf("no test looks for %v", missing)
	}
}

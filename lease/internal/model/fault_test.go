package model_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lease/internal/explore/exploretest"
	"github.com/holdfast-go/holdfast/lease/internal/model"
)

// The worlds in which faults are looked for: small ones, so that each search is short.
var (
	plainWorld  = model.Config{Attempts: 1, Flight: 1}
	retryWorld  = model.Config{Attempts: 2, Flight: 2}
	lateWorld   = model.Config{Attempts: 1, Flight: 2}
	breakWorld  = model.Config{Attempts: 1, Flight: 1, Break: true}
	sleepyWorld = model.Config{Attempts: 1, Flight: 1, Sleep: true}
	jumpyWorld  = model.Config{Attempts: 1, Flight: 1, Jump: true}
)

// catches has a line for each fault, and more for some.
var catches = []exploretest.Catch[model.Config, model.Fault, model.Property]{
	{model.DeadlineFromReply, plainWorld, model.Exclusion, 12},
	{model.DeadlineFromUnknown, plainWorld, model.Exclusion, 14},
	{model.HolderMonotonicOnly, sleepyWorld, model.Exclusion, 12},
	{model.BeliefDuringRelease, plainWorld, model.Exclusion, 12},
	{model.WaitFromSending, plainWorld, model.Exclusion, 14},
	{model.WaitOwnTTL, plainWorld, model.Exclusion, 12},
	{model.WaitAcrossVersions, plainWorld, model.Exclusion, 17},
	{model.WaitRestartsEachRead, retryWorld, model.Progress, 4},
	{model.WaitByWallClock, jumpyWorld, model.Exclusion, 11},
	{model.LastNonceDecides, retryWorld, model.NoFalseLoss, 8},
	{model.LastNonceTimes, retryWorld, model.Exclusion, 15},
	{model.AdoptByName, plainWorld, model.OwnGrant, 13},
	{model.AdoptByEqualName, plainWorld, model.OwnGrant, 9},
	{model.AdoptByEqualName, plainWorld, model.Exclusion, 10},
	{model.ConflictIsLoss, retryWorld, model.NoFalseLoss, 7},
	{model.ConflictIsLoss, retryWorld, model.KeptAlone, 8},
	{model.RetryOnConflict, retryWorld, model.TokenRises, 9},
	{model.RetryOnConflict, retryWorld, model.Exclusion, 14},
	{model.GiveUpWithoutWrite, plainWorld, model.NoFalseLoss, 6},
	{model.GiveUpWithoutWrite, plainWorld, model.EndedStaysEnded, 6},
	{model.GiveUpOnConflict, plainWorld, model.NoFalseLoss, 7},
	{model.BlindAcquire, retryWorld, model.TokenRises, 7},
	{model.BlindAcquire, retryWorld, model.Exclusion, 10},
	{model.BlindRenewal, retryWorld, model.NoFalseLoss, 11},
	{model.BlindRenewal, retryWorld, model.EndedStaysEnded, 11},
	{model.BlindRenewal, lateWorld, model.Exclusion, 19},
	{model.BlindRelease, retryWorld, model.OwnRelease, 9},
	{model.BlindRelease, retryWorld, model.Exclusion, 15},
	{model.DeleteOnRelease, plainWorld, model.TokenRises, 11},
	{model.TicketTakesGrant, ticketWorld, model.Exclusion, 15},
	{model.TicketFreesGrant, ticketWorld, model.Exclusion, 18},
	{model.TicketTTL, unequalWorld, model.Exclusion, 18},
	{model.TicketForgetsPending, ticketWorld, model.TicketKept, 10},
	{model.TicketSentFirst, fileWorld, model.TicketKept, 11},
	{model.TicketTrustsAnnounced, ticketWorld, model.Exclusion, 15},
	{model.AttachKeepsProcess, ticketWorld, model.Exclusion, 16},
	{model.AttachKeepsPresence, deadWorld, model.Exclusion, 16},
	{model.BreakNamesItself, presentWorld, model.Exclusion, 12},
	{model.FreesAnyBreak, evenBreaks, model.OwnRelease, 18},
	{model.FreeKeepsToken, breakWorld, model.TokenRises, 12},
	{model.AgeOfAnEarlierWrite, lateAge, model.Exclusion, 17},
	{model.RequestCountsAsTakeover, askWorld, model.NoFalseLoss, 9},
	{model.RequestRenews, askWorld, model.Exclusion, 17},
}

// TestFaults looks for a run that shows what is wrong with each wrong rule.
func TestFaults(t *testing.T) { lab.CatchFaults(t, catches) }

// TestFaultsInTheFullWorld looks for the faults where everything may happen, with all properties in
// sight: no other rule hides any of them. The nearest states show half of them.
func TestFaultsInTheFullWorld(t *testing.T) {
	o, caught := model.Options{Probe: 16}, 0
	if !exploretest.Torture() {
		o.MaxStates = exploretest.Nearest(0)
	}
	for _, f := range model.Faults() {
		t.Run(f.String(), func(t *testing.T) {
			c := everything
			switch {
			case f == model.TicketTTL:
				c = unequalWorld
			case f >= model.RequestCountsAsTakeover:
				c = askBreaks
			case f == model.AgeOfAnEarlierWrite:
				c = lateAge
			case f >= model.BreakNamesItself:
				c = presentWorld
			case f >= model.TicketTakesGrant:
				c = deadWorld
			}
			o := o
			o.Fault = f
			switch v := lab.Search(t, c, o).Violation; {
			case v != nil:
				caught++
				t.Logf("after %d steps %s", v.Steps, v.Property)
			case o.MaxStates == 0:
				t.Errorf("not caught: %s", f.Why())
			}
		})
	}
	least := len(model.Faults()) / 2
	if exploretest.Race {
		least /= 5
	}
	if caught < least {
		t.Errorf("%d faults of %d were caught, want at least %d", caught, len(model.Faults()), least)
	}
}

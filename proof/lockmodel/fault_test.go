package lockmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/lockmodel"
)

// The worlds in which faults are looked for: small ones, so that each search is short.
var (
	plainWorld  = lockmodel.Config{Attempts: 1, Flight: 1}
	retryWorld  = lockmodel.Config{Attempts: 2, Flight: 2}
	lateWorld   = lockmodel.Config{Attempts: 1, Flight: 2}
	breakWorld  = lockmodel.Config{Attempts: 1, Flight: 1, Break: true}
	sleepyWorld = lockmodel.Config{Attempts: 1, Flight: 1, Sleep: true}
	jumpyWorld  = lockmodel.Config{Attempts: 1, Flight: 1, Jump: true}
)

// catches has a line for each fault, and more for some.
var catches = []exploretest.Catch[lockmodel.Config, lockmodel.Fault, lockmodel.Property]{
	{lockmodel.DeadlineFromReply, plainWorld, lockmodel.Exclusion, 12},
	{lockmodel.DeadlineFromUnknown, plainWorld, lockmodel.Exclusion, 14},
	{lockmodel.HolderMonotonicOnly, sleepyWorld, lockmodel.Exclusion, 12},
	{lockmodel.BeliefDuringRelease, plainWorld, lockmodel.Exclusion, 12},
	{lockmodel.WaitFromSending, plainWorld, lockmodel.Exclusion, 14},
	{lockmodel.WaitOwnTTL, plainWorld, lockmodel.Exclusion, 12},
	{lockmodel.WaitAcrossVersions, plainWorld, lockmodel.Exclusion, 17},
	{lockmodel.WaitRestartsEachRead, retryWorld, lockmodel.Progress, 4},
	{lockmodel.WaitByWallClock, jumpyWorld, lockmodel.Exclusion, 11},
	{lockmodel.LastNonceDecides, retryWorld, lockmodel.NoFalseLoss, 8},
	{lockmodel.LastNonceTimes, retryWorld, lockmodel.Exclusion, 15},
	{lockmodel.AdoptByName, plainWorld, lockmodel.OwnGrant, 13},
	{lockmodel.AdoptByEqualName, plainWorld, lockmodel.OwnGrant, 9},
	{lockmodel.AdoptByEqualName, plainWorld, lockmodel.Exclusion, 10},
	{lockmodel.ConflictIsLoss, retryWorld, lockmodel.NoFalseLoss, 7},
	{lockmodel.ConflictIsLoss, retryWorld, lockmodel.KeptAlone, 8},
	{lockmodel.RetryOnConflict, retryWorld, lockmodel.TokenRises, 9},
	{lockmodel.RetryOnConflict, retryWorld, lockmodel.Exclusion, 14},
	{lockmodel.GiveUpWithoutWrite, plainWorld, lockmodel.NoFalseLoss, 6},
	{lockmodel.GiveUpWithoutWrite, plainWorld, lockmodel.EndedStaysEnded, 6},
	{lockmodel.GiveUpOnConflict, plainWorld, lockmodel.NoFalseLoss, 7},
	{lockmodel.BlindAcquire, retryWorld, lockmodel.TokenRises, 7},
	{lockmodel.BlindAcquire, retryWorld, lockmodel.Exclusion, 10},
	{lockmodel.BlindRenewal, retryWorld, lockmodel.NoFalseLoss, 11},
	{lockmodel.BlindRenewal, retryWorld, lockmodel.EndedStaysEnded, 11},
	{lockmodel.BlindRenewal, lateWorld, lockmodel.Exclusion, 19},
	{lockmodel.BlindRelease, retryWorld, lockmodel.OwnRelease, 9},
	{lockmodel.BlindRelease, retryWorld, lockmodel.Exclusion, 15},
	{lockmodel.DeleteOnRelease, plainWorld, lockmodel.TokenRises, 11},
	{lockmodel.TicketTakesGrant, ticketWorld, lockmodel.Exclusion, 15},
	{lockmodel.TicketFreesGrant, ticketWorld, lockmodel.Exclusion, 18},
	{lockmodel.TicketTTL, unequalWorld, lockmodel.Exclusion, 18},
	{lockmodel.TicketForgetsPending, ticketWorld, lockmodel.TicketKept, 10},
	{lockmodel.TicketSentFirst, fileWorld, lockmodel.TicketKept, 11},
	{lockmodel.TicketTrustsAnnounced, ticketWorld, lockmodel.Exclusion, 15},
	{lockmodel.AttachKeepsProcess, ticketWorld, lockmodel.Exclusion, 16},
	{lockmodel.AttachKeepsPresence, deadWorld, lockmodel.Exclusion, 16},
	{lockmodel.BreakNamesItself, presentWorld, lockmodel.Exclusion, 12},
	{lockmodel.FreesAnyBreak, evenBreaks, lockmodel.OwnRelease, 18},
	{lockmodel.FreeKeepsToken, breakWorld, lockmodel.TokenRises, 12},
	{lockmodel.AgeOfAnEarlierWrite, lateAge, lockmodel.Exclusion, 17},
	{lockmodel.RequestCountsAsTakeover, askWorld, lockmodel.NoFalseLoss, 9},
	{lockmodel.RequestRenews, askWorld, lockmodel.Exclusion, 17},
}

// TestFaults looks for a run that shows what is wrong with each wrong rule.
func TestFaults(t *testing.T) { lab.CatchFaults(t, catches) }

// TestFaultsInTheFullWorld looks for the faults where everything may happen, with all properties in
// sight: no other rule hides any of them. The nearest states show half of them.
func TestFaultsInTheFullWorld(t *testing.T) {
	o, caught := lockmodel.Options{Probe: 16}, 0
	if !exploretest.Torture() {
		o.MaxStates = exploretest.Nearest(0)
	}
	for _, f := range lockmodel.Faults() {
		t.Run(f.String(), func(t *testing.T) {
			c := everything
			switch {
			case f == lockmodel.TicketTTL:
				c = unequalWorld
			case f >= lockmodel.RequestCountsAsTakeover:
				c = askBreaks
			case f == lockmodel.AgeOfAnEarlierWrite:
				c = lateAge
			case f >= lockmodel.BreakNamesItself:
				c = presentWorld
			case f >= lockmodel.TicketTakesGrant:
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
	if least := len(lockmodel.Faults()) / 2; caught < least {
		t.Errorf("%d faults of %d were caught, want at least %d", caught, len(lockmodel.Faults()), least)
	}
}

package sessionmodel_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/proof/explore/exploretest"
	"github.com/holdfast-go/holdfast/proof/sessionmodel"
)

// The worlds in which faults are looked for: small ones, so that each search is short.
var (
	oneLock     = sessionmodel.Config{Locks: 1, Flight: 1}
	raceWorld   = sessionmodel.Config{Locks: 1, Flight: 2}
	unequal     = sessionmodel.Config{Locks: 1, Flight: 1, TTL: [2]int{3, 2}}
	removeWorld = sessionmodel.Config{Locks: 1, Flight: 1, Crash: true, Remove: true}
	lateRemoval = sessionmodel.Config{Locks: 1, Flight: 1, Attempts: 2, Remove: true}
	oddRemoval  = sessionmodel.Config{Locks: 1, Flight: 1, TTL: [2]int{3, 2}, Remove: true}
	askWorld    = sessionmodel.Config{Locks: 1, Flight: 1, Notify: true}
	askRace     = sessionmodel.Config{Locks: 1, Flight: 2, Notify: true}
	breakWorld  = sessionmodel.Config{Locks: 1, Flight: 1, Break: true}
	crashWorld  = sessionmodel.Config{Locks: 1, Flight: 1, Crash: true}
)

// catches has a line for each fault, and more for some.
var catches = []exploretest.Catch[sessionmodel.Config, sessionmodel.Fault, sessionmodel.Property]{
	// (a) The session's deadline counts.
	{sessionmodel.LockHasItsOwnDeadline, oneLock, sessionmodel.Exclusion, 10},
	{sessionmodel.DeadlineFromReply, oneLock, sessionmodel.Exclusion, 16},
	{sessionmodel.RenewalTrusted, oneLock, sessionmodel.Exclusion, 15},
	{sessionmodel.LateRenewalRevives, oneLock, sessionmodel.Revived, 6},

	// (b) One revocation, over the version that was unchanged, and then the lock as it was read.
	{sessionmodel.WaitOwnTTL, unequal, sessionmodel.Exclusion, 13},
	{sessionmodel.WaitAcrossVersions, oneLock, sessionmodel.Exclusion, 16},
	{sessionmodel.WaitRestartsEachRead, crashWorld, sessionmodel.Progress, 3},
	{sessionmodel.TakeWithoutRevocation, oneLock, sessionmodel.Exclusion, 13},
	{sessionmodel.RevocationAssumed, raceWorld, sessionmodel.Exclusion, 14},
	{sessionmodel.BlindRevocation, raceWorld, sessionmodel.RevokedBelieves, 11},
	{sessionmodel.BlindClaim, raceWorld, sessionmodel.TokenRises, 8},
	{sessionmodel.BlindClaim, raceWorld, sessionmodel.Exclusion, 14},

	// (c) An absent session is not a dead one.
	{sessionmodel.AbsentIsDead, removeWorld, sessionmodel.Exclusion, 9},
	{sessionmodel.AbsentIsRevoked, removeWorld, sessionmodel.Exclusion, 11},
	{sessionmodel.PlaceholderOwnTTL, oddRemoval, sessionmodel.Exclusion, 15},

	// (d) A revoked session never returns, and one whose opening is unknown is not used.
	{sessionmodel.OpeningTrusted, lateRemoval, sessionmodel.Exclusion, 15},
	{sessionmodel.RevokedReturns, oneLock, sessionmodel.Known, 7},

	// (e) Close ends all belief first.
	{sessionmodel.CloseWritesFirst, oneLock, sessionmodel.RevokedBelieves, 4},
	{sessionmodel.CloseWritesFirst, oneLock, sessionmodel.Exclusion, 10},

	// No lock is held of which its client does not know.
	{sessionmodel.GiveUpWithoutWrite, oneLock, sessionmodel.Known, 4},
	{sessionmodel.GiveUpWithoutWrite, crashWorld, sessionmodel.Freedom, 4},
	{sessionmodel.GiveUpOnConflict, raceWorld, sessionmodel.Known, 6},
	{sessionmodel.ReleaseForgotten, oneLock, sessionmodel.Known, 5},

	// Requests to yield and notifications.
	{sessionmodel.NotificationOfAnEarlierWrite, askRace, sessionmodel.NoFalseLoss, 10},
	{sessionmodel.NotificationOfAnEarlierWrite, askRace, sessionmodel.RevokedBelieves, 13},
	{sessionmodel.RequestCountsAsLoss, askWorld, sessionmodel.NoFalseLoss, 8},

	// Break.
	{sessionmodel.BreakForgotten, breakWorld, sessionmodel.Known, 7},
}

// TestFaults looks for a run that shows what is wrong with each wrong rule.
func TestFaults(t *testing.T) { lab.CatchFaults(t, catches) }

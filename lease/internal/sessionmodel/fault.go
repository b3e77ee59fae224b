package sessionmodel

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// Fault is one wrong rule. The checker must catch every one of them.
type Fault int

// The faults. [Fault.Why] describes each.
const (
	NoFault Fault = iota

	LockHasItsOwnDeadline
	DeadlineFromReply
	RenewalTrusted
	LateRenewalRevives

	WaitOwnTTL
	WaitAcrossVersions
	WaitRestartsEachRead
	TakeWithoutRevocation
	RevocationAssumed
	BlindRevocation
	BlindClaim

	AbsentIsDead
	AbsentIsRevoked
	PlaceholderOwnTTL

	OpeningTrusted
	RevokedReturns

	CloseWritesFirst

	GiveUpWithoutWrite
	GiveUpOnConflict
	ReleaseForgotten

	NotificationOfAnEarlierWrite
	RequestCountsAsLoss

	BreakForgotten

	faults
)

var faultTexts = [faults]struct{ name, why string }{
	NoFault: {"NoFault", "every rule as it is"},

	LockHasItsOwnDeadline: {"LockHasItsOwnDeadline", "a lock is believed for a TTL from the sending of its claim, whether its session lives or not"},
	DeadlineFromReply:     {"DeadlineFromReply", "a session counts from the reply to its renewal, not from before the sending"},
	RenewalTrusted:        {"RenewalTrusted", "a renewal with an unknown outcome moves the deadline as if it were applied"},
	LateRenewalRevives:    {"LateRenewalRevives", "a session whose deadline has passed continues when a renewal turns out to be applied"},

	WaitOwnTTL:            {"WaitOwnTTL", "the waiter waits for the TTL of its own sessions, not for that of the record"},
	WaitAcrossVersions:    {"WaitAcrossVersions", "the waiter does not restart its wait when it sees another renewal"},
	WaitRestartsEachRead:  {"WaitRestartsEachRead", "the waiter restarts its wait with each read, although the mark is the same"},
	TakeWithoutRevocation: {"TakeWithoutRevocation", "a lock is taken after the wait, and its session is not revoked first"},
	RevocationAssumed:     {"RevocationAssumed", "a revocation counts as applied when it was sent"},
	BlindRevocation:       {"BlindRevocation", "the revocation is written without condition"},
	BlindClaim:            {"BlindClaim", "a lock is claimed without condition"},

	AbsentIsDead:      {"AbsentIsDead", "the locks of a session whose record is absent are taken at once"},
	AbsentIsRevoked:   {"AbsentIsRevoked", "an absent session is created as revoked, and only the waiter that did so waits"},
	PlaceholderOwnTTL: {"PlaceholderOwnTTL", "a placeholder for an absent session has the TTL of the waiter, not that of the lock's record"},

	OpeningTrusted: {"OpeningTrusted", "a session whose opening is unknown is used, and trusted from the sending of the last try"},
	RevokedReturns: {"RevokedReturns", "a client that starts again opens a session with the id of a revoked one"},

	CloseWritesFirst: {"CloseWritesFirst", "close writes closed first and ends the belief when that is answered"},

	GiveUpWithoutWrite: {"GiveUpWithoutWrite", "a claim with an unknown outcome is given up without writing free"},
	GiveUpOnConflict:   {"GiveUpOnConflict", "a conflict while giving up counts as done"},
	ReleaseForgotten:   {"ReleaseForgotten", "a release with an unknown outcome is left to the TTL, although the session lives"},

	NotificationOfAnEarlierWrite: {"NotificationOfAnEarlierWrite", "a notification that conflicts with a renewal, and is sent again over it, carries the mark of the write before"},
	RequestCountsAsLoss:          {"RequestCountsAsLoss", "a holder whose write conflicts with a notification over its own write takes its session for revoked"},

	BreakForgotten: {"BreakForgotten", "a holder that reads of a break does not free the lock"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// seesMore says whether a wrong rule uses what the right rules do not use.
func (f Fault) seesMore() bool {
	switch f {
	case BlindClaim, BlindRevocation, WaitAcrossVersions, TakeWithoutRevocation, RevocationAssumed, RevokedReturns, AbsentIsRevoked, NotificationOfAnEarlierWrite:
		return true
	}
	return false
}

// Faults returns all faults, NoFault not among them.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

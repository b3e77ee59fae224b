package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Fault is one wrong rule of a client. A search must find every one of them.
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
	NoFault: {"NoFault", "no rule is wrong"},

	LockHasItsOwnDeadline: {"LockHasItsOwnDeadline", "a client believes in a lock for a TTL after it sent the claim, even if the session is over"},
	DeadlineFromReply:     {"DeadlineFromReply", "a session counts from the reply to its renewal, not from the time before it sent the renewal"},
	RenewalTrusted:        {"RenewalTrusted", "a renewal with an unknown outcome moves the deadline as if it were applied"},
	LateRenewalRevives:    {"LateRenewalRevives", "a session whose deadline has passed continues when a renewal turns out to be applied"},

	WaitOwnTTL:            {"WaitOwnTTL", "the waiter waits for the TTL of its own sessions, not for the TTL in the record"},
	WaitAcrossVersions:    {"WaitAcrossVersions", "the waiter does not restart its wait when it sees another renewal"},
	WaitRestartsEachRead:  {"WaitRestartsEachRead", "the waiter restarts its wait with each read, although the mark is the same"},
	TakeWithoutRevocation: {"TakeWithoutRevocation", "a waiter takes the lock after its wait, but does not revoke the session first"},
	RevocationAssumed:     {"RevocationAssumed", "a revocation counts as applied when it was sent"},
	BlindRevocation:       {"BlindRevocation", "the revocation is written without condition"},
	BlindClaim:            {"BlindClaim", "a lock is claimed without condition"},

	AbsentIsDead:      {"AbsentIsDead", "the locks of a session whose record is absent are taken at once"},
	AbsentIsRevoked:   {"AbsentIsRevoked", "a waiter creates an absent session as revoked, and only this waiter waits"},
	PlaceholderOwnTTL: {"PlaceholderOwnTTL", "a placeholder for an absent session has the TTL of the waiter, not the TTL in the lock's record"},

	OpeningTrusted: {"OpeningTrusted", "a client uses a session whose opening has an unknown outcome, and trusts it from the last attempt on"},
	RevokedReturns: {"RevokedReturns", "a client that starts again opens a session with the id of a revoked one"},

	CloseWritesFirst: {"CloseWritesFirst", "close first writes closed, and the client stops believing only after the reply"},

	GiveUpWithoutWrite: {"GiveUpWithoutWrite", "a claim with an unknown outcome is given up without writing free"},
	GiveUpOnConflict:   {"GiveUpOnConflict", "a client that gives up counts a conflict as success"},
	ReleaseForgotten:   {"ReleaseForgotten", "a session does not repeat a release of unknown outcome, although the session lives"},

	NotificationOfAnEarlierWrite: {"NotificationOfAnEarlierWrite", "a notification that conflicts with a renewal is sent again over the renewal, with the mark of the earlier write"},
	RequestCountsAsLoss:          {"RequestCountsAsLoss", "if a holder's write conflicts with a notification over its own write, the holder takes its session for revoked"},

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

// Faults returns all faults except NoFault.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

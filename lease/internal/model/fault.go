package model

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// Fault is one wrong rule. Each was found in a real system or is an easy mistake in this one. The
// checker must catch every one of them.
type Fault int

// The faults. [Fault.Why] describes each.
const (
	NoFault Fault = iota

	DeadlineFromReply
	DeadlineFromUnknown
	HolderMonotonicOnly
	BeliefDuringRelease
	WaitFromSending
	WaitOwnTTL
	WaitAcrossVersions
	WaitRestartsEachRead
	WaitByWallClock
	LastNonceDecides
	LastNonceTimes
	AdoptByName
	AdoptByEqualName
	ConflictIsLoss
	RetryOnConflict
	GiveUpWithoutWrite
	GiveUpOnConflict
	BlindAcquire
	BlindRenewal
	BlindRelease
	DeleteOnRelease
	TicketTakesGrant
	TicketFreesGrant
	TicketTTL
	TicketForgetsPending
	TicketSentFirst
	TicketTrustsAnnounced
	AttachKeepsProcess
	AttachKeepsPresence
	BreakNamesItself
	FreesAnyBreak
	FreeKeepsToken
	AgeOfAnEarlierWrite
	RequestCountsAsTakeover
	RequestRenews

	faults
)

var faultTexts = [faults]struct{ name, why string }{
	NoFault:              {"NoFault", "every rule as the specification has it"},
	DeadlineFromReply:    {"DeadlineFromReply", "the holder counts from the reply, not from before the sending"},
	DeadlineFromUnknown:  {"DeadlineFromUnknown", "a renewal with an unknown outcome moves the deadline as if it were applied"},
	HolderMonotonicOnly:  {"HolderMonotonicOnly", "the holder uses only a clock that stops while the machine sleeps"},
	BeliefDuringRelease:  {"BeliefDuringRelease", "release writes free first and ends the belief when that is answered"},
	WaitFromSending:      {"WaitFromSending", "the waiter counts from the sending of its read, not from the reply"},
	WaitOwnTTL:           {"WaitOwnTTL", "the waiter waits for the TTL of its own configuration, not for that of the record"},
	WaitAcrossVersions:   {"WaitAcrossVersions", "the waiter does not restart its wait when it sees another version"},
	WaitRestartsEachRead: {"WaitRestartsEachRead", "the waiter restarts its wait with each read, although the version is the same"},
	WaitByWallClock:      {"WaitByWallClock", "the waiter uses a clock that may jump"},
	LastNonceDecides:     {"LastNonceDecides", "a record of one's grant with another nonce than the last one sent counts as lost"},
	LastNonceTimes:       {"LastNonceTimes", "the deadline counts from the last attempt sent, although another one was seen"},
	AdoptByName:          {"AdoptByName", "a client takes a record for its own if it names its holder, whatever its grant"},
	AdoptByEqualName:     {"AdoptByEqualName", "the same, and both holders have the same name"},
	ConflictIsLoss:       {"ConflictIsLoss", "a conflict on a retry counts as lost, although it may be with the client's own first try"},
	RetryOnConflict:      {"RetryOnConflict", "a retry that conflicts is sent again over the version in its way, without a check whose that is"},
	GiveUpWithoutWrite:   {"GiveUpWithoutWrite", "an acquire with an unknown outcome is given up without writing free"},
	GiveUpOnConflict:     {"GiveUpOnConflict", "a conflict while giving up counts as done"},
	BlindAcquire:         {"BlindAcquire", "the acquire checks first and then writes without condition"},
	BlindRenewal:         {"BlindRenewal", "the renewal is written without condition"},
	BlindRelease:         {"BlindRelease", "the release is written without condition"},
	DeleteOnRelease:      {"DeleteOnRelease", "release removes the record, and tokens start again"},

	TicketTakesGrant:      {"TicketTakesGrant", "a ticket attaches to any version of its grant"},
	TicketFreesGrant:      {"TicketFreesGrant", "a ticket that is too late frees any version of its grant"},
	TicketTTL:             {"TicketTTL", "the TTL of a ticket is believed instead of that of the record"},
	TicketForgetsPending:  {"TicketForgetsPending", "a ticket does not announce the renewals whose outcome was not known"},
	TicketSentFirst:       {"TicketSentFirst", "the renewal of a ticket is sent before it is announced"},
	TicketTrustsAnnounced: {"TicketTrustsAnnounced", "a guard trusts in a write that its ticket announced, so that a copy may attach to it"},
	AttachKeepsProcess:    {"AttachKeepsProcess", "after an attach the record still names the process that detached"},
	AttachKeepsPresence:   {"AttachKeepsPresence", "after an attach the record still names the presence of the process that detached"},

	BreakNamesItself:    {"BreakNamesItself", "a broken record names the presence of the process that broke the lock"},
	FreesAnyBreak:       {"FreesAnyBreak", "a release frees a broken record of any grant"},
	FreeKeepsToken:      {"FreeKeepsToken", "a release over a break writes the token of its grant, not that of the break"},
	AgeOfAnEarlierWrite: {"AgeOfAnEarlierWrite", "a break that conflicts with a renewal, and is sent again over it, carries the age of the write before"},

	RequestCountsAsTakeover: {"RequestCountsAsTakeover", "a holder whose write conflicts with a request to yield takes its lock for lost"},
	RequestRenews:           {"RequestRenews", "a holder counts a write that conflicts with a request to yield as applied"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// Faults returns all faults, NoFault not among them.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

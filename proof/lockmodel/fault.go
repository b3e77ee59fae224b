package lockmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Fault is one wrong rule of a client. Each of them was found in a real system, or is an easy mistake in
// this protocol. A search must find every one of them.
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
	NoFault:              {"NoFault", "no rule is wrong"},
	DeadlineFromReply:    {"DeadlineFromReply", "the holder counts its trust from the reply, not from the time before it sent the write"},
	DeadlineFromUnknown:  {"DeadlineFromUnknown", "a renewal with an unknown outcome moves the deadline as if it were applied"},
	HolderMonotonicOnly:  {"HolderMonotonicOnly", "the holder uses only a clock that stops while the machine sleeps"},
	BeliefDuringRelease:  {"BeliefDuringRelease", "a release first writes free, and the holder stops believing only after the reply"},
	WaitFromSending:      {"WaitFromSending", "the waiter counts from the time when it sent its read, not from the reply"},
	WaitOwnTTL:           {"WaitOwnTTL", "the waiter waits for the TTL in its own options, not for the TTL in the record"},
	WaitAcrossVersions:   {"WaitAcrossVersions", "the waiter does not restart its wait when it sees another version"},
	WaitRestartsEachRead: {"WaitRestartsEachRead", "the waiter restarts its wait with each read, although the version is the same"},
	WaitByWallClock:      {"WaitByWallClock", "the waiter uses a clock that may jump"},
	LastNonceDecides:     {"LastNonceDecides", "a client takes its grant for lost if the nonce in the record is not the last one that it sent"},
	LastNonceTimes:       {"LastNonceTimes", "the deadline counts from the last attempt, although the record shows another attempt"},
	AdoptByName:          {"AdoptByName", "a client takes a record for its own if the record has its holder's name, even if the grant is another"},
	AdoptByEqualName:     {"AdoptByEqualName", "a client takes a record with its holder's name for its own, and both holders have the same name"},
	ConflictIsLoss:       {"ConflictIsLoss", "a conflict on a retry counts as a loss, although the client's own first attempt may be the cause"},
	RetryOnConflict:      {"RetryOnConflict", "after a conflict, a retry is sent over the present version, without a check who wrote it"},
	GiveUpWithoutWrite:   {"GiveUpWithoutWrite", "an acquire with an unknown outcome is given up without writing free"},
	GiveUpOnConflict:     {"GiveUpOnConflict", "a client that gives up counts a conflict as success"},
	BlindAcquire:         {"BlindAcquire", "the acquire checks first and then writes without condition"},
	BlindRenewal:         {"BlindRenewal", "the renewal is written without condition"},
	BlindRelease:         {"BlindRelease", "the release is written without condition"},
	DeleteOnRelease:      {"DeleteOnRelease", "release removes the record, and tokens start again"},

	TicketTakesGrant:      {"TicketTakesGrant", "a ticket attaches to any version of its grant"},
	TicketFreesGrant:      {"TicketFreesGrant", "a ticket that is too late frees any version of its grant"},
	TicketTTL:             {"TicketTTL", "the TTL in the ticket counts, not the TTL in the record"},
	TicketForgetsPending:  {"TicketForgetsPending", "a ticket does not name the renewals of unknown outcome"},
	TicketSentFirst:       {"TicketSentFirst", "a client sends the renewal of a ticket before it announces the renewal"},
	TicketTrustsAnnounced: {"TicketTrustsAnnounced", "a guard trusts a write that its ticket announced, although a copy of the ticket can attach by it"},
	AttachKeepsProcess:    {"AttachKeepsProcess", "after an attach the record still names the process that detached"},
	AttachKeepsPresence:   {"AttachKeepsPresence", "after an attach the record still names the presence of the process that detached"},

	BreakNamesItself:    {"BreakNamesItself", "a broken record names the presence of the process that broke the lock"},
	FreesAnyBreak:       {"FreesAnyBreak", "a release frees a broken record of any grant"},
	FreeKeepsToken:      {"FreeKeepsToken", "a release over a broken record writes the token of the grant, not the token of the break"},
	AgeOfAnEarlierWrite: {"AgeOfAnEarlierWrite", "a break that conflicts with a renewal is sent again over the renewal, with the age of the earlier write"},

	RequestCountsAsTakeover: {"RequestCountsAsTakeover", "if a holder's write conflicts with a request to yield, the holder takes its lock for lost"},
	RequestRenews:           {"RequestRenews", "if a holder's write conflicts with a request to yield, the holder counts the write as applied"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// Faults returns all faults except NoFault.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

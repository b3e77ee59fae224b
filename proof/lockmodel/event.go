package lockmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Event is something that must happen at least once in a search. In a world in which nothing happens,
// every property holds, and a search proves nothing.
type Event uint8

// The events. [Event.String] describes each.
const (
	Granted Event = iota
	Renewed
	Freed
	Ended
	EndedByReadBack
	ReleaseUnresolved
	TakenOver
	TakenOverFromOneself
	RetakenAtOnce
	Expired
	ExpiredDuringRenewal
	BornExpired
	LateApply
	LateApplyOfOldGrant
	LostReply
	Refused
	RefusedRetry
	ResolvedOurs
	ResolvedByEarlierAttempt
	ResolvedNotApplied
	ResolvedLost
	GiveUpFreedPredecessor
	GiveUpFoundOwn
	GiveUpFreedOwn
	SeenUnchanged
	StaleAnswer
	Crashed
	Jumped
	Broke
	BrokeNow
	TookBroken
	TookBrokenNow
	LostToBreak
	TwoUnderNow
	WatchOutlastsBreak
	FreedBroken
	RetakenBroken

	Detached
	Attached
	UsedAnnounced
	TicketRefused
	TicketRenewed
	DiedAnnounced
	TookDead

	TookDeadBroken
	SeenOld
	SeenOldByBoth

	YieldRequested
	RenewedOverRequest
	ResolvedByHolderNonce
	WatchOutlastsRequest

	Swept

	eventCount
)

var eventTexts = [eventCount]string{
	Granted:                  "an absent or free lock is granted",
	Renewed:                  "a renewal is applied",
	Freed:                    "a release is applied",
	Ended:                    "a release or give-up is confirmed",
	EndedByReadBack:          "a release or give-up is resolved by a read-back",
	ReleaseUnresolved:        "the outcome of a release is unknown at the deadline: the lock is free after the TTL",
	TakenOver:                "a lock is taken over from another client",
	TakenOverFromOneself:     "a client takes over its own former grant",
	RetakenAtOnce:            "a client sends an acquire over its own former grant without waiting",
	Expired:                  "a holder passes its deadline",
	ExpiredDuringRenewal:     "a holder passes its deadline while a renewal is under way",
	BornExpired:              "an acquire turns out to be applied after its deadline",
	LateApply:                "a write is applied after its sender stopped waiting for it",
	LateApplyOfOldGrant:      "a write is applied after its grant was given up, forgotten or replaced",
	LostReply:                "a write is applied and its reply is lost",
	Refused:                  "a write conflicts",
	RefusedRetry:             "a retry conflicts, perhaps with the first try",
	ResolvedOurs:             "the client finds out that its write of unknown outcome was applied",
	ResolvedByEarlierAttempt: "the client finds out that an attempt before the last one was applied",
	ResolvedNotApplied:       "the client finds out that its write of unknown outcome is not applied yet",
	ResolvedLost:             "the client finds out that its grant is lost",
	GiveUpFreedPredecessor:   "a client gives an acquire up: its free record is applied over the predecessor",
	GiveUpFoundOwn:           "a client gives an acquire up and finds that the acquire was applied",
	GiveUpFreedOwn:           "an acquire is given up after it was applied, and freed",
	SeenUnchanged:            "a waiter sees the same version again",
	StaleAnswer:              "an answer arrives after the register has changed",
	Crashed:                  "a client forgets everything",
	Jumped:                   "a holder's wall clock jumps past its deadline",
	Broke:                    "a lock is broken without --now",
	BrokeNow:                 "a lock is broken with --now",
	TookBroken:               "a broken lock is taken after waiting",
	TookBrokenNow:            "a lock broken with --now is taken at once",
	LostToBreak:              "a holder reads that its lock was broken",
	TwoUnderNow:              "after a break with --now, two clients believe that they hold the lock",
	WatchOutlastsBreak:       "a waiter continues its watch of the broken grant's last write",
	FreedBroken:              "a release frees a lease that was broken",
	RetakenBroken:            "a client sends an acquire over its own broken grant without waiting",

	Detached:      "a holder leaves its lease in a ticket",
	Attached:      "a write with a ticket is applied, and the client gets a guard",
	UsedAnnounced: "a ticket is used by a write that it announced",
	TicketRefused: "a ticket is refused because its lease continued without the ticket",
	TicketRenewed: "the renewal of a ticket returns the next ticket",
	DiedAnnounced: "a client forgets everything after it announced a write",
	TookDead:      "a client sends an acquire over a dead process's grant without waiting",

	TookDeadBroken: "a client sends an acquire over a dead process's broken grant without waiting",
	SeenOld:        "a waiter finds a version old enough by the store's clock",
	SeenOldByBoth:  "a waiter finds a broken record old enough, counted with the age of the broken grant's last write",

	YieldRequested:        "a request to yield is applied",
	RenewedOverRequest:    "a holder whose write conflicts with a request to yield renews over it",
	ResolvedByHolderNonce: "the mark in a request to yield shows that a write of unknown outcome was applied",
	WatchOutlastsRequest:  "a waiter continues its watch of the write that a request to yield replaced",

	Swept: "the removal of a record is applied",
}

// Events returns the events of a world without tickets and presence.
func Events() []Event { return explore.Between(Event(0), Detached) }

// TicketEvents returns the additional events of worlds with tickets and presence.
func TicketEvents() []Event { return explore.Between(Detached, TookDeadBroken) }

// YieldEvents returns the additional events of worlds with requests to yield.
func YieldEvents() []Event { return explore.Between(YieldRequested, Swept) }

// String describes the event.
func (e Event) String() string { return eventTexts[e] }

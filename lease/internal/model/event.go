package model

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// Event is something that must happen in a model for it to mean anything: a property
// holds in every world in which nothing happens.
type Event uint8

// The events. String says what each is.
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

	eventCount
)

var eventTexts = [eventCount]string{
	Granted:                  "an absent or free lock is granted",
	Renewed:                  "a renewal is applied",
	Freed:                    "a release is applied",
	Ended:                    "a release or give-up is confirmed",
	EndedByReadBack:          "a release or give-up is resolved by a read-back",
	ReleaseUnresolved:        "a release is not resolved by the deadline and is left to the TTL",
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
	ResolvedOurs:             "an unknown outcome is resolved: ours",
	ResolvedByEarlierAttempt: "an unknown outcome is resolved by an attempt that was not the last",
	ResolvedNotApplied:       "an unknown outcome is found not to be applied yet",
	ResolvedLost:             "a grant is resolved: lost",
	GiveUpFreedPredecessor:   "an acquire is given up: free is applied over its predecessor",
	GiveUpFoundOwn:           "an acquire is given up and found to be applied",
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
	TwoUnderNow:              "two clients believe after a break with --now",
	WatchOutlastsBreak:       "a waiter continues its watch of what was broken",
	FreedBroken:              "a release frees a lease that was broken",
	RetakenBroken:            "a client sends an acquire over its own broken grant without waiting",

	Detached:      "a holder leaves its lease in a ticket",
	Attached:      "a write with a ticket is applied, for a guard",
	UsedAnnounced: "a ticket is good for a write that it announced",
	TicketRefused: "a ticket is refused, since its lease continued without it",
	TicketRenewed: "the renewal of a ticket leaves the next one",
	DiedAnnounced: "a client forgets everything after it announced a write",
	TookDead:      "a client sends an acquire over a dead process's grant without waiting",

	TookDeadBroken: "a client sends an acquire over a dead process's broken grant without waiting",
	SeenOld:        "a waiter finds a version old enough by the store's clock",
	SeenOldByBoth:  "a waiter finds a broken record old enough together with what it broke",

	YieldRequested:        "a request to yield is applied",
	RenewedOverRequest:    "a holder whose write conflicts with a request to yield renews over it",
	ResolvedByHolderNonce: "an unknown outcome is resolved by the mark of a request to yield: ours",
	WatchOutlastsRequest:  "a waiter continues its watch of the write that a request to yield replaced",
}

// Events returns the events of a world without tickets and presence.
func Events() []Event { return explore.Between(Event(0), Detached) }

// TicketEvents returns those that tickets and presence bring.
func TicketEvents() []Event { return explore.Between(Detached, TookDeadBroken) }

// YieldEvents returns those that requests to yield bring.
func YieldEvents() []Event { return explore.Between(YieldRequested, eventCount) }

// String says what happened.
func (e Event) String() string { return eventTexts[e] }

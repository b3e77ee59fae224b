package sessionmodel

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// Event is something that must happen in a model for it to mean anything: a property
// holds in every world in which nothing happens.
type Event uint8

// The events. String says what each is.
const (
	Opened Event = iota
	OpeningAbandoned
	Renewed
	Closed
	Expired
	BornExpired
	Revoked
	Granted
	TookRevoked
	Freed
	FreedPredecessor
	ClaimOfTheDead
	ClaimResolvedOurs
	GiveUpFoundOwn
	Refused
	ResolvedOurs
	ResolvedNotApplied
	LateApply
	LostReply

	Crashed

	Removed
	WrotePlaceholder
	ResolvedLost

	Notified
	AcknowledgedRequest
	SeenThroughNotification

	TookLease

	Broke
	HeardBreak

	LateOpening

	eventCount
)

var eventTexts = [eventCount]string{
	Opened:             "the opening of a session is applied",
	OpeningAbandoned:   "an opening of unknown outcome is given up",
	Renewed:            "a renewal is applied",
	Closed:             "closed is applied",
	Expired:            "a session passes its deadline",
	BornExpired:        "an opening or a renewal turns out to be applied after its deadline",
	Revoked:            "a session is revoked",
	Granted:            "a free lock is granted",
	TookRevoked:        "a lock is taken over from a session that is revoked or closed",
	Freed:              "a release is applied",
	FreedPredecessor:   "a claim is given up: free is applied over its predecessor",
	ClaimOfTheDead:     "a claim is applied under a session that is over",
	ClaimResolvedOurs:  "a claim of unknown outcome is resolved: ours",
	GiveUpFoundOwn:     "a claim that was given up, or a release, is found to be in force",
	Refused:            "a claim or a release is refused for certain",
	ResolvedOurs:       "a renewal of unknown outcome is resolved: ours",
	ResolvedNotApplied: "a renewal of unknown outcome is found not to be applied yet",
	ResolvedLost:       "a session is resolved: lost",
	LateApply:          "a write is applied for which its sender does not wait any more",
	LostReply:          "a write is applied and its reply is lost",

	Crashed: "a client forgets everything",

	Removed:          "the record of a session is removed",
	WrotePlaceholder: "a record is made in place of an absent session",
	LateOpening:      "an opening is applied after its session was over and its record removed",

	Notified:                "a request to yield or a notification is applied",
	AcknowledgedRequest:     "a holder reads a request to yield, and continues",
	SeenThroughNotification: "a waiter continues its watch of a mark over a notification",

	Broke:      "a lock is broken",
	HeardBreak: "a holder reads that its lock was broken, and then frees it",

	TookLease: "a plain lease is taken over",
}

// Events returns the events of a world in which nothing is switched on.
func Events() []Event { return explore.Between(Event(0), Crashed) }

// RemoveEvents returns those that the removal of records brings.
func RemoveEvents() []Event { return explore.Between(Removed, Notified) }

// YieldEvents returns those that requests to yield and notifications bring.
func YieldEvents() []Event { return explore.Between(Notified, TookLease) }

// String says what happened.
func (e Event) String() string { return eventTexts[e] }

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
	Renewed:            "a beat is applied",
	Closed:             "closed is applied",
	Expired:            "a session passes its deadline",
	BornExpired:        "an opening or a beat turns out to be applied after its deadline",
	Revoked:            "a session is fenced",
	Granted:            "a free lock is granted",
	TookRevoked:        "a lock is taken over from a session that is fenced or closed",
	Freed:              "a release is applied",
	FreedPredecessor:   "a claim is given up: free lands on its predecessor",
	ClaimOfTheDead:     "a claim is applied under a session that is over",
	ClaimResolvedOurs:  "a claim of unknown outcome is settled: ours",
	GiveUpFoundOwn:     "a claim that was given up, or a release, is found to be in force",
	Refused:            "a claim or a release is refused for certain",
	ResolvedOurs:       "a beat of unknown outcome is settled: ours",
	ResolvedNotApplied: "a beat of unknown outcome is found not to be applied yet",
	ResolvedLost:       "a session is settled: lost",
	LateApply:          "a write is applied for which its sender does not wait any more",
	LostReply:          "a write is applied and its reply is lost",

	Crashed: "a client forgets everything",

	Removed:          "the record of a session is removed",
	WrotePlaceholder: "a record is made in place of an absent session",
	LateOpening:      "an opening is applied after its session was over and its record removed",

	Notified:                "an ask is applied",
	AcknowledgedRequest:     "a holder hears that it was asked, and goes on",
	SeenThroughNotification: "a waiter goes on with its watch of a mark through an ask",

	Broke:      "a lock is broken",
	HeardBreak: "a holder hears that its lock was broken, and goes on to free it",

	TookLease: "a plain lease is taken over",
}

// Events returns the events of a world in which nothing is switched on.
func Events() []Event { return explore.Between(Event(0), Crashed) }

// RemoveEvents returns those that the removal of records brings.
func RemoveEvents() []Event { return explore.Between(Removed, Notified) }

// YieldEvents returns those that asks bring.
func YieldEvents() []Event { return explore.Between(Notified, TookLease) }

// String says what happened.
func (e Event) String() string { return eventTexts[e] }

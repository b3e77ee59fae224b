package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Event is something that must happen at least once in a search. In a world in which nothing happens,
// every property holds, and a search proves nothing.
type Event uint8

// The events. [Event.String] describes each.
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
	FreedPredecessor:   "a client gives a claim up: its free record is applied over the predecessor",
	ClaimOfTheDead:     "a claim is applied under a session that is over",
	ClaimResolvedOurs:  "the client finds out that its claim of unknown outcome was applied",
	GiveUpFoundOwn:     "the record still has a claim that was given up, or a grant that was released",
	Refused:            "a claim or a release is refused for certain",
	ResolvedOurs:       "the client finds out that its renewal of unknown outcome was applied",
	ResolvedNotApplied: "the client finds out that its renewal of unknown outcome is not applied yet",
	ResolvedLost:       "the client finds out that its session is lost",
	LateApply:          "a write is applied after its sender stopped waiting for it",
	LostReply:          "a write is applied and its reply is lost",

	Crashed: "a client forgets everything",

	Removed:          "the record of a session is removed",
	WrotePlaceholder: "a record is made in place of an absent session",
	LateOpening:      "an opening is applied after its session was over and its record removed",

	Notified:                "a request to yield or a notification is applied",
	AcknowledgedRequest:     "a holder reads a request to yield, and continues",
	SeenThroughNotification: "a waiter continues its watch of a mark after a notification",

	Broke:      "a lock is broken",
	HeardBreak: "a holder reads that its lock was broken, and frees the lock",

	TookLease: "a plain lease is taken over",
}

// Events returns the events of a world in which the flags of [Config] are false.
func Events() []Event { return explore.Between(Event(0), Crashed) }

// RemoveEvents returns the additional events of worlds with Remove.
func RemoveEvents() []Event { return explore.Between(Removed, Notified) }

// YieldEvents returns the additional events of worlds with Notify.
func YieldEvents() []Event { return explore.Between(Notified, TookLease) }

// String describes the event.
func (e Event) String() string { return eventTexts[e] }

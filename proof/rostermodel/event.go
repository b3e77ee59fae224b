package rostermodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Event is something that must happen at least once in a search.
type Event uint8

// The events. [Event.String] describes each.
const (
	HandedOver Event = iota
	Queued
	Left
	LeftTheQueue
	DroppedDead
	Ended
	Revoked
	ResolvedEntry
	Promoted
	LateEntry
	Resized

	eventCount
)

var eventTexts = [eventCount]string{
	HandedOver:    "a write makes another client a holder",
	Queued:        "a client enters the queue",
	Left:          "a client leaves",
	LeftTheQueue:  "a waiter leaves the queue",
	DroppedDead:   "entries of revoked sessions are removed",
	Ended:         "a session ends",
	Revoked:       "a session is revoked",
	ResolvedEntry: "an entry of unknown outcome is found by reading",
	Promoted:      "a waiter reads that it is a holder",
	LateEntry:     "an entry is applied after its session was over",
	Resized:       "the number of slots is changed",
}

// Events returns all events except Resized.
func Events() []Event { return explore.Between(0, Resized) }

// String describes the event.
func (e Event) String() string { return eventTexts[e] }

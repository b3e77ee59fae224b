package rostermodel

// Fault is one wrong rule. The checker must catch every one of them.
type Fault int

// The faults. What each does is told by [Fault.Why].
const (
	NoFault Fault = iota
	DropUnfenced
	BelievesLate
	LeaveBlind
	LeaveInSilence
	LeavesTheQueueOnly
	ReaderPassesWriter
	WriterBesideReader
	TailFirst
	ReleaseHandsNothingOver
	OnlyTheHeadJudges
	SlotByCount
	OneSlotTooMany
	FullDropsOldest
	TokenKept

	faults
)

var faultTexts = [faults]struct{ name, why string }{
	NoFault:                 {"NoFault", "every rule as it stands"},
	DropUnfenced:            {"DropUnfenced", "an entry of another is removed, and its session is not fenced first"},
	BelievesLate:            {"BelievesLate", "a waiter that reads that it is a holder believes it, although the deadline of its session has passed"},
	LeaveBlind:              {"LeaveBlind", "an entry is removed without condition"},
	LeaveInSilence:          {"LeaveInSilence", "a waiter gives up and leaves its entry where it is"},
	LeavesTheQueueOnly:      {"LeavesTheQueueOnly", "a waiter that gives up, and was made a holder meanwhile, does not release"},
	ReaderPassesWriter:      {"ReaderPassesWriter", "a new reader is admitted beside a pending writer"},
	WriterBesideReader:      {"WriterBesideReader", "a writer is admitted beside readers"},
	TailFirst:               {"TailFirst", "a release hands over to the last of the queue"},
	ReleaseHandsNothingOver: {"ReleaseHandsNothingOver", "a release does not hand over, and no waiter looks whether it could be granted"},
	OnlyTheHeadJudges:       {"OnlyTheHeadJudges", "a waiter that is not the head of the queue does not judge the one directly ahead of it either"},
	SlotByCount:             {"SlotByCount", "a slot is numbered by how many are taken"},
	OneSlotTooMany:          {"OneSlotTooMany", "one more slot is granted than there are"},
	FullDropsOldest:         {"FullDropsOldest", "a record that is full drops its oldest waiter for a new entry"},
	TokenKept:               {"TokenKept", "a grant does not raise the token"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// Faults returns all faults, NoFault not among them.
func Faults() []Fault {
	var all []Fault
	for f := NoFault + 1; f < faults; f++ {
		all = append(all, f)
	}
	return all
}

// Property is one promise that the protocol makes.
type Property int

// The properties.
const (
	Kept Property = iota
	Exclusion
	Dropped
	Known
	Overtaken
	TooMany
	TokenRises
	Progress
	Freedom

	properties
)

var propertyTexts = [properties]string{
	Kept:       "nothing is broken",
	Exclusion:  "two clients believe at one instant what excludes each other",
	Dropped:    "a waiter or holder whose session lives is not in the record any more",
	Known:      "a record has an entry of a living session whose client does not know of it",
	Overtaken:  "a client is granted before one that has waited for longer",
	TooMany:    "a slot is granted that there is not",
	TokenRises: "a token does not rise",
	Progress:   "a client that is left alone with a good network is not granted",
	Freedom:    "a client is not granted, although the others live and want nothing",
}

// String says what it means that the property is broken.
func (p Property) String() string { return propertyTexts[p] }

// Event is something that must happen in a model for it to mean anything.
type Event uint8

type events uint64

// The events. String says what each is.
const (
	HandedOver Event = iota
	Queued
	Left
	LeftTheQueue
	DroppedDead
	Ended
	Fenced
	SettledEntry
	Promoted
	LateEntry
	Resized

	eventCount
)

var eventTexts = [eventCount]string{
	HandedOver:   "a write makes another client a holder",
	Queued:       "a client enters the queue",
	Left:         "a client leaves",
	LeftTheQueue: "a waiter leaves the queue",
	DroppedDead:  "fenced entries are removed",
	Ended:        "a session ends",
	Fenced:       "a session is fenced",
	SettledEntry: "an entry of unknown outcome is found by reading",
	Promoted:     "a waiter reads that it is a holder",
	LateEntry:    "an entry is applied after its session was over",
	Resized:      "the number of slots is changed",
}

// Events returns all but Resized.
func Events() []Event {
	var all []Event
	for e := range Resized {
		all = append(all, e)
	}
	return all
}

// String says what happened.
func (e Event) String() string { return eventTexts[e] }

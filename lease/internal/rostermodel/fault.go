package rostermodel

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// Fault is one wrong rule. The checker must catch every one of them.
type Fault int

// The faults. [Fault.Why] describes each.
const (
	NoFault Fault = iota
	DropUnrevoked
	BelievesLate
	LeaveBlind
	LeaveWithoutWrite
	LeavesTheQueueOnly
	ReaderPassesWriter
	WriterBesideReader
	TailFirst
	ReleaseHandsNothingOver
	OnlyTheHeadDecides
	SlotByCount
	OneSlotTooMany
	FullDropsOldest
	TokenKept

	faults
)

var faultTexts = [faults]struct{ name, why string }{
	NoFault:                 {"NoFault", "every rule as it is"},
	DropUnrevoked:           {"DropUnrevoked", "an entry of another is removed, and its session is not revoked first"},
	BelievesLate:            {"BelievesLate", "a waiter that reads that it is a holder believes it, although the deadline of its session has passed"},
	LeaveBlind:              {"LeaveBlind", "an entry is removed without condition"},
	LeaveWithoutWrite:       {"LeaveWithoutWrite", "a waiter gives up and leaves its entry in the record"},
	LeavesTheQueueOnly:      {"LeavesTheQueueOnly", "a waiter that gives up, and was made a holder meanwhile, does not release"},
	ReaderPassesWriter:      {"ReaderPassesWriter", "a new reader is admitted although a writer waits"},
	WriterBesideReader:      {"WriterBesideReader", "a writer is admitted while readers hold the lock"},
	TailFirst:               {"TailFirst", "a release hands over to the last of the queue"},
	ReleaseHandsNothingOver: {"ReleaseHandsNothingOver", "a release does not hand over, and no waiter checks whether it could be granted"},
	OnlyTheHeadDecides:      {"OnlyTheHeadDecides", "a waiter that is not the head of the queue does not evaluate the one directly ahead of it either"},
	SlotByCount:             {"SlotByCount", "a slot is numbered by how many are taken"},
	OneSlotTooMany:          {"OneSlotTooMany", "one slot too many is granted"},
	FullDropsOldest:         {"FullDropsOldest", "a record that is full drops its oldest waiter for a new entry"},
	TokenKept:               {"TokenKept", "a grant does not raise the token"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// Faults returns all faults, NoFault not among them.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

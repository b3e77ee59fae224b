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
	OnlyTheHeadDecides

	faults
)

var faultTexts = [faults]struct{ name, why string }{
	NoFault:            {"NoFault", "every rule as it is"},
	DropUnrevoked:      {"DropUnrevoked", "an entry of another is removed, and its session is not revoked first"},
	BelievesLate:       {"BelievesLate", "a waiter that reads that it is a holder believes it, although the deadline of its session has passed"},
	LeaveBlind:         {"LeaveBlind", "an entry is removed without condition"},
	LeaveWithoutWrite:  {"LeaveWithoutWrite", "a waiter gives up and leaves its entry in the record"},
	LeavesTheQueueOnly: {"LeavesTheQueueOnly", "a waiter that gives up, and was made a holder meanwhile, does not release"},
	OnlyTheHeadDecides: {"OnlyTheHeadDecides", "a waiter that is not the head of the queue does not evaluate the one directly ahead of it either"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// Faults returns all faults, NoFault not among them.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

package rostermodel

import "github.com/holdfast-go/holdfast/proof/explore"

// Fault is one wrong rule of a client. A search must find every one of them.
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
	NoFault:            {"NoFault", "no rule is wrong"},
	DropUnrevoked:      {"DropUnrevoked", "a client removes the entry of another client, but does not revoke its session first"},
	BelievesLate:       {"BelievesLate", "a waiter reads that it is a holder and believes it, although the deadline of its session has passed"},
	LeaveBlind:         {"LeaveBlind", "an entry is removed without condition"},
	LeaveWithoutWrite:  {"LeaveWithoutWrite", "a waiter gives up and leaves its entry in the record"},
	LeavesTheQueueOnly: {"LeavesTheQueueOnly", "a waiter that gives up does not release the lock if a release has made it a holder meanwhile"},
	OnlyTheHeadDecides: {"OnlyTheHeadDecides", "only the first waiter of the queue checks others; a later waiter does not check the waiter before it"},
}

// String returns the name of the fault.
func (f Fault) String() string { return faultTexts[f].name }

// Why says in words which rule is broken.
func (f Fault) Why() string { return faultTexts[f].why }

// Faults returns all faults except NoFault.
func Faults() []Fault { return explore.Between(NoFault+1, faults) }

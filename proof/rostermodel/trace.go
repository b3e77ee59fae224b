package rostermodel

import (
	"fmt"
	"strings"
)

// Teller returns a function that describes the steps of a run, one after the other.
func (m *machine) Teller() func(e *edge) (what, where string) {
	at := m.Start()
	return func(e *edge) (what, where string) {
		what = describe(&at, e)
		at = e.Next
		return what, m.shape(&at)
	}
}

func name(c uint8) string { return [...]string{"A", "B", "C", "an operator"}[c] }

var (
	purposes = [...]string{toEnter: "entry", toLeave: "leaving", toDrop: "removal of the revoked", toResize: "other number of slots"}
	wishes   = [...]string{reader: "a reader", writer: "a writer", slotted: "a slot's holder"}
)

// describe describes one step. The state is the one before it.
func describe(s *state, e *edge) string {
	who := name(e.Step.who)
	switch e.Step.op {
	case opApply:
		return "the store applies " + who + "'s " + purposes[s.flight[e.Step.arg].what]
	case opApplySilently:
		return "the store applies " + who + "'s " + purposes[s.flight[e.Step.arg].what] + ", and its reply is lost"
	case opLose:
		return who + "'s " + purposes[s.flight[e.Step.arg].what] + " never arrives"
	case opEnd:
		return who + "'s session ends"
	case opEnter:
		text := who + " sends its entry as " + wishes[e.Step.arg]
		if e.Step.fair == 1 {
			text += ", in turn"
		}
		return text
	case opEnterAgain:
		return who + " sends its entry again"
	case opRead:
		return who + " reads"
	case opLeave:
		return who + " leaves"
	case opLeaveAgain:
		return who + " sends its leaving again"
	case opFence:
		l := &s.reg.holders
		if e.Step.fair == 1 {
			l = &s.reg.queue
		}
		return who + " revokes " + name(l[e.Step.arg].who) + "'s former session"
	case opDrop:
		return who + " removes what is revoked"
	}
	return "the number of slots is to change"
}

// shape describes the state in a few words.
func (m *machine) shape(s *state) string {
	var b strings.Builder
	b.WriteString("| holders" + entries(&s.reg.holders) + " | queue" + entries(&s.reg.queue))
	for c := range m.Clients {
		if cl := &s.cl[c]; cl.mode == holding {
			fmt.Fprintf(&b, " | %s believes", name(uint8(c)))
		}
	}
	return b.String()
}

func entries(l *list) string {
	text := ""
	for i := range count(l) {
		e := &l[i]
		text += " " + name(e.who) + [...]string{reader: "r", writer: "w", slotted: "s"}[e.mode]
		if e.slot > 0 {
			text += fmt.Sprint(e.slot)
		}
		text += [...]string{living: "", lost: "(over)", fenced: "(fenced)"}[e.sess]
	}
	return text
}

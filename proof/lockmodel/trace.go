package lockmodel

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// tracer describes a run in words.
type tracer struct {
	m     *machine
	at    state
	token int // what the largest token would be without normalisation
}

// Teller returns a function that describes the steps of a run, one after the other.
func (m *machine) Teller() func(e *edge) (what, where string) {
	t := &tracer{m: m, at: m.Start()}
	return func(e *edge) (what, where string) {
		what = t.describe(e)
		t.token += int(e.Step.raised)
		t.at = e.Next
		return what, t.shape()
	}
}

func name[T int | uint8](c T) string { return [3]string{"A", "B", "the operator"}[c] }

func (t *tracer) tok(v uint8) int { return t.token + int(v) - explore.TopToken }

var purposes = [...]string{toAcquire: "acquire", toRenew: "renewal", toRelease: "release", toGiveUp: "give-up", toBreak: "break", toAttach: "attach", toExtend: "renewal of a ticket", toAsk: "request to yield", toSweep: "removal"}

// plainSteps are the steps that need few words: %s is who takes the step.
var plainSteps = [...]string{
	opRead:            "%s reads; the answer is on its way",
	opAsk:             "%s sends a read",
	opSnapshot:        "the store answers %s's read",
	opNoAnswer:        "%s gets no answer",
	opRefuseWithValue: "%s's write conflicts; the answer carries the value",
	opTimeout:         "%s gets no reply to its write and stops waiting",
	opTimeoutLost:     "%s's write is lost; it gets no reply and stops waiting",
	opDefinite:        "%s's write fails for certain",
	opCrash:           "%s forgets everything",
	opJump:            "%s's wall clock jumps",
	opDetach:          "%s detaches and leaves a ticket in its file",
	opLeave:           "%s gives that up",
}

// describe describes one step. The state is still the one before it.
func (t *tracer) describe(e *edge) string {
	who := name(e.Step.who)
	after := &e.Next.cl[min(e.Step.who, 1)]
	if op := int(e.Step.op); op < len(plainSteps) && plainSteps[op] != "" {
		return fmt.Sprintf(plainSteps[op], who)
	}
	switch e.Step.op {
	case opAnswer:
		return who + " gets the answer: " + t.reply(int(e.Step.who)) + then(after)
	case opAcquire:
		return who + " sends an acquire" + fate(after)
	case opRetry:
		return who + " sends its acquire again" + fate(after)
	case opRenew:
		return who + " sends a renewal" + fate(after)
	case opGiveUp:
		return who + " gives its acquire up" + then(after)
	case opRelease:
		return who + " releases: it sends free" + fate(after)
	case opFree:
		return who + " sends free again" + fate(after)
	case opConfirm:
		return who + " reads that its write was applied" + then(after)
	case opRefuse:
		return who + " reads of a conflict" + then(after)
	case opCopy:
		return who + "'s file is copied to " + name(1-e.Step.who)
	case opUse:
		return who + " reads, to " + [...]string{"attach", "renew", "release"}[e.Step.arg] + " with its ticket" + then(after)
	case opSendTicket:
		return who + " sends it" + fate(after)
	}
	return t.describeWorld(e)
}

func (t *tracer) describeWorld(e *edge) string {
	switch e.Step.op {
	case opApply:
		r := &t.at.flight[e.Step.arg]
		late := ""
		if r.by < operator && t.at.cl[r.by].wver != r.rec.ver {
			late = ", late"
		}
		return fmt.Sprintf("the store applies %s's %s%s", name(r.by), purposes[r.what], late)
	case opBreak:
		return "the operator sends a break"
	case opBreakNow:
		return "the operator sends a break with --now"
	case opSweep:
		return "a program sends the removal of the record"
	case opAskHolder:
		return "another client sends a request to yield"
	}
	rate := [3]string{"slow", "fast", "asleep"}
	clocks := fmt.Sprintf("a tick passes: A %s, B %s", rate[e.Step.who], rate[e.Step.arg&3])
	if t.m.Age {
		clocks += ", the store " + rate[e.Step.arg>>2]
	}
	return clocks
}

func fate(c *client) string {
	if c.io == refused {
		return ", over a version that was replaced"
	}
	return ""
}

func then(c *client) string {
	return "; it is " + [...]string{idle: "idle", acquiring: "acquiring", holding: "holding", releasing: "releasing", givingUp: "giving up",
		attaching: "attaching", extending: "renewing its ticket", freeing: "freeing with its ticket"}[c.mode]
}

func (t *tracer) record(r *record) string {
	switch r.kind {
	case absent:
		return "absent"
	case free:
		return fmt.Sprintf("free %d", t.tok(r.tok))
	case held:
		return fmt.Sprintf("held %d ttl %d", t.tok(r.tok), r.ttl)
	case broken:
		return fmt.Sprintf("broken %d ttl %d age %d", t.tok(r.tok), r.ttl, r.stood)
	}
	return fmt.Sprintf("broken now %d", t.tok(r.tok))
}

// reply describes an answer on its way to client c. Of another client's record normalisation has
// left only how long it makes the client wait.
func (t *tracer) reply(c int) string {
	switch r := &t.at.cl[c].reply; {
	case r.kind == held && r.grant != 0 && r.grant == t.at.cl[c].grant:
		return "held by its own grant"
	case t.m.isOld(r):
		return "old enough"
	case t.m.patience(c, *r) == 0:
		return "may be taken"
	case r.formerlyOf(c):
		return "its own former grant"
	case r.ver != t.at.reg.ver:
		return "held (no longer so)"
	default:
		return t.record(r)
	}
}

// shape describes the state in a few words.
func (t *tracer) shape() string {
	var b strings.Builder
	r := &t.at.reg
	fmt.Fprintf(&b, "| %s", t.record(r))
	if r.kind == held {
		fmt.Fprintf(&b, " by %s", name(r.owner))
	}
	var w world
	t.m.Begin(&w, &t.at)
	for c := range w.cl {
		if cl := &w.cl[c]; w.believes(c) {
			fmt.Fprintf(&b, " | %s believes, %d left", name(c), cl.left)
		} else if cl.wait > 0 {
			fmt.Fprintf(&b, " | %s waits %d more", name(c), cl.wait)
		}
	}
	return b.String()
}

package sessionmodel

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// tracer describes a run in words.
type tracer struct {
	m     *machine
	at    state
	token [locks]int // what the largest tokens would be without normalisation
}

// Teller returns a function that describes the steps of a run, one after the other.
func (m *machine) Teller() func(e *edge) (what, where string) {
	t := &tracer{m: m, at: m.Start()}
	return func(e *edge) (what, where string) {
		what = t.describe(e)
		for l, by := range e.Step.raised {
			t.token[l] += int(by)
		}
		t.at = e.Next
		return what, t.shape()
	}
}

func name[T int | uint8](c T) string { return [3]string{"A", "B", "an operator"}[c] }

// place names a register.
func place[T int | uint8](reg T) string {
	switch {
	case reg < locks:
		return fmt.Sprintf("lock %d", reg+1)
	case reg < formerAt:
		return name(reg-firstSess) + "'s session"
	}
	return "former session " + string(rune('P'+int(reg-formerAt)))
}

var kinds = [...]string{absent: "absent", free: "free", held: "held", broken: "broken", open: "open", fenced: "fenced", closed: "closed"}

var purposes = [...]string{toOpen: "opening", toBeat: "beat", toClose: "close", toFence: "fence", toStandIn: "stand-in", toPoke: "ask", toClaim: "claim", toFree: "free", toBreak: "break"}

// plainSteps are the steps that need few words: %[1]s is who takes the step, and %[2]s the register.
var plainSteps = [...]string{
	opOpen:        "%[1]s sends the opening of a session",
	opAbandon:     "%[1]s gives that up",
	opBeat:        "%[1]s sends a renewal",
	opSettle:      "%[1]s reads the outcome of its renewal",
	opClose:       "%[1]s closes: it ends all belief and sends closed",
	opClaim:       "%[1]s claims %[2]s",
	opClaimAgain:  "%[1]s sends its claim of %[2]s again",
	opSettleClaim: "%[1]s reads %[2]s back",
	opSettleFree:  "%[1]s reads %[2]s back",
	opGiveUp:      "%[1]s gives up its claim of %[2]s, and sends free",
	opRelease:     "%[1]s releases %[2]s, and sends free",
	opFreeAgain:   "%[1]s sends free again to %[2]s",
	opFence:       "%[1]s sends a revocation of %[2]s",
	opStandIn:     "%[1]s finds the session of %[2]s absent, and sends a placeholder",
	opAsk:         "%[1]s requests %[2]s in its record",
	opPoke:        "%[1]s requests %[2]s in its session's record",
	opBreak:       "an operator breaks %[2]s",
	opCrash:       "%[1]s forgets everything",
	opHearBreak:   "%[1]s hears that %[2]s was broken",
}

// describe describes one step. The state is still the one before it.
func (t *tracer) describe(e *edge) string {
	who, arg := name(e.Step.who), e.Step.arg
	switch e.Step.op {
	case opApply, opApplySilently, opDrop:
		return t.describeWrite(e)
	case opRemove:
		text := "the record of " + place(arg) + " is removed"
		for c := range 2 {
			if e.Step.who&(1<<c) != 0 {
				text += "; " + name(c) + " has read it"
			}
		}
		return text
	case opTick:
		rate := [2]string{"slow", "fast"}
		return fmt.Sprintf("a tick passes: A %s, B %s", rate[e.Step.who], rate[arg])
	case opLook:
		return who + " looks at " + place(arg) + t.seen(e)
	}
	return fmt.Sprintf(plainSteps[e.Step.op], who, place(arg))
}

func (t *tracer) describeWrite(e *edge) string {
	r := &t.at.flight[e.Step.arg]
	what := fmt.Sprintf("%s's %s of %s", name(r.by), purposes[r.what], place(r.reg))
	switch e.Step.op {
	case opApply:
		return "the store applies " + what
	case opDrop:
		return what + " never arrives"
	}
	return "the store applies " + what + ", and its reply is lost"
}

func (t *tracer) seen(e *edge) string {
	switch w := &e.Next.cl[e.Step.who].watch[e.Step.arg]; w.kind {
	case timed:
		return fmt.Sprintf(": waits %d", w.wait)
	}
	return ": absent"
}

// shape describes the state in a few words.
func (t *tracer) shape() string {
	var b strings.Builder
	for l := range t.m.Locks {
		r := &t.at.reg[l]
		what := "free"
		if r.isTaken() {
			if what = place(r.under); !isSession(r.under) {
				what = name(r.owner) + "'s lease"
			}
			if r.kind == broken {
				what += " (broken)"
			}
		}
		fmt.Fprintf(&b, "| %d %s ", t.token[l]+int(r.tok)-explore.TopToken, what)
	}
	for reg := firstSess; reg < registers; reg++ {
		if t.at.isNamed(uint8(reg)) {
			fmt.Fprintf(&b, "| %s %s ", place(reg), kinds[t.at.reg[reg].kind])
		}
	}
	var w world
	t.m.Begin(&w, &t.at)
	for c := range w.cl {
		if w.trusts(c) {
			fmt.Fprintf(&b, "| %s trusts for %d ", name(c), w.cl[c].term.left)
		}
		for l := range t.m.Locks {
			if w.believes(c, l) {
				fmt.Fprintf(&b, "and holds %d ", l+1)
			}
		}
	}
	return b.String()
}

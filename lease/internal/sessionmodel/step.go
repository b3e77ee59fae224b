package sessionmodel

import "github.com/holdfast-go/holdfast/lease/internal/explore"

// The steps of the world.
const (
	opApply uint8 = iota // and the sender hears of it
	opApplySilently
	opDrop
	opRemove
	opTick
	opOpen
	opAbandon
	opBeat
	opSettle
	opClose
	opClaim
	opClaimAgain
	opSettleClaim
	opGiveUp
	opRelease
	opFreeAgain
	opSettleFree
	opLook
	opFence
	opStandIn
	opAsk
	opPoke
	opCrash
	opBreak
	opHearBreak
)

// step names what happened, for the trace. By raised the largest tokens rose.
type step struct {
	op, who, arg uint8
	raised       [locks]uint8
}

// edge is one step of the graph.
type edge = explore.Edge[state, step]

// expansion collects the steps from one state.
type expansion struct {
	m    *machine
	from state
	out  []edge
	w    world // reused, since it would otherwise be allocated for each edge
}

// try adds the state that do leads to, unless do reports that it cannot be done.
func (x *expansion) try(op uint8, who, arg int, do func(w *world) bool) {
	w := &x.w
	*w = world{machine: x.m, state: x.from}
	if !do(w) {
		return
	}
	w.hearRefusals()
	st := step{op: op, who: uint8(who), arg: uint8(arg)}
	st.raised = w.canonical(&w.state)
	w.judge()
	x.out = append(x.out, edge{Next: w.state, Step: st, Events: uint64(w.events), Broke: uint8(w.broke)})
}

// expand returns all steps from s. The slice is reused by the next call.
func (x *expansion) expand(s *state) []edge {
	x.from, x.out = *s, x.out[:0]
	for i := range int(s.n) {
		x.flight(i)
	}
	if x.m.Remove {
		for reg := firstSess; reg < registers; reg++ {
			for saw := range 4 {
				x.try(opRemove, saw, reg, func(w *world) bool { return w.remove(uint8(reg), uint8(saw)) })
			}
		}
	}
	for l := range x.m.Locks {
		if x.m.Break {
			x.try(opBreak, operator, l, func(w *world) bool { return w.sendBreak(l) })
		}
	}
	for c := range s.cl {
		x.client(c)
	}
	x.ticks()
	return x.out
}

// flight lists what may become of write i.
func (x *expansion) flight(i int) {
	r := &x.from.flight[i]
	if r.pred == x.from.reg[r.reg].ver || r.blind == 1 {
		x.w.machine, x.w.state = x.m, x.from
		cares := x.w.cares(r)
		if cares {
			x.try(opApply, int(r.by), i, func(w *world) bool { w.apply(i, true); return true })
		}
		x.try(opApplySilently, int(r.by), i, func(w *world) bool {
			if cares {
				w.note(LostReply)
			}
			w.apply(i, false)
			return true
		})
	}
	x.try(opDrop, int(r.by), i, func(w *world) bool { w.take(i); return true })
}

func (x *expansion) client(c int) {
	cl := &x.from.cl[c]
	try := func(op uint8, arg int, do func(w *world) bool) { x.try(op, c, arg, do) }
	if x.m.Crash {
		try(opCrash, 0, func(w *world) bool { w.crash(c); return true })
	}
	switch cl.term.mode {
	case none:
		if x.m.plain(c) {
			break
		}
		try(opOpen, 0, func(w *world) bool { return w.tryOpen(c, w.vacant(c)) })
		if x.m.Fault == FencedReturns {
			for reg := formerAt; reg < registers; reg++ {
				try(opOpen, reg, func(w *world) bool { return w.reopen(c, uint8(reg)) })
			}
		}
	case opening:
		if x.m.plain(c) {
			break // that is a claim
		}
		try(opOpen, 0, func(w *world) bool { return w.tryOpen(c, nowhere) })
		try(opSettle, 0, func(w *world) bool { return w.settle(c) })
		try(opAbandon, 0, func(w *world) bool { return w.abandon(c) })
	case alive:
		if x.m.Fault == OpeningTrusted && cl.term.base == 0 {
			try(opOpen, 0, func(w *world) bool { return w.tryOpen(c, nowhere) })
		} else {
			try(opBeat, 0, func(w *world) bool { return w.beat(c) })
		}
		if cl.term.n > 0 {
			try(opSettle, 0, func(w *world) bool { return w.settle(c) })
		}
		if !x.m.plain(c) {
			try(opClose, 0, func(w *world) bool { return w.close(c) })
		}
	}
	for l := range x.m.Locks {
		x.lock(c, l)
	}
	for reg := range uint8(registers) {
		if !x.from.isWaiter(x.m, c, reg) {
			continue
		}
		try(opLook, int(reg), func(w *world) bool { return w.look(c, reg) })
		try(opFence, int(reg), func(w *world) bool { return w.fence(c, reg) })
	}
}

// lock lists what client c may do with lock l.
func (x *expansion) lock(c, l int) {
	cl := &x.from.cl[c]
	try := func(op uint8, do func(w *world) bool) { x.try(op, c, l, do) }
	switch cl.hold[l].mode {
	case idle:
		r := &x.from.reg[l]
		try(opClaim, func(w *world) bool { return w.mayClaim(c, l) && w.claim(c, l) })
		if !r.isTaken() {
			return
		}
		if isSession(r.under) {
			try(opStandIn, func(w *world) bool { return w.standIn(c, l) })
		}
		if x.m.Poke {
			try(opAsk, func(w *world) bool { return w.ask(c, l, uint8(l)) })
			if isSession(r.under) {
				try(opPoke, func(w *world) bool { return w.ask(c, l, w.reg[l].under) })
			}
		}
	case claiming:
		try(opClaimAgain, func(w *world) bool { return w.sendClaim(c, l) })
		try(opSettleClaim, func(w *world) bool { return w.settleClaim(c, l) })
		try(opGiveUp, func(w *world) bool { return w.giveUp(c, l) })
	case holding:
		try(opRelease, func(w *world) bool { return w.release(c, l) })
		if x.m.Break {
			try(opHearBreak, func(w *world) bool { return w.hearBreak(c, l) })
		}
	case freeing:
		try(opFreeAgain, func(w *world) bool { return w.freeAgain(c, l) })
		try(opSettleFree, func(w *world) bool { return w.settleFree(c, l) })
	}
}

// crash is a client that forgets everything, and the end of its belief with it.
func (w *world) crash(c int) {
	w.note(Crashed)
	for l := range w.cl[c].hold {
		w.end(c, l, false)
	}
	w.cl[c] = client{}
}

// vacant returns a register that no session has had.
func (w *world) vacant(c int) uint8 {
	for i := range registers - firstSess {
		reg := uint8(firstSess + (c+i)%(registers-firstSess))
		if !w.isNamed(reg) {
			return reg
		}
	}
	return nowhere
}

// reopen opens a session with the id of one that was fenced or closed (a fault).
func (w *world) reopen(c int, reg uint8) bool {
	r := &w.reg[reg]
	if r.kind != fenced && r.kind != closed || r.owner != uint8(c) {
		return false
	}
	w.cl[c].term = term{mode: opening, reg: reg, base: r.ver}
	if !w.send(c, request{reg: reg, what: toOpen, pred: r.ver, rec: record{kind: open, owner: uint8(c), ttl: w.ttl[c]}}) {
		return false
	}
	w.attempt(c)
	return true
}

// ticks lets one tick of true time go by, with every pair of extreme rates.
func (x *expansion) ticks() {
	var n [2]int
	for c := range n {
		if n[c] = 1; x.from.cl[c].isTimed() {
			n[c] = 2
		}
	}
	for i := range n[0] {
		for j := range n[1] {
			x.try(opTick, i, j, func(w *world) bool {
				w.pass(0, uint8(slowest+i), uint8(slowest+i))
				w.pass(1, uint8(slowest+j), uint8(slowest+j))
				return true
			})
		}
	}
}

// isTimed says whether time makes a difference to a client.
func (c *client) isTimed() bool {
	t := &c.term
	timed := t.left > 0
	for i := range t.n {
		timed = timed || t.att[i].left > 0
	}
	for l := range c.hold {
		timed = timed || c.hold[l].left > 0
	}
	for reg := range c.watch {
		timed = timed || c.watch[reg].wait > 0
	}
	return timed
}

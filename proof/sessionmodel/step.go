package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// The steps of the world.
const (
	opApply uint8 = iota // and the sender gets the reply
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

// step names what happened, for the trace. raised is by how much the largest tokens rose.
type step struct {
	op, who, arg uint8
	raised       [locks]uint8
}

// edge is one step of the graph.
type edge = explore.Edge[state, step]

type steps = explore.Steps[state, step, world]

// Expand tries all steps from a state.
func (m *machine) Expand(x *steps) {
	for i := range int(x.From.n) {
		m.fates(x, i)
	}
	if m.Remove {
		for reg := firstSess; reg < registers; reg++ {
			for saw := range 4 {
				x.Try(step{op: opRemove, who: uint8(saw), arg: uint8(reg)}, func(w *world) bool { return w.remove(uint8(reg), uint8(saw)) })
			}
		}
	}
	for l := range m.Locks {
		if m.Break {
			x.Try(step{op: opBreak, who: operator, arg: uint8(l)}, func(w *world) bool { return w.sendBreak(l) })
		}
	}
	for c := range x.From.cl {
		m.client(x, c)
	}
	m.ticks(x)
}

// fates lists what may happen to write i.
func (m *machine) fates(x *steps, i int) {
	r := &x.From.flight[i]
	try := func(op uint8, do func(w *world) bool) { x.Try(step{op: op, who: r.by, arg: uint8(i)}, do) }
	if r.pred == x.From.reg[r.reg].ver || r.blind == 1 {
		try(opApply, func(w *world) bool {
			cares := w.cares(r)
			w.apply(i, cares)
			return cares
		})
		try(opApplySilently, func(w *world) bool {
			if w.cares(r) {
				w.Note(LostReply)
			}
			w.apply(i, false)
			return true
		})
	}
	try(opDrop, func(w *world) bool { explore.Take(w.flight[:], &w.n, i); return true })
}

func (m *machine) client(x *steps, c int) {
	cl := &x.From.cl[c]
	try := func(op uint8, arg int, do func(w *world) bool) {
		x.Try(step{op: op, who: uint8(c), arg: uint8(arg)}, do)
	}
	if m.Crash {
		try(opCrash, 0, func(w *world) bool { w.crash(c); return true })
	}
	switch cl.term.mode {
	case none:
		if m.plain(c) {
			break
		}
		try(opOpen, 0, func(w *world) bool { return w.tryOpen(c, w.vacant(c)) })
		if m.Fault == RevokedReturns {
			for reg := formerAt; reg < registers; reg++ {
				try(opOpen, reg, func(w *world) bool { return w.reopen(c, uint8(reg)) })
			}
		}
	case opening:
		if m.plain(c) {
			break // that is a claim
		}
		try(opOpen, 0, func(w *world) bool { return w.tryOpen(c, nowhere) })
		try(opSettle, 0, func(w *world) bool { return w.settle(c) })
		try(opAbandon, 0, func(w *world) bool { return w.abandon(c) })
	case alive:
		if m.Fault == OpeningTrusted && cl.term.base == 0 {
			try(opOpen, 0, func(w *world) bool { return w.tryOpen(c, nowhere) })
		} else {
			try(opBeat, 0, func(w *world) bool { return w.beat(c) })
		}
		if cl.term.n > 0 {
			try(opSettle, 0, func(w *world) bool { return w.settle(c) })
		}
		if !m.plain(c) {
			try(opClose, 0, func(w *world) bool { return w.close(c) })
		}
	}
	for l := range m.Locks {
		m.lock(x, c, l)
	}
	for reg := range uint8(registers) {
		if !x.From.isWaiter(m, c, reg) {
			continue
		}
		try(opLook, int(reg), func(w *world) bool { return w.look(c, reg) })
		try(opFence, int(reg), func(w *world) bool { return w.fence(c, reg) })
	}
}

// lock lists what client c may do with lock l.
func (m *machine) lock(x *steps, c, l int) {
	cl := &x.From.cl[c]
	try := func(op uint8, do func(w *world) bool) { x.Try(step{op: op, who: uint8(c), arg: uint8(l)}, do) }
	switch cl.hold[l].mode {
	case idle:
		r := &x.From.reg[l]
		try(opClaim, func(w *world) bool { return w.mayClaim(c, l) && w.claim(c, l) })
		if !r.isTaken() {
			return
		}
		if isSession(r.under) {
			try(opStandIn, func(w *world) bool { return w.standIn(c, l) })
		}
		if m.Notify {
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
		if m.Break {
			try(opHearBreak, func(w *world) bool { return w.hearBreak(c, l) })
		}
	case freeing:
		try(opFreeAgain, func(w *world) bool { return w.freeAgain(c, l) })
		try(opSettleFree, func(w *world) bool { return w.settleFree(c, l) })
	}
}

// crash is a client that forgets everything, and the end of its belief with it.
func (w *world) crash(c int) {
	w.Note(Crashed)
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

// reopen opens a session with the id of one that was revoked or closed (a fault).
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

// ticks lets one tick of true time pass, with every pair of extreme rates.
func (m *machine) ticks(x *steps) {
	var n [2]int
	for c := range n {
		if n[c] = 1; x.From.cl[c].isTimed() {
			n[c] = 2
		}
	}
	for i := range n[0] {
		for j := range n[1] {
			x.Try(step{op: opTick, who: uint8(i), arg: uint8(j)}, func(w *world) bool {
				w.pass(0, uint8(explore.Slowest+i), uint8(explore.Slowest+i))
				w.pass(1, uint8(explore.Slowest+j), uint8(explore.Slowest+j))
				return true
			})
		}
	}
}

// isTimed says whether the passing of time changes a client.
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

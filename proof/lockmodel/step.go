package lockmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// The steps of the world.
const (
	opRead uint8 = iota
	opAsk
	opSnapshot
	opAcquire
	opRetry
	opGiveUp
	opRenew
	opRelease
	opFree
	opConfirm
	opRefuse
	opRefuseWithValue
	opAnswer
	opNoAnswer
	opTimeout
	opTimeoutLost
	opDefinite
	opCrash
	opApply
	opBreak
	opBreakNow
	opAskHolder
	opTick
	opJump
	opDetach
	opCopy
	opUse
	opSendTicket
	opLeave
	opSweep
)

// step names what happened, for the trace. raised is by how much the largest token rose.
type step struct{ op, who, arg, raised uint8 }

// edge is one step of the graph.
type edge = explore.Edge[state, step]

type steps = explore.Steps[state, step, world]

// Expand tries all steps from a state.
func (m *machine) Expand(x *steps) {
	for i := range int(x.From.n) {
		x.Try(step{op: opApply, arg: uint8(i)}, func(w *world) bool { w.apply(i); return true })
	}
	for c := range x.From.cl {
		m.client(x, c)
	}
	if m.Break {
		x.Try(step{op: opBreak}, func(w *world) bool { return w.sendBreak(broken) })
		if !m.Age {
			x.Try(step{op: opBreakNow}, func(w *world) bool { return w.sendBreak(brokenNow) })
		}
	}
	if m.YieldRequest {
		x.Try(step{op: opAskHolder}, func(w *world) bool { return w.sendAsk() })
	}
	if m.Sweep {
		x.Try(step{op: opSweep}, func(w *world) bool { return w.sendSweep() })
	}
	m.ticks(x)
}

func (m *machine) client(x *steps, c int) {
	cl := &x.From.cl[c]
	who := uint8(c)
	if m.Crash && (*cl != (client{}) || x.From.reg.pres == who+1) {
		x.Try(step{op: opCrash, who: who}, func(w *world) bool { w.crash(c); return true })
	}
	if m.Jump {
		x.Try(step{op: opJump, who: who}, func(w *world) bool { return w.jump(c) })
	}
	if m.Tickets && x.From.hand[c].grant != 0 {
		x.Try(step{op: opCopy, who: who}, func(w *world) bool { return w.copyTicket(c) })
	}
	switch cl.io {
	case quiet:
		m.quiet(x, c)
	case asked:
		x.Try(step{op: opSnapshot, who: who}, func(w *world) bool { w.snapshot(c); return true })
	case answered:
		x.Try(step{op: opAnswer, who: who}, func(w *world) bool { w.answer(c); return true })
		x.Try(step{op: opNoAnswer, who: who}, func(w *world) bool { w.noAnswer(c); return true })
	case waiting:
		x.Try(step{op: opTimeout, who: who}, func(w *world) bool { w.timeout(c, false); return true })
		x.Try(step{op: opTimeoutLost, who: who}, func(w *world) bool { w.timeout(c, true); return true })
		x.Try(step{op: opDefinite, who: who}, func(w *world) bool { w.definite(c); return true })
	case confirmed:
		x.Try(step{op: opConfirm, who: who}, func(w *world) bool { w.confirm(c); return true })
		x.Try(step{op: opTimeout, who: who}, func(w *world) bool { w.timeout(c, false); return true })
	case refused:
		x.Try(step{op: opRefuse, who: who}, func(w *world) bool { w.refuse(c); return true })
		x.Try(step{op: opRefuseWithValue, who: who}, func(w *world) bool { w.snapshot(c); return true })
		x.Try(step{op: opTimeout, who: who}, func(w *world) bool { w.timeout(c, false); return true })
	}
}

// quiet lists what a client that waits for nothing may do.
func (m *machine) quiet(x *steps, c int) {
	cl := &x.From.cl[c]
	who := uint8(c)
	if m.Fault == WaitFromSending {
		x.Try(step{op: opAsk, who: who}, func(w *world) bool { w.cl[c].io = asked; return true })
	} else if cl.mode != holding || cl.n > 0 || m.YieldRequest {
		x.Try(step{op: opRead, who: who}, func(w *world) bool { w.snapshot(c); return true })
	}
	switch cl.mode {
	case idle:
		x.Try(step{op: opAcquire, who: who}, func(w *world) bool { return w.mayTake(c) && w.acquire(c) })
		if x.From.hand[c].grant != 0 {
			for what := forAttach; what <= forRelease; what++ {
				x.Try(step{op: opUse, who: who, arg: what}, func(w *world) bool { return w.use(c, what) })
			}
		}
	case attaching:
		x.Try(step{op: opSendTicket, who: who}, func(w *world) bool { return w.sendAttach(c) })
		x.Try(step{op: opLeave, who: who}, func(w *world) bool { return w.leave(c) })
	case extending:
		x.Try(step{op: opSendTicket, who: who}, func(w *world) bool { return w.sendRenewal(c) })
		x.Try(step{op: opLeave, who: who}, func(w *world) bool { return w.leave(c) })
	case freeing:
		x.Try(step{op: opSendTicket, who: who}, func(w *world) bool { return w.sendFree(c, toRelease) })
		x.Try(step{op: opLeave, who: who}, func(w *world) bool { return w.leave(c) })
	case acquiring:
		x.Try(step{op: opRetry, who: who}, func(w *world) bool { return w.sendHeld(c, toAcquire) })
		x.Try(step{op: opGiveUp, who: who}, func(w *world) bool { return w.giveUp(c) })
	case holding:
		x.Try(step{op: opRenew, who: who}, func(w *world) bool { return w.sendHeld(c, toRenew) })
		x.Try(step{op: opRelease, who: who}, func(w *world) bool { return w.release(c) })
		if m.Tickets {
			x.Try(step{op: opDetach, who: who}, func(w *world) bool { return w.detach(c) })
		}
	case releasing:
		x.Try(step{op: opFree, who: who}, func(w *world) bool { return w.cl[c].left > 0 && w.sendFree(c, toRelease) })
	case givingUp:
		x.Try(step{op: opFree, who: who}, func(w *world) bool { return w.sendFree(c, toGiveUp) })
	}
}

// snapshot is the instant at which the store reads for client c.
func (w *world) snapshot(c int) {
	w.cl[c].io, w.cl[c].reply = answered, w.reg
}

func (w *world) noAnswer(c int) {
	cl := &w.cl[c]
	cl.io, cl.asking = quiet, 0
}

// crash is a client that forgets everything, and the end of its belief with it.
func (w *world) crash(c int) {
	w.Note(Crashed)
	if w.cl[c].mode == extending {
		w.Note(DiedAnnounced)
	}
	w.cl[c] = client{}
	w.dieAt(c)
}

// jump is a leap of a wall clock, which may only make a holder give up early.
func (w *world) jump(c int) bool {
	cl := &w.cl[c]
	if w.Fault == WaitByWallClock && cl.wait > 0 {
		cl.wait = 0
		return true
	}
	if cl.mode != holding {
		return false
	}
	w.Note(Jumped)
	cl.left = 0
	w.expire(c)
	return true
}

// ticks lets one tick of true time pass, with every pair of extreme rates.
func (m *machine) ticks(x *steps) {
	var ways [2][3][2]uint8
	var n [2]int
	for c := range x.From.cl {
		ways[c], n[c] = m.ways(&x.From, c)
	}
	var rates [2]uint8 // of the store's clock
	k := 1
	if r := &x.From.reg; m.Age && r.age < r.oldest() {
		rates, k = [2]uint8{explore.Slowest, explore.Fastest}, 2
	}
	for i := range n[0] {
		for j := range n[1] {
			for s, rate := range rates[:k] {
				st := step{op: opTick, who: uint8(i), arg: uint8(4*s + j)}
				x.Try(st, func(w *world) bool {
					w.pass(0, ways[0][i][0], ways[0][i][1])
					w.pass(1, ways[1][j][0], ways[1][j][1])
					if rate > 0 {
						w.reg.age = min(w.reg.age+rate, w.reg.oldest())
					}
					return true
				})
			}
		}
	}
}

// ways returns by how much the clocks of client c may advance in a tick: those of a holder and that
// of a waiter. A machine that sleeps stops its monotonic clock, the only one that a waiter uses;
// the other clocks of a holder continue.
func (m *machine) ways(s *state, c int) (ways [3][2]uint8, n int) {
	cl := &s.cl[c]
	ways[0] = [2]uint8{explore.Slowest, explore.Slowest}
	ways[1] = [2]uint8{explore.Fastest, explore.Fastest}
	ways[2] = [2]uint8{explore.Slowest, 0}
	if m.Fault == HolderMonotonicOnly {
		ways[2][0] = 0
	}
	timed := cl.left > 0 || m.Fault == WaitFromSending && cl.io != quiet || cl.wait > 0
	for i := range cl.n {
		timed = timed || cl.att[i].left > 0
	}
	switch {
	case !timed:
		return ways, 1
	case m.Sleep:
		return ways, 3
	}
	return ways, 2
}

package rostermodel

import (
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/proof/explore"
)

// The steps of the world.
const (
	opApply uint8 = iota
	opApplySilently
	opLose
	opEnd
	opEnter
	opEnterAgain
	opRead
	opLeave
	opLeaveAgain
	opFence
	opDrop
	opResize
)

// step names what happened, for the trace.
type step struct{ op, who, arg, fair uint8 }

// edge is one step of the graph.
type edge = explore.Edge[state, step]

type steps = explore.Steps[state, step, world]

// Expand tries all steps from a state.
func (m *machine) Expand(x *steps) {
	for i := range int(x.From.n) {
		by := x.From.flight[i].by
		x.Try(step{op: opApply, who: by, arg: uint8(i)}, func(w *world) bool { w.apply(i, true); return true })
		x.Try(step{op: opApplySilently, who: by, arg: uint8(i)}, func(w *world) bool { w.apply(i, false); return true })
		x.Try(step{op: opLose, who: by, arg: uint8(i)}, func(w *world) bool { explore.Take(w.flight[:], &w.n, i); return true })
	}
	for c := range m.Clients {
		m.client(x, c)
	}
	if m.Resize {
		x.Try(step{op: opResize, who: operator}, func(w *world) bool {
			return w.send(operator, toResize, func(r *record) bool {
				r.change(func(rec *lockrec.Record) { _ = lockrec.Resize(rec, 2*w.Slots+1-rec.Slots) })
				return true
			})
		})
	}
}

func (m *machine) client(x *steps, c int) {
	who := uint8(c)
	x.Try(step{op: opEnd, who: who}, func(w *world) bool { return w.end(c) })
	switch cl := &x.From.cl[c]; cl.mode {
	case idle:
		modes := []uint8{reader, writer}
		if m.Slots > 0 {
			modes = []uint8{slotted}
		}
		for _, mode := range modes {
			for fair := range uint8(2) {
				if mode != reader || fair == 0 { // readers queue in any case
					x.Try(step{opEnter, who, mode, fair}, func(w *world) bool { return w.enterAs(c, mode, fair) })
				}
			}
		}
	case entering:
		x.Try(step{op: opEnterAgain, who: who}, func(w *world) bool { return w.mine(c, toEnter) < 0 && w.sendEntry(c) })
		x.Try(step{op: opRead, who: who}, func(w *world) bool { return w.read(c) })
		x.Try(step{op: opLeave, who: who}, func(w *world) bool { return w.leaveNow(c) })
	case waiting:
		x.Try(step{op: opRead, who: who}, func(w *world) bool { return w.read(c) })
		x.Try(step{op: opLeave, who: who}, func(w *world) bool { return w.leaveNow(c) })
	case holding:
		x.Try(step{op: opLeave, who: who}, func(w *world) bool { return w.leaveNow(c) })
	case leaving:
		x.Try(step{op: opLeaveAgain, who: who}, func(w *world) bool { return w.sendLeave(c) })
	}
	for i := range maxRoom {
		x.Try(step{opFence, who, uint8(i), 0}, func(w *world) bool { return w.fence(c, &w.reg.holders[i], true) })
		x.Try(step{opFence, who, uint8(i), 1}, func(w *world) bool { return w.fence(c, &w.reg.queue[i], false) })
	}
	x.Try(step{op: opDrop, who: who}, func(w *world) bool { return w.sendDrop(c) })
}

// end is the end of a session: its deadline passes, or its client forgets everything. The
// client opens another one.
func (w *world) end(c int) bool {
	w.Note(Ended)
	over := func(e *entry) {
		if int(e.who) == c && e.sess == living {
			e.sess = lost
		}
	}
	w.reg.each(over)
	for i := range w.n {
		w.flight[i].rec.each(over)
	}
	cl := &w.cl[c]
	if w.Fault == BelievesLate && cl.mode == waiting {
		cl.late = 1
		return true
	}
	*cl = client{}
	return true
}

// enterAs begins to enter.
func (w *world) enterAs(c int, mode, fair uint8) bool {
	w.cl[c] = client{mode: entering, want: mode, fair: fair}
	return w.sendEntry(c)
}

func (w *world) sendEntry(c int) bool {
	cl := &w.cl[c]
	return w.send(c, toEnter, func(r *record) bool {
		if find(&r.holders, c) >= 0 || find(&r.queue, c) >= 0 {
			return false
		}
		return w.enter(r, entry{who: uint8(c), sess: living, mode: cl.want}, cl.fair == 1)
	})
}

// read lets client c read its place.
func (w *world) read(c int) bool {
	cl := &w.cl[c]
	at := find(&w.reg.holders, c)
	if cl.late == 1 {
		for i := range w.reg.holders {
			if e := &w.reg.holders[i]; e.mode == cl.want && int(e.who) == c {
				at = i
			}
		}
	}
	switch {
	case at >= 0 && cl.mode != holding:
		if cl.mode == waiting {
			w.Note(Promoted)
		} else {
			w.Note(ResolvedEntry)
		}
		cl.mode, cl.slot = holding, w.reg.holders[at].slot
	case at < 0 && cl.mode == entering && find(&w.reg.queue, c) >= 0:
		cl.mode = waiting
	default:
		return false
	}
	return true
}

// leaveNow ends the belief, or the wait, and sends the removal of the entry. It writes also where
// the entry is not in the record, so that the entry cannot come later.
func (w *world) leaveNow(c int) bool {
	cl := &w.cl[c]
	was := cl.mode
	cl.mode = leaving
	if w.Fault == LeaveWithoutWrite && was == waiting {
		*cl = client{}
		return true
	}
	return w.sendLeave(c)
}

func (w *world) sendLeave(c int) bool {
	return w.send(c, toLeave, func(r *record) bool { w.leave(r, c); return true })
}

// mayJudge says whether client c reads the session of an entry. The head of the queue and clients
// that do not queue read those of the holders; others read that of the one directly ahead.
func (w *world) mayJudge(c int, e *entry, holds bool) bool {
	at := find(&w.reg.queue, c)
	if at <= 0 {
		return holds
	}
	return !holds && same(e, &w.reg.queue[at-1]) && w.Fault != OnlyTheHeadDecides
}

// fence revokes the session of an entry, which has passed its deadline.
func (w *world) fence(c int, e *entry, holds bool) bool {
	if e.mode == 0 || e.sess != lost || !w.mayJudge(c, e, holds) {
		return false
	}
	w.Note(Revoked)
	w.fenceAll(*e)
	return true
}

// fenceAll revokes the session of an entry wherever it is named, in writes under way too.
func (w *world) fenceAll(dead entry) {
	mark := func(e *entry) {
		if same(e, &dead) {
			e.sess = fenced
		}
	}
	w.reg.each(mark)
	for i := range w.n {
		w.flight[i].rec.each(mark)
	}
}

// sendDrop sends the removal of the entries whose sessions were seen revoked.
func (w *world) sendDrop(c int) bool {
	return w.send(c, toDrop, func(r *record) bool {
		before := *r
		w.drop(r, c)
		return *r != before
	})
}

// Probe lets client c try to get the lock, while the others are dead, or live and want nothing.
func (m *machine) Probe(from *state, c int, lives bool) uint8 {
	var w world
	m.Begin(&w, from)
	for d := range m.Clients {
		if d != c && !lives {
			w.end(d)
		}
	}
	for range 20 {
		for d := range m.Clients {
			if d != c && lives {
				w.withdraw(d)
			}
		}
		w.strive(c)
		if w.cl[c].mode == holding {
			return 0
		}
	}
	if lives {
		return m.Broken(Freedom)
	}
	return m.Broken(Progress)
}

// deliver lets all that is under way take place, in turn.
func (w *world) deliver() {
	for w.n > 0 {
		w.apply(0, true)
	}
}

func (w *world) withdraw(c int) {
	if cl := &w.cl[c]; cl.mode != idle && cl.mode != leaving {
		w.deliver()
		if cl.mode != idle {
			w.leaveNow(c)
		}
	}
	if w.cl[c].mode == leaving {
		w.deliver()
		w.sendLeave(c)
	}
	w.deliver()
}

func (w *world) strive(c int) {
	w.deliver()
	switch w.cl[c].mode {
	case idle:
		mode := writer
		if w.Slots > 0 {
			mode = slotted
		}
		before := w.cl[c]
		if !w.enterAs(c, mode, 1) {
			w.cl[c] = before
		}
	case entering:
		if !w.read(c) {
			w.sendEntry(c)
		}
	case waiting:
		w.read(c)
	case leaving:
		w.sendLeave(c)
	}
	w.deliver()
	for i := range maxRoom {
		w.fence(c, &w.reg.holders[i], true)
		w.fence(c, &w.reg.queue[i], false)
	}
	w.sendDrop(c)
	w.deliver()
}

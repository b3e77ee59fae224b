package sessionmodel

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
)

// The rules of a client. Each function is one step of its program, between two of which
// it may be stopped for any time.

// over ends a session, or a plain lease, at its deadline or after its loss. Requests in flight may
// still be applied, and later answers change nothing. Locks that were not freed are left to the
// clients that revoke the session.
func (w *world) over(c int) {
	cl := &w.cl[c]
	cl.term = term{}
	for l := range cl.hold {
		if w.Fault == LockHasItsOwnDeadline && cl.hold[l].left > 0 {
			continue
		}
		if cl.hold[l].mode == freeing && w.plain(c) {
			continue // the hold does not belong to the term
		}
		w.end(c, l, false)
	}
}

// end makes the grant of lock l a former one, and client c idle there.
func (w *world) end(c, l int, certain bool) {
	cl := &w.cl[c]
	if cl.hold[l].mode == idle {
		return
	}
	cl.hold[l] = hold{}
	id := uint8(c) + 1
	if r := &w.reg[l]; r.grant == id {
		r.grant = 0
	}
	for i := range w.n {
		if r := &w.flight[i]; int(r.reg) == l && r.rec.grant == id {
			r.rec.grant = 0
			if certain && r.what == toClaim {
				r.over = 1
			}
		}
	}
}

// tryOpen sends the opening of a session.
func (w *world) tryOpen(c int, reg uint8) bool {
	t := &w.cl[c].term
	if int(t.n) == w.Attempts {
		return false
	}
	if t.mode == none {
		if reg == nowhere {
			return false
		}
		*t = term{mode: opening, reg: reg}
	}
	if !w.send(c, request{reg: t.reg, what: toOpen, rec: record{kind: open, owner: uint8(c), ttl: w.ttl[c]}}) {
		return false
	}
	w.attempt(c)
	if w.Fault == OpeningTrusted {
		t.mode, t.left = alive, w.ttl[c]
	}
	return true
}

// attempt records the write that was just sent.
func (w *world) attempt(c int) {
	t := &w.cl[c].term
	t.att[t.n] = attempt{freshVersion, w.ttl[c]}
	t.n++
}

// abandon gives up an opening whose outcome is not known. Nothing was acquired under it.
func (w *world) abandon(c int) bool {
	w.Note(OpeningAbandoned)
	w.over(c)
	return true
}

// beat sends the renewal of a session or of a plain lease.
func (w *world) beat(c int) bool {
	t := &w.cl[c].term
	if int(t.n) == w.Attempts {
		return false
	}
	own := w.own(c)
	if !w.send(c, request{reg: t.reg, what: toBeat, pred: t.base, rec: own.next(lockrec.Renewed(own.full(), time.Time{}))}) {
		return false
	}
	w.attempt(c)
	if w.Fault == RenewalTrusted {
		t.left = w.ttl[c]
	}
	return true
}

// confirm is the arrival of "applied".
func (w *world) confirm(r *request) {
	c := int(r.by)
	cl := &w.cl[c]
	switch r.what {
	case toOpen, toBeat:
		w.adopt(c, r.rec.ver, r.rec.ver)
	case toClose:
		w.over(c)
	case toStandIn:
		if w.look(c, r.reg); w.Fault == AbsentIsRevoked {
			cl.watch[r.reg] = watch{kind: timed, ver: r.rec.ver, mark: r.rec.ver, wait: 2 * r.rec.ttl}
		}
	case toPoke:
		if w.isWaiter(w.machine, c, r.reg) {
			w.look(c, r.reg)
		}
	case toClaim:
		w.granted(c, int(r.reg), r.rec.ver)
	case toFree:
		w.end(c, int(r.reg), true)
	}
}

// adopt makes an attempt that is known to have been applied the base of the term. The trust
// counts from its own sending.
func (w *world) adopt(c int, mark, ver uint8) {
	t := &w.cl[c].term
	i := slices.IndexFunc(t.att[:t.n], func(a attempt) bool { return a.ver == mark })
	t.left = t.att[i].left
	if w.Fault == DeadlineFromReply {
		t.left = w.ttl[c]
	}
	t.base, t.mark, t.n, t.att = ver, mark, 0, [maxAttempts]attempt{}
	if t.mode == opening {
		t.mode = alive
	}
	if w.plain(c) {
		w.cl[c].hold[t.reg].base = ver
	}
	if t.left == 0 {
		w.Note(BornExpired)
		w.over(c)
	}
}

// settle reads the record of a session, or of a plain lease, and resolves the writes whose outcome
// is unknown.
func (w *world) settle(c int) bool {
	cl := &w.cl[c]
	t := &cl.term
	r := &w.reg[t.reg]
	own := (r.kind == open || r.kind == held) && w.wrote(c, r)
	before := w.own(c)
	before.grant = r.grant
	poked := own && r.mark != r.ver || r.kind == open && r.mark == t.mark && r.ver != t.base
	switch {
	case poked && w.Fault == RequestCountsAsLoss:
		w.lose(c)
	case own:
		w.Note(ResolvedOurs)
		if poked {
			w.Note(AcknowledgedRequest)
		}
		h := &cl.hold[t.reg%locks]
		w.adopt(c, r.mark, r.ver)
		if w.plain(c) && h.mode == claiming {
			h.mode = holding
		}
	case r.ver == t.base:
		w.Note(ResolvedNotApplied)
	case t.mode != opening && lockrec.OnlyOthersWrote(r.full(), before.full()):
		w.Note(AcknowledgedRequest)
		t.base, t.n, t.att = r.ver, 0, [maxAttempts]attempt{}
	default:
		w.Note(ResolvedLost)
		w.lose(c)
	}
	return true
}

// lose ends a session that another client ended, or whose record was removed. After a removal the
// record may be that of a late opening, which the client has forgotten.
func (w *world) lose(c int) {
	t := w.cl[c].term
	if r := &w.reg[t.reg]; isSession(t.reg) && t.mode == alive && r.kind == open && r.owner == uint8(c) && !w.Remove {
		w.Fail(NoFalseLoss)
	}
	w.over(c)
}

// close ends all belief, then writes closed. Locks that are not free by then are left to the
// clients that read that. A close that is not answered is left to the TTL.
func (w *world) close(c int) bool {
	t := &w.cl[c].term
	own := w.own(c)
	r := request{reg: t.reg, what: toClose, pred: t.base, rec: own.next(lockrec.Freed(own.full(), time.Time{}))}
	if r.rec.kind == free {
		r.rec.kind = closed
	}
	if w.Fault != CloseWritesFirst {
		w.over(c)
	}
	return w.send(c, r)
}

// mayClaim says whether client c may send a claim on lock l in its present state.
func (w *world) mayClaim(c, l int) bool {
	cl := &w.cl[c]
	if w.plain(c) {
		for i := range cl.hold {
			if cl.hold[i].mode != idle && cl.hold[i].mode != freeing {
				return false
			}
		}
		if cl.term.mode != none {
			return false
		}
	} else if cl.term.mode != alive {
		return false
	}
	if cl.hold[l].mode != idle {
		return false
	}
	r := &w.reg[l]
	watch, s := &cl.watch[r.under], &w.reg[r.under]
	f := facts(0)
	if watch.ver == s.ver { // otherwise the claim would conflict
		f = facts(watch.watched())
	}
	switch v := lockrec.Judge(r.full(), f); {
	case !v.BySession:
		return v.Open
	case s.kind == fenced && w.Fault == AbsentIsRevoked && watch.kind == timed:
		return watch.wait == 0 // the client created the revoked record itself, and waits
	case w.step(c, r.under) == lockrec.SessionOver, watch.kind == dead:
		return true
	case w.Fault == TakeWithoutRevocation:
		return watch.kind == timed && watch.wait == 0
	}
	return w.Fault == AbsentIsDead && s.kind == absent
}

// claim begins a grant.
func (w *world) claim(c, l int) bool {
	cl := &w.cl[c]
	cl.hold[l] = hold{mode: claiming, base: w.reg[l].ver}
	if w.plain(c) {
		cl.term = term{mode: opening, reg: uint8(l), base: w.reg[l].ver}
	}
	if w.Fault == LockHasItsOwnDeadline {
		cl.hold[l].left = w.ttl[c]
	}
	return w.sendClaim(c, l)
}

// sendClaim sends the claim of lock l, for the first time or again. One claim on the way is enough,
// since all are over the same predecessor.
func (w *world) sendClaim(c, l int) bool {
	cl := &w.cl[c]
	h := &cl.hold[l]
	if h.base != w.reg[l].ver || w.isSent(c, l, toClaim) && !w.plain(c) {
		return false
	}
	r := request{reg: uint8(l), what: toClaim, pred: h.base}
	var next lockrec.Record
	_ = lockrec.Succeed(&next, w.reg[l].full())
	r.rec = record{kind: held, under: cl.term.reg, owner: uint8(c), grant: uint8(c) + 1, tok: uint8(next.Token), ttl: w.ttl[c]}
	if w.Fault == BlindClaim {
		r.blind = 1
	}
	if w.plain(c) && int(cl.term.n) == w.Attempts || !w.send(c, r) {
		return false
	}
	if w.plain(c) {
		w.attempt(c)
	}
	return true
}

// isSent says whether a write of the present grant of lock l is on the way.
func (w *world) isSent(c, l int, what uint8) bool {
	for i := range w.n {
		if r := &w.flight[i]; int(r.reg) == l && r.what == what && r.rec.grant == uint8(c)+1 {
			return true
		}
	}
	return false
}

// granted is the arrival of the reply that a claim was applied.
func (w *world) granted(c, l int, ver uint8) {
	h := &w.cl[c].hold[l]
	h.base = ver
	if h.mode == claiming {
		h.mode = holding
		if w.plain(c) {
			w.adopt(c, ver, ver)
		}
	}
}

// settleClaim reads a lock whose claim has an unknown outcome, and resolves it.
func (w *world) settleClaim(c, l int) bool {
	if w.plain(c) {
		return w.settle(c)
	}
	r := &w.reg[l]
	if !r.isOf(c) {
		return false // not applied yet, see hearRefusals
	}
	if r.kind == broken {
		return w.hearBreak(c, l)
	}
	w.Note(ClaimResolvedOurs)
	w.granted(c, l, r.ver)
	return true
}

// sendBreak lets an operator break a lock under a session. The record keeps its holder.
func (w *world) sendBreak(l int) bool {
	r, old := request{reg: uint8(l), what: toBreak, pred: w.reg[l].ver}, w.reg[l]
	if old.kind != held || !isSession(old.under) || int(w.n) == w.Flight {
		return false
	}
	for i := range w.n {
		if q := &w.flight[i]; q.what == toBreak && int(q.reg) == l {
			return false
		}
	}
	next, err := lockrec.Break(old.full(), uint64(old.tok), false, -1)
	if err != nil {
		panic(err)
	}
	r.rec = old.next(*next)
	return w.send(operator, r)
}

// hearBreak is a holder that reads that its lock was broken. Its belief ends, and the lock is to be
// freed, since its session lives.
func (w *world) hearBreak(c, l int) bool {
	h, r := &w.cl[c].hold[l], &w.reg[l]
	if r.kind != broken || !r.isOf(c) {
		return false
	}
	w.Note(HeardBreak)
	h.mode, h.base = freeing, r.ver
	if w.Fault == BreakForgotten {
		w.end(c, l, false)
	}
	return true
}

// giveUp ends a claim whose outcome is unknown: free is to be written over its predecessor, or over
// the claim, until one of them is known to be replaced.
func (w *world) giveUp(c, l int) bool {
	w.cl[c].hold[l].mode = freeing
	if w.plain(c) {
		w.cl[c].term = term{}
	}
	if w.Fault == GiveUpWithoutWrite {
		w.end(c, l, false)
		return true
	}
	return w.sendFree(c, l)
}

// release ends the belief, then writes free.
func (w *world) release(c, l int) bool {
	h := &w.cl[c].hold[l]
	h.mode = freeing
	if w.plain(c) {
		h.base = w.cl[c].term.base
		w.cl[c].term = term{}
	}
	return w.sendFree(c, l)
}

func (w *world) sendFree(c, l int) bool {
	if w.Fault == ReleaseForgotten {
		defer w.end(c, l, false)
	}
	rec := w.reg[l].next(lockrec.Freed(w.reg[l].full(), time.Time{}))
	return w.send(c, request{reg: uint8(l), what: toFree, pred: w.cl[c].hold[l].base, rec: record{kind: rec.kind, grant: uint8(c) + 1, tok: rec.tok}})
}

// freeAgain sends free again. One on the way is enough.
func (w *world) freeAgain(c, l int) bool {
	return w.cl[c].hold[l].base == w.reg[l].ver && !w.isSent(c, l, toFree) && w.sendFree(c, l)
}

// settleFree reads a lock whose release, or whose claim that was given up, is not certain to be
// finished.
func (w *world) settleFree(c, l int) bool {
	h := &w.cl[c].hold[l]
	r := &w.reg[l]
	if h.base == r.ver || !r.isOf(c) {
		return false // see hearRefusals
	}
	if w.Fault == GiveUpOnConflict {
		w.end(c, l, false)
		return true
	}
	w.Note(GiveUpFoundOwn)
	h.base = r.ver
	return true
}

// hearRefusals ends the claims and releases of which each write is refused: the version that they
// are conditional on was replaced, and the present one is not theirs. They are finished, and no
// belief depends on when a client reads that.
func (w *world) hearRefusals() {
	for c := range w.cl {
		for l := range w.cl[c].hold {
			h, r := &w.cl[c].hold[l], &w.reg[l]
			lost := h.base != r.ver && !r.isOf(c)
			if lost && (h.mode == freeing || h.mode == claiming && !w.plain(c)) {
				w.Note(Refused)
				w.end(c, l, true)
			}
		}
	}
}

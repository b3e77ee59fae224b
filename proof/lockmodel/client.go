package lockmodel

import (
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/proof/explore"
)

// The rules of a client. Each function is one step of its program, between two of
// which it may be stopped for any time.

// mayTake says whether an idle client may send an acquire over what it has seen: a version that was
// unchanged for long enough, or its own former grant, whose end it knows.
func (w *world) mayTake(c int) bool {
	cl := &w.cl[c]
	return cl.base.kind != none && (cl.wait == 0 || w.isOpen(c, &cl.base))
}

func (r *record) formerlyOf(c int) bool {
	return r.isTaken() && r.owner == uint8(c)
}

// acquire begins a new grant.
func (w *world) acquire(c int) bool {
	cl := &w.cl[c]
	switch {
	case cl.wait > 0 && !cl.base.formerlyOf(c):
		w.Note(TookDead)
		if cl.base.kind == broken {
			w.Note(TookDeadBroken)
		}
	case cl.wait > 0:
		w.Note(RetakenAtOnce)
		if cl.base.kind == broken {
			w.Note(RetakenBroken)
		}
	}
	var next lockrec.Record
	_ = lockrec.Succeed(&next, cl.base.full())
	cl.mode, cl.grant, cl.tok = acquiring, freshGrant, uint8(next.Token)
	cl.forget()
	return w.sendHeld(c, toAcquire)
}

// release ends the belief, then writes free. It no longer matters which of the renewals under way
// was applied: a client knows its own record by the grant's id.
func (w *world) release(c int) bool {
	w.endBelief(c)
	return w.sendFree(c, toRelease)
}

// endBelief ends the belief in a grant, which is then to be freed.
func (w *world) endBelief(c int) {
	w.cl[c].mode = releasing
	w.cl[c].forget()
}

// giveUp ends an acquire whose outcome is not known, by writing free over the same predecessor.
func (w *world) giveUp(c int) bool {
	w.cl[c].mode = givingUp
	if w.Fault == GiveUpWithoutWrite {
		w.end(c)
		return true
	}
	w.cl[c].forget()
	return w.sendFree(c, toGiveUp)
}

// end notes that the present grant is over for certain, and makes the client idle.
func (w *world) end(c int) {
	cl := &w.cl[c]
	if w.reg.kind == held && w.reg.grant == cl.grant {
		w.Fail(NoFalseLoss)
	}
	for i := range w.n {
		if r := &w.flight[i]; r.grant == cl.grant && r.rec.kind == held {
			r.over = 1
		}
	}
	*cl = client{}
}

// observe makes rec, which has just arrived, the record on which an idle client waits.
func (w *world) observe(c int, rec record) {
	cl := &w.cl[c]
	wait := w.patience(c, rec)
	again := cl.base.kind != none && cl.base.ver == rec.ver
	before, had := cl.wait, cl.base.kind != none
	switch {
	case again && w.Fault != WaitRestartsEachRead:
		w.Note(SeenUnchanged)
		wait = cl.wait
	case had && w.sees(c, &rec):
		if rec.kind == held {
			w.Note(WatchOutlastsRequest)
		} else {
			w.Note(WatchOutlastsBreak)
		}
		wait = min(wait, cl.wait)
	case w.Fault == WaitAcrossVersions && cl.base.kind == held:
		wait = min(wait, cl.wait)
	case w.Fault == WaitFromSending:
		wait -= min(wait, cl.asking)
	}
	if wait > 0 && w.isOld(&rec) {
		w.Note(SeenOld)
		if rec.stood > 0 {
			w.Note(SeenOldByBoth)
		}
		wait = 0
	}
	watched := had && w.was.ver != 0 && cl.base.lastWrite() == w.was.ver
	if rec.kind == held && rec.ver == w.reg.ver && had && cl.base.lastWrite() == rec.lastWrite() && wait > before && w.YieldRequest {
		w.Fail(NotDelayed)
	}
	cl.base, cl.wait = rec, wait
	cl.base.broke, cl.base.stood, cl.base.age = 0, 0, 0
	if rec.kind != broken || rec.ver != w.reg.ver {
		return
	}
	if w.isOpen(c, &w.was) && !w.mayTake(c) || watched && wait > before {
		w.Fail(NotDelayed)
	}
}

// confirm is the arrival of "applied".
func (w *world) confirm(c int) {
	cl := &w.cl[c]
	ver := cl.wver
	cl.io, cl.wver = quiet, 0
	switch cl.mode {
	case acquiring, holding, attaching:
		w.adopt(c, ver, 0)
	case extending:
		w.renewedTicket(c, ver)
	case releasing, givingUp, freeing:
		rec := record{ver: ver, kind: free, tok: cl.base.tok}
		if w.Fault == DeleteOnRelease && cl.mode == releasing {
			rec = record{kind: absent, tok: explore.LowToken}
		}
		w.Note(Ended)
		w.end(c)
		w.observe(c, rec)
	}
}

// adopt makes an attempt that is known to have been applied the base of the grant; or the request
// to yield that was written over it.
func (w *world) adopt(c int, ver, ask uint8) {
	cl := &w.cl[c]
	read := record{ver: ver, kind: held, grant: cl.grant}
	if ask != 0 {
		read.ver, read.mark = ask, ver
	}
	i := w.wrote(c, &read)
	switch {
	case i < 0 && w.Fault != AdoptByName && w.Fault != AdoptByEqualName:
		w.Fail(KnownNonce)
		return
	case i < 0 || w.Fault == LastNonceTimes:
		i = int(cl.n) - 1
	case i < int(cl.n)-1:
		w.Note(ResolvedByEarlierAttempt)
	}
	left := cl.att[i].left
	if w.Fault == DeadlineFromReply {
		left = w.ttl[c]
	}
	cl.left = left
	rec := record{ver: ver, kind: held, owner: uint8(c), tok: cl.tok, ttl: w.ttl[c]}
	if w.Presence {
		rec.pres = uint8(c) + 1
	}
	if ask != 0 {
		rec.ver, rec.mark = ask, ver
	}
	if cl.mode != acquiring {
		w.keep(&rec, &cl.base)
	}
	cl.mode, cl.base = holding, rec
	cl.forget()
	if left == 0 {
		w.Note(BornExpired)
		*cl = client{}
		w.observe(c, rec)
	}
}

// refuse is the arrival of a "conflict" without a value. The attempt is certainly not applied; it
// may have conflicted with others of the same grant.
func (w *world) refuse(c int) {
	cl := &w.cl[c]
	cl.io = quiet
	w.Note(Refused)
	if cl.mode == releasing || cl.mode == givingUp || cl.mode == freeing {
		if w.Fault == GiveUpOnConflict && cl.mode == givingUp {
			w.end(c)
		}
		return // the client reads back
	}
	if cl.mode == extending {
		cl.wver = 0
		return // the client reads back
	}
	cl.dropLast()
	if cl.mode == attaching || cl.mode == holding && w.YieldRequest && w.Fault != RequestCountsAsTakeover {
		return // the client reads back
	}
	if cl.n > 0 && w.Fault != ConflictIsLoss {
		w.Note(RefusedRetry)
		if w.Fault == RetryOnConflict {
			cl.base = w.reg
		}
		return // the client reads back
	}
	w.Note(ResolvedLost)
	w.end(c)
}

// timeout is the end of a client's wait for a write. The request may still be applied at any time,
// unless it is dropped here.
func (w *world) timeout(c int, drop bool) {
	cl := &w.cl[c]
	if cl.io == confirmed {
		w.Note(LostReply)
	}
	if drop {
		w.drop(cl.wver)
	}
	cl.io, cl.wver = quiet, 0
	if cl.mode == holding && w.Fault == DeadlineFromUnknown {
		cl.left = cl.att[cl.n-1].left
	}
}

func (w *world) drop(ver uint8) {
	explore.Keep(w.flight[:], &w.n, func(r *request) bool { return r.rec.ver != ver })
}

// dropLast forgets the attempt that was sent last, as it is certainly not applied.
func (c *client) dropLast() {
	c.n--
	c.att[c.n] = attempt{}
}

// definite is a failure which proves that the write was not applied and never will be.
func (w *world) definite(c int) {
	cl := &w.cl[c]
	w.drop(cl.wver)
	cl.io, cl.wver = quiet, 0
	if cl.mode != acquiring && cl.mode != holding && cl.mode != attaching {
		return
	}
	cl.dropLast()
	if cl.mode == acquiring && cl.n == 0 {
		*cl = client{}
	}
}

// ours says whether a record that was read is of the client's present grant.
func (w *world) ours(c int, rec *record) bool {
	switch w.Fault {
	case AdoptByEqualName:
		return rec.kind == held
	case AdoptByName:
		return rec.kind == held && rec.owner == uint8(c)
	}
	if w.Tickets && !slices.ContainsFunc(w.cl[c].att[:w.cl[c].n], func(a attempt) bool { return a.ver == rec.ver }) && w.cl[c].mode == holding {
		return false // a ticket of this lease was used
	}
	return w.has(c, rec)
}

// answer is the arrival of the record that a read, or a conflict with a value, found.
func (w *world) answer(c int) {
	cl := &w.cl[c]
	rec := cl.reply
	if rec.ver != w.reg.ver {
		w.Note(StaleAnswer)
	}
	cl.io, cl.reply = quiet, record{}
	switch cl.mode {
	case idle:
		w.observe(c, rec)
	case acquiring, holding:
		w.settle(c, rec)
	case attaching, extending:
		w.settleTicket(c, rec)
	case freeing:
		w.settleTicketFree(c, rec)
	case releasing, givingUp:
		w.settleFree(c, rec)
	}
	cl.asking = 0
}

// settle resolves the writes of a grant by a read-back.
func (w *world) settle(c int, rec record) {
	cl := &w.cl[c]
	last := rec.ver == cl.att[max(cl.n, 1)-1].ver
	switch {
	case rec.ver == cl.base.ver:
		w.Note(ResolvedNotApplied)
	case w.ours(c, &rec) && (rec.mark != 0 || rec.lastWrite() == cl.base.lastWrite()):
		w.settleAsk(c, rec)
	case w.ours(c, &rec) && (last || w.Fault != LastNonceDecides):
		w.Note(ResolvedOurs)
		if rec.grant != cl.grant {
			w.Fail(OwnGrant)
		}
		w.adopt(c, rec.ver, 0)
	default:
		w.Note(ResolvedLost)
		if cl.mode == holding && w.isBroken(c, &rec) {
			w.Note(LostToBreak)
			w.endBelief(c)
			cl.base = rec // free is to be written over this
			return
		}
		before := *cl
		w.end(c)
		if last := before.base.lastWrite(); before.mode == acquiring && (last == rec.broke || last == rec.lastWrite()) && last != 0 {
			cl.base = before.base // it was found free to take, and still is
		}
		w.observe(c, rec)
	}
}

// settleAsk resolves by a request to yield that a read-back found. Either the request was written
// over an attempt, which then was applied; or over the base, so that no attempt was or will be
// applied.
func (w *world) settleAsk(c int, rec record) {
	cl := &w.cl[c]
	if rec.grant != cl.grant {
		w.Fail(OwnGrant)
	}
	switch {
	case w.Fault == RequestCountsAsTakeover:
		w.end(c)
	case w.wrote(c, &rec) >= 0:
		w.Note(ResolvedByHolderNonce)
		w.adopt(c, rec.mark, rec.ver)
	case w.onlyOthers(c, &rec):
		w.Note(RenewedOverRequest)
		if w.Fault == RequestRenews && cl.n > 0 {
			cl.left = cl.att[cl.n-1].left
		}
		cl.base = rec
		cl.forget()
	default:
		w.Note(ResolvedLost)
		w.end(c)
		w.observe(c, rec)
	}
}

// settleFree resolves a release or a give-up that is not confirmed, by a read-back.
func (w *world) settleFree(c int, rec record) {
	cl := &w.cl[c]
	switch {
	case w.ours(c, &rec):
		if cl.mode == givingUp {
			w.Note(GiveUpFoundOwn)
		}
		cl.base = rec // free is to be written over this
	case rec.ver == cl.base.ver:
	case rec.kind >= broken && (rec.of(cl.grant) || w.Fault == FreesAnyBreak):
		cl.base = rec // a break: free is to be written over it, too
	default:
		w.Note(EndedByReadBack)
		w.end(c)
		w.observe(c, rec)
	}
}

// settleTicketFree resolves the release with a ticket, by a read-back.
func (w *world) settleTicketFree(c int, rec record) {
	cl := &w.cl[c]
	announced, _ := w.fits(c, &w.hand[c], &rec, true)
	switch {
	case rec.ver == cl.base.ver:
	case announced:
		w.Note(UsedAnnounced)
		cl.base = rec // free is to be written over this
	default:
		*cl = client{}
		w.observe(c, rec)
	}
}

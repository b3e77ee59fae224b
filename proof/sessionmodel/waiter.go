package sessionmodel

import (
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/proof/explore"
)

// What a waiter does with the sessions that hold the locks it wants.

// isWaiter says whether client c uses the register that shows whether a holder lives: a lock names
// that register, and the client neither holds nor claims that lock.
func (s *state) isWaiter(m *machine, c int, reg uint8) bool {
	for l := range m.Locks {
		if r := &s.reg[l]; r.isTaken() && r.under == reg && s.cl[c].hold[l].mode == idle {
			return true
		}
	}
	return false
}

// look lets client c read the register that shows whether a holder lives.
func (w *world) look(c int, reg uint8) bool {
	seen := &w.cl[c].watch[reg]
	r := &w.reg[reg]
	before := *seen
	if r.kind != open && r.kind != held {
		return false // an absent or ended session is read when the client acts on it
	}
	mark := explore.Number(lockrec.HolderNonce(r.full()))
	now := watch{kind: timed, ver: r.ver, mark: mark, wait: w.patience(c, *r), saw: r.mark}
	if before.kind == timed && (before.mark == mark || w.Fault == WaitAcrossVersions) && w.Fault != WaitRestartsEachRead {
		if before.ver != r.ver {
			w.Note(SeenThroughNotification)
		}
		now.wait = before.wait
	}
	if before.kind == timed && before.saw == r.mark && now.wait > before.wait {
		w.Fail(NotDelayed)
	}
	*seen = now
	return now != before
}

// fence sends the revocation of a session that was unchanged for long enough.
func (w *world) fence(c int, reg uint8) bool {
	seen := &w.cl[c].watch[reg]
	if seen.kind != timed || !isSession(reg) || w.step(c, reg) != lockrec.RevokeSession {
		return false
	}
	r := request{reg: reg, what: toFence, pred: seen.ver, rec: w.reg[reg].next(lockrec.Revoke(w.reg[reg].full()))}
	r.rec.mark = 0
	switch w.Fault {
	case BlindRevocation:
		r.blind = 1
	case RevocationAssumed:
		seen.kind = dead
	}
	if seen.ver != w.reg[reg].ver && w.Fault != BlindRevocation && w.Fault != RevocationAssumed {
		return false // it would be refused
	}
	for i := range w.n {
		if q := &w.flight[i]; q.what == toFence && q.by == uint8(c) && q.reg == reg {
			return false // one is on the way
		}
	}
	return w.send(c, r)
}

// standIn sends a placeholder for a session that a lock names and that is absent. The placeholder
// has a grant that no client renews, and keeps a late opening out.
func (w *world) standIn(c, l int) bool {
	reg := w.reg[l].under
	if w.reg[reg].kind != absent {
		return false
	}
	for i := range w.n {
		if q := &w.flight[i]; q.what == toStandIn && q.by == uint8(c) && q.reg == reg {
			return false
		}
	}
	rec := record{kind: open, owner: operator}.next(lockrec.NewStandIn("", "", time.Duration(w.reg[l].ttl)*unit, time.Time{}))
	rec.tok = 0 // the model compares no token of a session
	r := request{reg: reg, what: toStandIn, rec: rec}
	switch w.Fault {
	case PlaceholderOwnTTL:
		r.rec.ttl = w.ttl[c]
	case AbsentIsRevoked:
		r.rec.kind = fenced
	}
	return w.send(c, r)
}

// ask sends a request to yield into a lock's record, or a notification into that of the session
// that holds it. All else is copied, the holder's mark too. There is one for each grant, and one
// for each write of a session.
func (w *world) ask(c int, l int, reg uint8) bool {
	bit, old := uint8(1)<<l, w.reg[reg]
	if old.attend&bit != 0 || old.kind != held && old.kind != open {
		return false
	}
	for i := range w.n {
		if q := &w.flight[i]; q.what == toPoke && q.by == uint8(c) && q.reg == reg {
			return false
		}
	}
	next := lockrec.ByOther(old.full(), -1)
	if old.kind == open {
		next = *lockrec.Notify(old.full(), explore.Text(uint8(l)+1), false, -1)
	}
	r := request{reg: reg, what: toPoke, pred: old.ver, rec: old.next(next)}
	r.rec.attend |= bit
	return w.send(c, r)
}

package sessionmodel

import (
	"cmp"
	"slices"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// Config defines a world: its size, and what may happen in it.
type Config struct {
	// TTL is the TTL of each client's sessions, 2 to 7 clock units. The default is 2 and 2.
	TTL [2]int

	// Attempts is the largest number of writes with an unknown outcome at the same time, of one session
	// or plain lease. It is 1 or 2; the default is 1.
	Attempts int

	// Flight is the largest number of writes under way that can still take effect, 1 to 3. The default
	// is 2. The sum of Flight and Locks is at most 4.
	Flight int

	// Locks is the number of locks, 1 or 2. The default is 2.
	Locks int

	// Crash lets a client lose its memory at any moment. Remove lets a user remove the record of any
	// session, and programs remove the records of revoked and closed sessions. Notify lets waiters write
	// requests to yield, and notifications. Break lets a user break the locks of sessions.
	Crash, Remove, Notify, Break bool

	// With Lease, client B has no sessions. It takes plain leases, one at a time.
	Lease bool
}

// machine holds the rules of one configuration. It does not change.
type machine struct {
	Config
	Options
	ttl    [2]uint8
	reduce bool
}

func newMachine(c Config, o Options) *machine {
	c.TTL = cmp.Or(c.TTL, [2]int{2, 2})
	c.Attempts, c.Flight, c.Locks = cmp.Or(c.Attempts, 1), cmp.Or(c.Flight, 2), cmp.Or(c.Locks, locks)
	if min(c.TTL[0], c.TTL[1]) < 2 || max(c.TTL[0], c.TTL[1]) > 7 || c.Attempts > maxAttempts || c.Locks > locks ||
		c.Flight > maxFlight || c.Locks+c.Flight > registers-formerAt { // each may name a former session
		panic("sessionmodel: configuration out of bounds")
	}
	return &machine{Config: c, Options: o, ttl: [2]uint8{uint8(c.TTL[0]), uint8(c.TTL[1])}, reduce: !o.Fault.seesMore()}
}

// world is a state on its way to the next one: the rules change it and note what
// happened.
type world struct {
	*machine
	state
	notes
}

type notes = explore.Notes[Event, Fault, Property]

// NumClients returns how many there are.
func (m *machine) NumClients() int { return len(state{}.cl) }

// Begin sets w to a state.
func (m *machine) Begin(w *world, s *state) {
	w.machine, w.notes = m, explore.NewNotes[Event](&m.Options)
	w.state = *s
}

// End ends a step.
func (m *machine) End(w *world, e *edge) {
	w.hearRefusals()
	e.Step.raised = w.canonical(&w.state)
	w.judge()
	e.Next, e.Events, e.Violated = w.state, w.Events, uint8(w.Broke)
}

// plain says whether client c takes plain leases.
func (m *machine) plain(c int) bool { return m.Lease && c == 1 }

// trusts says whether client c trusts in its session, or in its plain lease, now.
func (w *world) trusts(c int) bool {
	t := &w.cl[c].term
	return t.left > 0 && t.mode == alive
}

// believes says whether client c believes now that it holds lock l.
func (w *world) believes(c, l int) bool {
	h := &w.cl[c].hold[l]
	if h.mode != holding {
		return false
	}
	if w.Fault == LockHasItsOwnDeadline {
		return h.left > 0
	}
	return w.trusts(c) && (!w.plain(c) || int(w.cl[c].term.reg) == l)
}

// judge checks the invariants.
func (w *world) judge() {
	for l := range w.Locks {
		if w.believes(0, l) && w.believes(1, l) {
			w.Fail(Exclusion)
		}
		w.judgeKnown(l)
	}
	for c := range w.cl {
		t := &w.cl[c].term
		if w.trusts(c) && t.mode == alive && isSession(t.reg) && w.ended[t.reg] == 1 {
			w.Fail(RevokedBelieves)
		}
		if w.trusts(c) && t.late == 1 {
			w.Fail(Revived)
		}
	}
}

// judgeKnown fails if a living session holds lock l, or may still come to hold it, while its client
// does not know of that grant: the lock would never be freed.
func (w *world) judgeKnown(l int) {
	r := &w.reg[l]
	if r.isTaken() {
		w.judgeOwner(r, l)
	}
	for i := range w.n {
		if q := &w.flight[i]; q.what == toClaim && int(q.reg) == l {
			w.judgeOwner(&q.rec, l)
		}
	}
}

func (w *world) judgeOwner(r *record, l int) {
	if !isSession(r.under) || r.owner > 1 {
		return
	}
	cl := &w.cl[r.owner]
	if t := &cl.term; t.mode != none && t.reg == r.under && cl.hold[l].mode == idle {
		w.Fail(Known)
	}
}

// send puts a write on the way. It returns false where the bound on writes in flight forbids it. A
// write over a version that was replaced is refused whenever it arrives.
func (w *world) send(c int, r request) bool {
	r.by = uint8(c)
	if r.pred != w.reg[r.reg].ver && r.blind == 0 && !(w.Remove && r.pred == 0) {
		return true
	}
	if int(w.n) == w.Flight {
		return false
	}
	r.rec.ver = freshVersion
	if r.rec.mark == 0 {
		r.rec.mark = freshVersion
	}
	explore.Put(w.flight[:], &w.n, r)
	return true
}

// apply lets the store carry out a write in flight. The sender gets the reply at once, or it has to
// find out.
func (w *world) apply(i int, heard bool) {
	r := explore.Take(w.flight[:], &w.n, i)
	old := w.reg[r.reg]
	w.checkApply(&r, &old)
	w.reg[r.reg] = r.rec
	switch r.rec.kind {
	case free:
		w.reg[r.reg].grant = 0
	case fenced, closed:
		w.ended[r.reg] = 1
	}
	if heard {
		w.confirm(&r)
	}
}

// cares says whether the sender of a request still waits for its outcome.
func (w *world) cares(r *request) bool {
	if r.by == operator {
		return false
	}
	cl := &w.cl[r.by]
	t := &cl.term
	mine := t.mode != none && t.reg == r.reg && slices.ContainsFunc(t.att[:t.n], func(a attempt) bool { return a.ver == r.rec.ver })
	switch r.what {
	case toOpen, toBeat:
		return mine
	case toClose:
		return t.mode != none && t.reg == r.reg
	case toStandIn, toPoke:
		return true
	case toClaim:
		return r.rec.grant != 0 && (cl.hold[r.reg].mode == claiming && (mine || !w.plain(int(r.by))) || cl.hold[r.reg].mode == freeing)
	case toFree:
		return r.rec.grant != 0
	}
	return false
}

// checkApply checks what a write does to its register.
func (w *world) checkApply(r *request, old *record) {
	if r.over == 1 {
		w.Fail(EndedStaysEnded)
	}
	switch r.what {
	case toClaim:
		l := int(r.reg)
		if r.rec.tok <= w.max[l] {
			w.Fail(TokenRises)
		}
		w.max[l] = max(w.max[l], r.rec.tok)
		w.noteClaim(r, old)
	case toFree:
		if r.pred != old.ver && (!old.isTaken() || old.grant != r.rec.grant || r.rec.grant == 0) {
			w.Fail(OwnRelease)
		}
		if old.isTaken() && old.grant == r.rec.grant && r.rec.grant != 0 {
			w.Note(Freed)
		} else {
			w.Note(FreedPredecessor)
		}
	case toBreak:
		w.max[r.reg] = max(w.max[r.reg], r.rec.tok)
		w.Note(Broke)
	case toFence:
		w.Note(Revoked)
	case toStandIn:
		w.Note(WrotePlaceholder)
	case toClose:
		w.Note(Closed)
	case toPoke:
		w.Note(Notified)
	case toOpen:
		w.Note(Opened)
		if w.ended[r.reg] == 1 {
			w.Note(LateOpening)
		}
	case toBeat:
		w.Note(Renewed)
	}
	if r.by < 2 && !w.cares(r) {
		w.Note(LateApply)
	}
}

func (w *world) noteClaim(r *request, old *record) {
	switch {
	case old.kind == free:
		w.Note(Granted)
	case !isSession(old.under):
		w.Note(TookLease)
	default:
		w.Note(TookRevoked)
	}
	if s := r.rec.under; isSession(s) && (w.ended[s] == 1 || w.reg[s].kind != open || w.reg[s].owner == operator) {
		w.Note(ClaimOfTheDead)
	}
}

// remove lets an operator remove the record of a session, or a program one of a session that is
// over. The clients in the set saw have read the removed record.
func (w *world) remove(reg, saw uint8) bool {
	r := &w.reg[reg]
	over := r.kind == fenced || r.kind == closed
	if r.kind == absent || !over && saw != 0 {
		return false
	}
	for c := range w.cl {
		if saw&(1<<c) != 0 {
			w.cl[c].watch[reg] = watch{kind: dead}
		}
	}
	w.Note(Removed)
	*r = record{}
	return true
}

// pass lets one tick pass for client c: by trust units for what it trusts in, by wait for what it
// waits for.
func (w *world) pass(c int, trust, wait uint8) {
	cl := &w.cl[c]
	t := &cl.term
	had := t.left > 0
	t.left -= min(trust, t.left)
	for i := range t.n {
		t.att[i].left -= min(trust, t.att[i].left)
	}
	for l := range cl.hold {
		h := &cl.hold[l]
		if h.left > 0 {
			if h.left -= min(trust, h.left); h.left == 0 {
				*h = hold{}
			}
		}
	}
	for reg := range cl.watch {
		cl.watch[reg].wait -= min(wait, cl.watch[reg].wait)
	}
	if !had || t.left > 0 || t.mode == opening {
		return
	}
	w.Note(Expired)
	if w.Fault == LateRenewalRevives && t.n > 0 {
		t.late = 1
		return
	}
	w.over(c)
}

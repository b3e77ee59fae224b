package lockmodel

import (
	"cmp"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/proof/explore"
)

// Config defines a world: its size, and what may happen in it. In the world of the zero value, no
// operator breaks locks, no machine sleeps, and no client loses its memory.
type Config struct {
	// TTL is the TTL of each client's grants, 2 to 7 clock units. The default is 4 and 2.
	TTL [2]int

	// Attempts is the largest number of writes of one grant with an unknown outcome at the same time, 1
	// to 3. The default is 2.
	Attempts int

	// Flight is the largest number of writes under way that can still take effect, 1 to 4. The default
	// is 3.
	Flight int

	// Break allows breaks, with and without --now. Crash lets a client lose its memory at any moment.
	// Sleep lets a machine sleep: then its monotonic clock stops. Jump lets a wall clock jump forward.
	Break, Crash, Sleep, Jump bool

	// Tickets lets holders write tickets, and lets clients copy and use them. With Presence, records
	// name the process of the holder, and clients take the lock of a dead process at once.
	Tickets, Presence bool

	// YieldRequest lets other clients request the holder to yield, repeatedly.
	YieldRequest bool

	// Sweep lets a program remove the record of a lock that is not in use.
	Sweep bool

	// With Age, the store reports the age of a version by its own clock. Then there are no breaks
	// with --now, because the age does not matter for them.
	Age bool
}

// machine holds the rules of one configuration. It does not change.
type machine struct {
	Config
	Options
	ttl [2]uint8

	// reduce: states are reduced by what the rules make irrelevant. Some faults use what the right
	// rules do not use.
	reduce bool
}

func newMachine(c Config, o Options) *machine {
	c.TTL = cmp.Or(c.TTL, [2]int{4, 2})
	c.Attempts, c.Flight = cmp.Or(c.Attempts, 2), cmp.Or(c.Flight, 3)
	if min(c.TTL[0], c.TTL[1]) < 2 || max(c.TTL[0], c.TTL[1]) > 7 || c.Attempts > maxAttempts || c.Flight > maxFlight {
		panic("model: configuration out of bounds")
	}
	m := &machine{Config: c, Options: o, ttl: [2]uint8{uint8(c.TTL[0]), uint8(c.TTL[1])}}
	switch m.Fault {
	case BlindAcquire, BlindRenewal, BlindRelease, LastNonceDecides, LastNonceTimes, AdoptByName, AdoptByEqualName,
		DeadlineFromUnknown, RetryOnConflict, WaitAcrossVersions, BeliefDuringRelease,
		TicketTTL, AttachKeepsProcess, AttachKeepsPresence, FreesAnyBreak, FreeKeepsToken, RequestRenews:
	default:
		m.reduce = true
	}
	return m
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
	e.Step.raised = w.finish()
	w.judge()
	e.Next, e.Events, e.Violated = w.state, w.Events, uint8(w.Broke)
}

// believes says whether client c believes now that it holds the lock.
func (w *world) believes(c int) bool {
	cl := &w.cl[c]
	return cl.left > 0 && (cl.mode == holding || cl.mode == releasing && w.Fault == BeliefDuringRelease)
}

// judge checks the invariants.
func (w *world) judge() {
	if !w.believes(0) || !w.believes(1) {
		return
	}
	a, b := &w.cl[0], &w.cl[1]
	switch {
	case a.exempt == 0 && b.exempt == 0:
		w.Fail(Exclusion)
	case a.tok == b.tok, a.exempt == 0 && a.tok < b.tok, b.exempt == 0 && b.tok < a.tok:
		w.Fail(BreakOrder)
	default:
		w.Note(TwoUnderNow)
	}
}

// send puts a write on the way. It reports false where the bound on writes in flight
// forbids it.
func (w *world) send(c int, r request) bool {
	cl := &w.cl[c]
	r.by = uint8(c)
	if r.rec.ver == 0 {
		r.rec.ver = freshVersion
	}
	switch {
	case r.pred != w.reg.ver && r.unconditional == 0:
		cl.io, cl.wver = refused, 0 // a version is never used twice: the write is refused whenever it arrives
		return true
	case int(w.n) == w.Flight:
		return false
	}
	explore.Put(w.flight[:], &w.n, r)
	cl.io, cl.wver = waiting, r.rec.ver
	return true
}

// sendHeld sends a write of the present grant: an acquire, a renewal, or either again over the same
// predecessor. Its trust counts from this instant.
func (w *world) sendHeld(c int, what uint8) bool {
	cl := &w.cl[c]
	if int(cl.n) == w.Attempts {
		return false
	}
	r := request{what: what, pred: cl.base.ver, grant: cl.grant}
	own := w.own(c)
	next := lockrec.Renewed(own.full(), time.Time{})
	r.rec = small(&next)
	if w.Presence && what != toExtend {
		r.rec.pres = uint8(c) + 1
	}
	if what == toExtend && w.Fault != TicketSentFirst {
		r.rec.ver = cl.wver // as it was announced
	}
	if what == toAttach || what == toRenew {
		w.keep(&r.rec, &cl.base)
	}
	switch {
	case w.Fault == BlindAcquire && what == toAcquire, w.Fault == BlindRenewal && what == toRenew:
		r.unconditional = 1
	}
	nonce := r.rec.ver
	if nonce == 0 {
		nonce = freshVersion
	}
	if !w.send(c, r) {
		return false
	}
	cl.att[cl.n] = attempt{nonce, w.ttl[c]}
	cl.n++
	return true
}

// sendFree sends the end of the present grant, over the version that is known.
func (w *world) sendFree(c int, what uint8) bool {
	cl := &w.cl[c]
	r := request{what: what, pred: cl.base.ver, grant: cl.grant}
	own := w.own(c)
	own.tok = cl.base.tok
	next := lockrec.Freed(own.full(), time.Time{})
	r.rec = small(&next)
	if w.Fault == FreeKeepsToken && cl.base.kind >= broken {
		r.rec.tok = cl.tok
	}
	if w.Fault == DeleteOnRelease && what == toRelease {
		r.rec = record{kind: absent, tok: explore.LowToken}
	}
	if w.Fault == BlindRelease {
		r.unconditional = 1
	}
	return w.send(c, r)
}

// apply lets the store carry out a write in flight.
func (w *world) apply(i int) {
	r, old := explore.Take(w.flight[:], &w.n, i), w.reg
	switch r.what { // what is not known of these in flight is that of the record that they replace
	case toBreak:
		r.rec = w.brokenRecord(&r.rec, &old)
	case toAsk:
		r.rec = yieldRequest(&r.rec, &old)
	}
	w.checkApply(&r, &old)
	w.reg = r.rec
	w.usedUp(&r)
	switch r.what {
	case toSweep:
		w.was = record{}
		return
	case toBreak:
		w.was = record{ver: old.lastWrite(), kind: old.kind, owner: old.owner, pres: old.pres}
		return
	case toAsk:
		return
	}
	w.was = record{}
	if cl := &w.cl[r.by]; cl.io == waiting && cl.wver == r.rec.ver {
		cl.io = confirmed
	} else {
		w.Note(LateApply)
		if cl.grant != r.grant {
			w.Note(LateApplyOfOldGrant)
		}
	}
}

// checkApply checks what a write does to the register.
func (w *world) checkApply(r *request, old *record) {
	if r.over == 1 {
		w.Fail(EndedStaysEnded)
	}
	if r.rec.kind != absent && r.rec.tok < old.tok {
		w.Fail(TokenRises)
	}
	own := old.of(r.grant)
	switch r.what {
	case toAcquire:
		if r.rec.tok <= w.max {
			w.Fail(TokenRises)
		}
		w.max = max(w.max, r.rec.tok)
		w.noteAcquire(r, old)
	case toAttach:
		w.Note(Attached)
	case toRenew:
		w.Note(Renewed)
	case toRelease:
		w.Note(Freed)
		if !own {
			w.Fail(OwnRelease)
		} else if old.kind >= broken {
			w.Note(FreedBroken)
		}
	case toGiveUp:
		if own {
			w.Note(GiveUpFreedOwn)
		} else {
			w.Note(GiveUpFreedPredecessor)
			if r.pred != old.ver {
				w.Fail(OwnRelease)
			}
		}
	case toAsk:
		w.Note(YieldRequested)
	case toSweep:
		w.Note(Swept)
	case toBreak:
		if r.rec.tok <= old.tok {
			w.Fail(TokenRises)
		}
		w.noteBreak(r, old)
	}
}

func (w *world) noteAcquire(r *request, old *record) {
	switch {
	case old.kind == absent, old.kind == free:
		w.Note(Granted)
	case old.kind == held && old.owner != r.by:
		w.Note(TakenOver)
	case old.kind == held:
		w.Note(TakenOverFromOneself)
	case old.kind == broken:
		w.Note(TookBroken)
	case old.kind == brokenNow:
		w.Note(TookBrokenNow)
	}
}

func (w *world) noteBreak(r *request, old *record) {
	if r.rec.kind == broken {
		w.Note(Broke)
		return
	}
	w.Note(BrokeNow)
	for c := range w.cl {
		if w.cl[c].grant != 0 && w.cl[c].grant == old.grant {
			w.cl[c].exempt = 1
		}
	}
}

// sendBreak lets the operator break the lock over the version that the operator saw.
func (w *world) sendBreak(kind uint8) bool {
	if w.reg.kind != held && (w.reg.kind != broken || kind == broken) || int(w.n) == w.Flight {
		return false
	}
	for i := range w.n {
		if w.flight[i].by == operator {
			return false
		}
	}
	rec := record{ver: freshVersion, kind: kind, tok: w.reg.tok} // the other fields are those of the record that it breaks
	if kind == broken {
		rec.stood = w.reg.age
	}
	rec.tok++
	explore.Put(w.flight[:], &w.n, request{rec: rec, pred: w.reg.ver, by: operator, what: toBreak})
	return true
}

// sendSweep sends the removal of the record that a program saw, if the record is not in use. The program
// has raised the token floor before. So the next grant finds the token of the removed record.
func (w *world) sendSweep() bool {
	unused, _ := lockrec.Unused(w.reg.full(), time.UnixMicro(1<<20), time.Hour)
	if !unused || w.reg.kind == absent || int(w.n) == w.Flight || slices.ContainsFunc(w.flight[:w.n], func(r request) bool { return r.what == toSweep }) {
		return false
	}
	rec := record{ver: freshVersion, kind: absent, tok: w.reg.tok}
	explore.Put(w.flight[:], &w.n, request{rec: rec, pred: w.reg.ver, by: operator, what: toSweep})
	return true
}

// sendAsk sends a request to yield, over the version that its sender saw.
func (w *world) sendAsk() bool {
	if w.reg.kind != held || int(w.n) == w.Flight || slices.ContainsFunc(w.flight[:w.n], func(r request) bool { return r.what == toAsk }) {
		return false
	}
	rec := record{ver: freshVersion, kind: held, tok: w.reg.tok} // the other fields are those of the record that it replaces
	explore.Put(w.flight[:], &w.n, request{rec: rec, pred: w.reg.ver, by: operator, what: toAsk})
	return true
}

// yieldRequest is a request to yield over old.
func yieldRequest(rec, old *record) record {
	next := lockrec.ByOther(old.full(), -1)
	now := small(&next)
	now.ver, now.age = rec.ver, old.age
	return now
}

// brokenRecord is a break of old.
func (w *world) brokenRecord(rec, old *record) record {
	next, err := lockrec.Break(old.full(), uint64(old.tok), rec.kind == brokenNow, time.Duration(rec.stood)*unit)
	if err != nil {
		panic(err)
	}
	now := small(next)
	now.ver = rec.ver
	if w.Fault == BreakNamesItself {
		now.pres = deadPresence // the program that breaks a lock ends then
	}
	return now
}

// pass lets one tick pass for client c: its holder's clocks advance by hold units, its waiter's
// clock by wait.
func (w *world) pass(c int, hold, wait uint8) {
	cl := &w.cl[c]
	had := cl.left > 0
	cl.left -= min(hold, cl.left)
	for i := range cl.n {
		cl.att[i].left -= min(hold, cl.att[i].left)
	}
	cl.wait -= min(wait, cl.wait)
	if w.Fault == WaitFromSending && (cl.io == asked || cl.io == answered) {
		cl.asking = min(cl.asking+wait, 15)
	}
	if had && cl.left == 0 {
		w.expire(c)
	}
}

// expire ends the grant of a client whose deadline has passed. Requests in flight may still be
// applied, and later answers change nothing.
func (w *world) expire(c int) {
	cl := &w.cl[c]
	if cl.mode != holding {
		return
	}
	w.Note(Expired)
	if cl.io == waiting || cl.io == confirmed {
		w.Note(ExpiredDuringRenewal)
	}
	*cl = client{}
}

// finish ends a step. A client whose release is not confirmed by the deadline becomes idle: the
// lock is left to the TTL, and the client reports that.
func (w *world) finish() (raised uint8) {
	for c := range w.cl {
		if cl := &w.cl[c]; cl.mode == releasing && cl.io == quiet && cl.left == 0 {
			w.Note(ReleaseUnresolved)
			*cl = client{}
		}
	}
	return w.canonical(&w.state)
}

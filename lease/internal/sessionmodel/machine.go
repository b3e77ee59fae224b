package sessionmodel

import "slices"

// The clocks. One tick of true time is 1.5 units of a right clock. With rho = 1/3 a
// clock advances by 1 to 2 units in a tick, and f = (1+rho)/(1-rho) = 2.
const (
	slowest = 1
	fastest = 2
)

// Config says how large a world is and what may happen in it.
type Config struct {
	// TTL of each client's sessions, in clock units, 2 to 7; default 2 and 2.
	TTL [2]int

	// Attempts is how many writes of a session, or of a plain lease, may have an unknown
	// outcome at a time, 1 or 2; default 1.
	Attempts int

	// Flight is how many writes that can still take effect may be under way at a time, 1
	// to 3; default 2. Together with Locks at most 4.
	Flight int

	// Locks is how many locks there are, 1 or 2; default 2.
	Locks int

	// What may happen besides: a client that forgets everything at any moment; records of
	// sessions that are removed by hand, and those of fenced and closed ones by programs;
	// waiters that ask the holders, by a poke of their sessions; locks under sessions that
	// are broken.
	Crash, Remove, Poke, Break bool

	// Lease: client B has no sessions, it takes plain leases, one at a time.
	Lease bool

	// Fault is the one wrong rule.
	Fault Fault

	// Ignore lists properties that are not looked at.
	Ignore []Property

	// Probe: in one state of that many, each client is left alone with a good network,
	// the other one being dead, or alive without a wish. 0 is never.
	Probe int

	// Plain leaves out the reductions that rest on what the rules make irrelevant.
	Plain bool

	// MaxStates ends the search after the level in which it is passed; 0 is never.
	MaxStates int

	// Workers is the number of goroutines; default one per CPU.
	Workers int
}

// machine holds the rules of one configuration. It does not change.
type machine struct {
	Config
	ttl    [2]uint8
	ignore [properties]bool
	reduce bool
}

func newMachine(c Config) *machine {
	if c.TTL == [2]int{} {
		c.TTL = [2]int{2, 2}
	}
	if c.Attempts == 0 {
		c.Attempts = 1
	}
	if c.Flight == 0 {
		c.Flight = 2
	}
	if c.Locks == 0 {
		c.Locks = locks
	}
	if min(c.TTL[0], c.TTL[1]) < 2 || max(c.TTL[0], c.TTL[1]) > 7 || c.Attempts > maxAttempts || c.Locks > locks ||
		c.Flight > maxFlight || c.Locks+c.Flight > registers-formerAt { // each may name a former session
		panic("sessionmodel: configuration out of bounds")
	}
	m := &machine{Config: c, ttl: [2]uint8{uint8(c.TTL[0]), uint8(c.TTL[1])}, reduce: !c.Plain}
	if c.Fault.seesMore() {
		m.reduce = false
	}
	for _, p := range c.Ignore {
		m.ignore[p] = true
	}
	return m
}

// patience is for how long, on its own clock, a waiter must see a mark unchanged.
func (m *machine) patience(c int, ttl uint8) uint8 {
	switch m.Fault {
	case WaitNot:
		return 0
	case WaitWithoutRho:
		return ttl
	case WaitOwnTTL:
		return 2 * m.ttl[c]
	}
	return 2 * ttl
}

// world is a state on its way to the next one: the rules change it and note what
// happened.
type world struct {
	*machine
	state
	events events
	broke  Property
}

func (w *world) note(e Event) { w.events |= 1 << e }

func (w *world) fail(p Property) {
	if w.broke == Kept && !w.ignore[p] {
		w.broke = p
	}
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

// judge looks at the invariants.
func (w *world) judge() {
	for l := range w.Locks {
		if w.believes(0, l) && w.believes(1, l) {
			w.fail(Exclusion)
		}
		w.judgeKnown(l)
	}
	for c := range w.cl {
		t := &w.cl[c].term
		if w.trusts(c) && t.mode == alive && isSession(t.reg) && w.ended[t.reg] == 1 {
			w.fail(FencedBelieves)
		}
		if w.trusts(c) && t.late == 1 {
			w.fail(Revived)
		}
	}
}

// judgeKnown fails if a living session holds lock l, or may yet come to hold it, and its
// client takes itself to have nothing there: it would never be freed.
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
		w.fail(Known)
	}
}

// send puts a write on the way. It reports false where the bound on writes in flight
// forbids it. A write on a version that is gone is refused whenever it arrives.
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
	w.flight[w.n] = r
	w.n++
	return true
}

// take removes request i.
func (w *world) take(i int) request {
	r := w.flight[i]
	copy(w.flight[i:w.n], w.flight[i+1:w.n])
	w.n--
	w.flight[w.n] = request{}
	return r
}

// apply lets the store carry out a write in flight. The sender hears of it at once, or it
// has to find out.
func (w *world) apply(i int, heard bool) {
	r := w.take(i)
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

// checkApply looks at what a write does to its register.
func (w *world) checkApply(r *request, old *record) {
	if r.over == 1 {
		w.fail(EndedStaysEnded)
	}
	switch r.what {
	case toClaim:
		l := int(r.reg)
		if r.rec.tok <= w.max[l] {
			w.fail(TokenRises)
		}
		w.max[l] = max(w.max[l], r.rec.tok)
		w.noteClaim(r, old)
	case toFree:
		if r.pred != old.ver && (!old.isTaken() || old.grant != r.rec.grant || r.rec.grant == 0) {
			w.fail(OwnRelease)
		}
		if old.isTaken() && old.grant == r.rec.grant && r.rec.grant != 0 {
			w.note(Freed)
		} else {
			w.note(FreedPredecessor)
		}
	case toBreak:
		w.max[r.reg] = max(w.max[r.reg], r.rec.tok)
		w.note(Broke)
	case toFence:
		w.note(Fenced)
	case toStandIn:
		w.note(StoodIn)
	case toClose:
		w.note(Closed)
	case toPoke:
		w.note(Poked)
	case toOpen:
		w.note(Opened)
		if w.ended[r.reg] == 1 {
			w.note(LateOpening)
		}
	case toBeat:
		w.note(Beaten)
	}
	if r.by < 2 && !w.cares(r) {
		w.note(LateApply)
	}
}

func (w *world) noteClaim(r *request, old *record) {
	switch {
	case old.kind == free:
		w.note(Granted)
	case !isSession(old.under):
		w.note(TookLease)
	default:
		w.note(TookFenced)
	}
	if s := r.rec.under; isSession(s) && (w.ended[s] == 1 || w.reg[s].kind != open || w.reg[s].owner == operator) {
		w.note(ClaimOfTheDead)
	}
}

// remove lets an operator remove the record of a session, or a program one of a session
// that is over: the clients that are set in saw have read that.
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
	w.note(Removed)
	*r = record{}
	return true
}

// pass lets one tick go by for client c: by trust units for what it trusts in, by wait for
// what it waits for.
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
	w.note(Expired)
	if w.Fault == LateBeatRevives && t.n > 0 {
		t.late = 1
		return
	}
	w.over(c)
}

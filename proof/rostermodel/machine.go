package rostermodel

import (
	"cmp"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// Config defines a world: its size, and what may happen in it.
type Config struct {
	// Slots is the number of slots, 1 to 3; 0 means a lock for readers and writers.
	Slots int

	// With Resize, the number of slots changes from Slots to Slots+1 and back.
	Resize bool

	// Room is the largest number of entries in a record, 2 to 5. The default is 4.
	Room int

	// Flight is the largest number of writes under way at the same time, 1 to 3. The default is 2.
	Flight int

	// Clients is the number of clients, 2 or 3; default 3.
	Clients int
}

type machine struct {
	Config
	Options
}

func newMachine(c Config, o Options) *machine {
	c.Room, c.Flight, c.Clients = cmp.Or(c.Room, 4), cmp.Or(c.Flight, 2), cmp.Or(c.Clients, clients)
	if c.Slots < 0 || c.Slots > 3 || c.Room < 2 || c.Room > maxRoom || c.Flight > maxFlight || c.Clients > clients {
		panic("rostermodel: configuration out of bounds")
	}
	return &machine{c, o}
}

// world is a state on its way to the next one.
type world struct {
	*machine
	state
	notes
}

type notes = explore.Notes[Event, Fault, Property]

// Start returns the first state.
func (m *machine) Start() state { return state{reg: record{slots: uint8(m.Slots)}} }

// NumClients returns how many there are.
func (m *machine) NumClients() int { return m.Clients }

// Begin sets w to a state.
func (m *machine) Begin(w *world, s *state) {
	w.machine, w.notes = m, explore.NewNotes[Event](&m.Options)
	w.state = *s
}

// End ends a step.
func (m *machine) End(w *world, e *edge) {
	w.judge()
	e.Next, e.Events, e.Violated = w.state, w.Events, uint8(w.Broke)
}

// judge checks the invariants.
func (w *world) judge() {
	for c := range w.Clients {
		for d := range c {
			if w.exclude(c, d) {
				w.Fail(Exclusion)
			}
		}
		cl := &w.cl[c]
		listed := find(&w.reg.holders, c) >= 0 || find(&w.reg.queue, c) >= 0
		switch {
		case cl.mode == idle && listed:
			w.Fail(Known)
		case (cl.mode == waiting || cl.mode == holding) && !listed && cl.late == 0:
			w.Fail(Dropped)
		}
	}
	for i := range w.n {
		if r := &w.flight[i]; r.what == toEnter && w.cl[r.by].mode == idle && find(&r.rec.holders, int(r.by))+find(&r.rec.queue, int(r.by)) > -2 {
			w.Fail(Known)
		}
	}
}

// exclude says whether two clients believe at one instant what excludes each other.
func (w *world) exclude(c, d int) bool {
	a, b := &w.cl[c], &w.cl[d]
	if a.mode != holding || b.mode != holding {
		return false
	}
	if w.Slots > 0 {
		return a.slot == b.slot
	}
	return a.want == writer || b.want == writer
}

// mine returns the write of a client under way, or -1.
func (w *world) mine(c int, what uint8) int {
	for i := range w.n {
		if r := &w.flight[i]; int(r.by) == c && r.what == what {
			return int(i)
		}
	}
	return -1
}

// send puts a write on the way, once.
func (w *world) send(c int, what uint8, change func(r *record) bool) bool {
	if int(w.n) == w.Flight || w.mine(c, what) >= 0 && what != toEnter {
		return false
	}
	r := request{what: what, by: uint8(c), rec: w.reg}
	if !change(&r.rec) {
		return false
	}
	if w.Fault == LeaveBlind && what == toLeave {
		r.blind = 1
	}
	explore.Put(w.flight[:], &w.n, r)
	return true
}

// apply lets the store carry out a write. The others are refused from then on, and their senders
// know it at once: none of these beliefs depends on when they read it.
func (w *world) apply(i int, heard bool) {
	r := explore.Take(w.flight[:], &w.n, i)
	old := w.reg
	w.reg = r.rec
	w.check(&r, &old)
	w.reg.tok = 0
	explore.Keep(w.flight[:], &w.n, func(r *request) bool { return r.blind == 1 })
	for c := range w.Clients {
		cl := &w.cl[c]
		if listed := find(&w.reg.holders, c) >= 0 || find(&w.reg.queue, c) >= 0; !listed && (cl.mode == entering || cl.mode == leaving) && cl.late == 0 {
			*cl = client{}
		}
	}
	switch {
	case r.by == operator, !heard:
	case r.what == toEnter:
		w.read(int(r.by))
	case r.what == toLeave && w.Fault == LeavesTheQueueOnly:
		w.cl[r.by] = client{} // the client starts again
	}
}

// check checks what a write does to the record.
func (w *world) check(r *request, old *record) {
	now := &w.reg
	granted := 0
	for i := range now.holders {
		e := &now.holders[i]
		if e.mode == 0 || contains(&old.holders, e) {
			continue
		}
		if e.mode != reader {
			granted++
		}
		if r.what != toEnter || e.who != r.by {
			w.Note(HandedOver)
		}
		w.checkOrder(e, now, old)
		if e.mode == slotted && (e.slot > now.slots || count(&now.holders) > int(now.slots)) {
			w.Fail(TooMany)
		}
	}
	if int(now.tok) < granted {
		w.Fail(TokenRises)
	}
	switch r.what {
	case toEnter:
		if w.cl[r.by].mode != entering || find(&now.holders, int(r.by)) < 0 && find(&now.queue, int(r.by)) < 0 {
			w.Note(LateEntry)
		}
		if count(&now.queue) > count(&old.queue) {
			w.Note(Queued)
		}
	case toLeave:
		w.Note(Left)
		if contains(&old.queue, &entry{who: r.by, sess: living, mode: w.cl[r.by].want}) {
			w.Note(LeftTheQueue)
		}
	case toDrop:
		w.Note(DroppedDead)
	case toResize:
		w.Note(Resized)
	}
}

// checkOrder fails if an entry that has become a holder has passed one that waits.
func (w *world) checkOrder(e *entry, now, old *record) {
	for i := range old.queue {
		q := &old.queue[i]
		if q.mode == 0 || same(q, e) {
			return
		}
		if contains(&now.queue, q) {
			w.Fail(Overtaken)
		}
	}
}

// same says whether two entries are one: a client has one entry a session.
func same(a, b *entry) bool { return a.who == b.who && a.sess == b.sess && a.mode == b.mode }

func contains(l *list, e *entry) bool {
	for i := range l {
		if l[i].mode != 0 && same(&l[i], e) {
			return true
		}
	}
	return false
}

// Hash returns the digest of a state.
func (m *machine) Hash(s *state) uint64 {
	var buf [256]byte
	b := s.reg.append(buf[:0])
	for i := range s.n {
		r := &s.flight[i]
		b = append(b, r.what<<4|r.by<<1|r.blind)
		b = r.rec.append(b)
	}
	b = append(b, 0xff)
	for c := range m.Clients {
		cl := &s.cl[c]
		b = append(b, cl.mode<<4|cl.want, cl.late<<7|cl.fair<<6|cl.slot)
	}
	return explore.Digest(b)
}

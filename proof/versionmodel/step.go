package versionmodel

import "github.com/holdfast-go/holdfast/internal/drivers/versionlog"

// move is one step of the system, for the trace of a violation.
type move struct {
	what   string
	client uint8
	entry  uint8
}

// next is a state that can follow another.
type next struct {
	move  move
	state state
	broke string // the rule that the move broke, if any
}

// moves appends all states that can follow s. events counts what happened.
func (m *Config) moves(s *state, out []next, events map[string]int) []next {
	b := &brancher{m: m, from: s, out: out, events: events}
	for i := uint8(1); i <= s.n; i++ {
		b.network(i)
	}
	for c := uint8(1); c <= m.clients(); c++ {
		b.client(c)
	}
	return b.out
}

type brancher struct {
	m      *Config
	from   *state
	out    []next
	events map[string]int
}

// do adds a state: f makes it of a copy, and returns the rule that it breaks.
func (b *brancher) do(what string, client, entry uint8, f func(s *state) string) {
	n := next{move: move{what, client, entry}, state: *b.from}
	n.broke = f(&n.state)
	n.state.tidy()
	if n.broke == "" {
		n.broke = b.m.broken(&n.state)
	}
	b.out = append(b.out, n)
}

func (b *brancher) count(event string) {
	if b.events != nil {
		b.events[event]++
	}
}

// network takes the steps of the PUT of an entry: it gets its position in the log early, and
// becomes visible later.
func (b *brancher) network(i uint8) {
	switch b.from.entries[i].phase {
	case flying:
		b.do("gets its position", 0, i, func(s *state) string {
			s.orders++
			s.entries[i].phase, s.entries[i].order = stamped, s.orders
			return ""
		})
		if b.m.Lose && !b.m.Broken {
			b.do("never takes effect", 0, i, func(s *state) string {
				s.entries[i].phase = dead
				return ""
			})
		}
		if i == b.from.first(i) && b.from.copies(i) == one(i) && b.from.doubles() < b.m.Twice {
			b.do("is repeated", 0, i, func(s *state) string {
				e := s.entries[i]
				e.copy = i
				again := s.add(e)
				for c := range s.clients {
					if s.clients[c].pauseFlying.has(i) {
						s.clients[c].pauseFlying = s.clients[c].pauseFlying.with(again)
					}
				}
				b.count("applied twice")
				return ""
			})
		}
	case stamped:
		b.do("becomes visible", 0, i, func(s *state) string {
			s.entries[i].phase = visible
			for j := uint8(1); j <= s.n; j++ {
				if s.entries[j].order > s.entries[i].order && s.entries[j].phase != stamped {
					b.count("visible out of order")
				}
			}
			return ""
		})
	}
}

// doubles returns how many PUTs were repeated.
func (s *state) doubles() (n uint8) {
	for i := uint8(1); i <= s.n; i++ {
		if s.entries[i].copy != 0 {
			n++
		}
	}
	return n
}

// client makes the steps of a client.
func (b *brancher) client(c uint8) {
	cl := &b.from.clients[c]
	switch cl.step {
	case idle:
		b.begin(c)
	case paging:
		b.do("reads the other pages", c, 0, func(s *state) string { return b.secondPage(s, c) })
	case ready:
		b.do("sends a PUT", c, 0, func(s *state) string { b.send(s, c); return "" })
	case sent:
		b.sent(c)
	case settling, waiting:
		if b.m.pauseOver(b.from, c) {
			b.do("pauses, and lists", c, 0, func(s *state) string {
				b.m.endPause(s, c)
				return b.list(s, c, s.clients[c].purpose)
			})
		}
	case marking:
		b.marking(c)
	case observing:
		b.observing(c)
	case erasing:
		b.do("removes its own entry", c, cl.own, func(s *state) string {
			s.entries[cl.own].phase = deleted
			return b.finish(s, c)
		})
	}
	for i := uint8(1); b.m.Clean && i <= b.from.n; i++ {
		if cl.removable.has(i) && b.from.entries[i].phase == visible {
			b.do("cleans up", c, i, func(s *state) string {
				s.entries[i].phase = deleted
				b.count("cleaned up")
				return ""
			})
		}
	}
}

// begin starts an operation.
func (b *brancher) begin(c uint8) {
	cl := &b.from.clients[c]
	written, read := cl.left>>4, cl.left&15
	if written < b.m.Writes[c-1] && b.m.Lease {
		b.beginLease(c)
	} else if written < b.m.Writes[c-1] {
		b.do("looks", c, 0, func(s *state) string {
			s.clients[c].left += 16
			s.clients[c].write = put
			return b.list(s, c, toWrite)
		})
		if b.m.Reuse && cl.version != 0 {
			b.do("continues from its last write", c, cl.version, func(s *state) string {
				s.clients[c].left += 16
				s.clients[c].step, s.clients[c].base = ready, cl.version
				return ""
			})
		}
	}
	if read < b.m.Reads[c-1] {
		b.do("begins a Get", c, 0, func(s *state) string {
			s.clients[c].left++
			s.clients[c].since = s.certain
			s.clients[c].place = s.entries[b.m.tip(s, c)].order
			return b.list(s, c, toRead)
		})
	}
}

// list reads a listing, or its first page.
func (b *brancher) list(s *state, c uint8, why purpose) string {
	cl := &s.clients[c]
	cl.purpose = why
	all := s.visible()
	if b.m.Page > 0 {
		page, last := s.firstPage(all, b.m.Page)
		if page != all {
			cl.step, cl.page, cl.pageOrder, cl.slow = paging, page, last, false
			return ""
		}
	}
	cl.slow = false
	return b.listed(s, c, all)
}

func (s *state) firstPage(all set, size int) (page set, last uint8) {
	for order := s.orders; order > 0 && size > 0; order-- {
		if i := s.at(order); all.has(i) {
			page, last = page.with(i), order
			size--
		}
	}
	return page, last
}

func (b *brancher) secondPage(s *state, c uint8) string {
	cl := &s.clients[c]
	all := cl.page
	for order := cl.pageOrder - 1; order > 0; order-- {
		if i := s.at(order); i != 0 && s.entries[i].phase == visible {
			all = all.with(i)
		}
	}
	if cl.page&^s.visible() != 0 {
		b.count("listing torn")
	}
	cl.page, cl.pageOrder = 0, 0
	slow := cl.slow && !b.m.HastyClean
	if slow {
		// It took longer than a pause, so that what was removed meanwhile can be
		// missing: once more.
		b.count("listing too slow")
		return b.list(s, c, cl.purpose)
	}
	return b.listed(s, c, all)
}

// listed continues with a listing.
func (b *brancher) listed(s *state, c uint8, listed set) string {
	m, cl := b.m, &s.clients[c]
	v := m.look(s, c, listed)
	if v.Torn {
		if m.Page == 0 {
			return "what others build on is not listed"
		}
		b.count("listing torn")
		return b.list(s, c, cl.purpose)
	}
	cl.seen |= listed
	if m.Clean {
		cl.removable |= v.removable() // it can be under way for any time
	}
	for i := uint8(1); i <= s.n; i++ {
		if listed.has(i) {
			cl.floor = max(cl.floor, s.entries[i].floor)
		}
	}
	switch cl.purpose {
	case toWrite:
		cl.base, cl.snapshot, cl.step = s.first(v.of(v.Tip())), v.of(v.Settled()), ready
		if m.NoSnapshots {
			cl.snapshot = 0
		}
		if m.EagerSnapshot {
			cl.snapshot = v.of(v.Tip())
		}
		if m.Lease {
			b.lookAtLock(s, c)
		}
	case toResolve:
		return b.resolve(s, c, v)
	case toRead:
		if v.Tip() == v.Final() {
			return b.answer(s, c, v.of(v.Tip()))
		}
		b.count("Get waits")
		b.m.beginPause(s, c)
		cl.step, cl.purpose = waiting, toReadAgain
	case toReadAgain:
		return b.answer(s, c, v.of(v.Final()))
	case toTakeOver:
		if cl.base != s.first(v.of(v.Tip())) {
			return b.finish(s, c)
		}
		cl.snapshot = v.of(v.Settled())
		cl.step, cl.write, cl.token = ready, acquire, cl.floor+1
	case toAdopt:
		if made := v.Accepted(name(s.first(cl.own))); made >= 0 {
			cl.made = v.of(made)
			b.count("adopted")
			return b.acknowledge(s, c)
		}
		return b.finish(s, c)
	}
	return ""
}

// answer ends a Get.
func (b *brancher) answer(s *state, c uint8, found uint8) string {
	cl := &s.clients[c]
	if b.m.Broken {
		b.count("Get") // nothing is promised
		return b.finish(s, c)
	}
	if !s.follows(found, cl.since) {
		return "a Get returned less than what was certain before it began"
	}
	// Other writes may have had a conflict because of the state that was visible when the
	// Get began. So the Get must return the entries that were accepted up to that position.
	if v := b.m.look(s, c, s.visible()); !v.Torn {
		if shown := s.newestOf(v.set(v.Chain) & s.upTo(cl.place)); !s.follows(found, shown) {
			return "a Get returned less than what was shown before it began"
		}
	}
	if s.follows(found, s.certain) {
		s.certain = s.first(found)
	} else if !s.follows(s.certain, found) {
		return "a Get returned what never was"
	}
	b.count("Get")
	return b.finish(s, c)
}

// send sends a PUT.
func (b *brancher) send(s *state, c uint8) {
	cl := &s.clients[c]
	e := entry{phase: flying, prev: cl.base, snapshot: cl.snapshot, by: c}
	if b.m.Lease {
		e.token, e.floor = cl.token, max(cl.floor, cl.token)
		if cl.write != release {
			e.holder = c
		} else {
			cl.holds = false
		}
	}
	cl.own = s.add(e)
	cl.step, cl.slow, cl.stale = sent, false, false
	cl.during = 0
	for d := uint8(1); d <= b.m.clients(); d++ {
		if s.clients[d].step == observing {
			cl.during = cl.during.with(d)
		}
	}
}

func (s *state) add(e entry) uint8 {
	s.n++
	if s.n > maxEntries {
		panic("model: too many entries")
	}
	s.entries[s.n] = e
	return s.n
}

// sent waits for the reply to a PUT.
func (b *brancher) sent(c uint8) {
	m, cl := b.m, &b.from.clients[c]
	for i := uint8(1); i <= b.from.n; i++ {
		if !b.from.copies(cl.own).has(i) || !b.from.shown(i) {
			continue
		}
		b.do("is answered", c, i, func(s *state) string {
			cl := &s.clients[c]
			s.untime(c)
			if cl.slow {
				b.count("slow PUT")
				if m.DeleteOwn {
					cl.step = erasing
					return ""
				}
				return b.finish(s, c)
			}
			cl.seen = cl.seen.with(i)
			m.beginPause(s, c)
			cl.step, cl.purpose = settling, toResolve
			return ""
		})
	}
	// Without the assumption a reply that is lost is the same as one that is slow.
	if m.Lose && !(m.Broken && b.from.answered(cl.own)) {
		b.do("gives up on a PUT", c, cl.own, func(s *state) string {
			s.untime(c)
			b.count("lost reply")
			if m.Adopt {
				return b.list(s, c, toAdopt)
			}
			return b.finish(s, c)
		})
	}
}

// answered reports whether the server can have answered a PUT.
func (s *state) answered(i uint8) bool { return s.copies(i)&s.where(s.shown) != 0 }

// shown reports whether an entry took effect.
func (s *state) shown(i uint8) bool {
	return s.entries[i].phase == visible || s.entries[i].phase == deleted
}

// resolve reports the outcome of a write.
func (b *brancher) resolve(s *state, c uint8, v view) string {
	m, cl := b.m, &s.clients[c]
	own := cl.own
	nonce := name(s.first(own))
	switch v.Outcome(nonce) {
	case versionlog.NotListed:
		b.count("own entry not listed")
		return b.finish(s, c)
	case versionlog.BeforeSnapshot:
		b.count("older than the snapshot")
		return b.finish(s, c)
	case versionlog.BelowSnapshot:
		b.count("lower than the snapshot")
		return b.finish(s, c)
	case versionlog.Rejected:
		b.count("conflict")
		s.refused = s.refused.with(own)
		if cl.write == renew {
			cl.holds = false
		}
		return b.finish(s, c)
	case versionlog.Disputed:
		b.count("evaluations disagree")
		return b.finish(s, c)
	case versionlog.Duplicated:
		b.count("accepted by another duplicate only")
		return b.finish(s, c)
	}
	cl.made = v.of(v.Accepted(nonce))
	if m.NoConfirm || m.NoSnapshots || cl.write == renew {
		return b.acknowledge(s, c)
	}
	cl.mark = s.add(entry{phase: flying, mark: true, snapshot: cl.made, by: c, floor: s.entries[own].floor})
	cl.step = marking // timed since the listing, as cl.slow is
	return ""
}

// marking waits for the reply to a confirmation.
func (b *brancher) marking(c uint8) {
	cl := &b.from.clients[c]
	if b.from.answered(cl.mark) {
		b.do("has its confirmation answered", c, cl.mark, func(s *state) string {
			cl := &s.clients[c]
			s.untime(c)
			cl.seen = cl.seen.with(cl.mark)
			if cl.slow && !b.m.LateConfirm {
				b.count("slow confirmation")
				return b.finish(s, c)
			}
			return b.acknowledge(s, c)
		})
		if cl.slow && b.m.Again {
			b.do("resolves once more", c, cl.mark, func(s *state) string {
				s.untime(c)
				s.clients[c].seen = s.clients[c].seen.with(cl.mark)
				return b.list(s, c, toResolve)
			})
		}
	}
	if b.m.Lose && !(b.m.Broken && b.from.answered(cl.mark)) {
		b.do("gives up on a confirmation", c, cl.mark, func(s *state) string {
			s.untime(c)
			return b.finish(s, c)
		})
	}
}

// acknowledge ends a write with success.
func (b *brancher) acknowledge(s *state, c uint8) string {
	m, cl := b.m, &s.clients[c]
	own := cl.own
	b.count("acknowledged")
	for i := uint8(1); i <= s.n; i++ {
		if s.acked.has(i) && i != own && s.entries[i].prev == s.entries[own].prev && !m.Lease {
			return "two successes from one state"
		}
	}
	if cl.write != renew || !m.Broken {
		s.acked = s.acked.with(own)
		switch {
		case m.Broken && m.NoConfirm && m.Lease:
			// Only what the clients believe is of interest.
		case s.follows(own, s.certain):
			s.certain = own
		case !s.follows(s.certain, own):
			return "two writes were acknowledged on one state"
		}
	}
	cl.version, cl.base = own, own
	cl.snapshot = cl.made
	if m.NoSnapshots {
		cl.snapshot = 0
	}
	if broke := b.hold(s, c); broke != "" {
		return broke
	}
	return b.finish(s, c)
}

// finish ends an operation.
func (b *brancher) finish(s *state, c uint8) string {
	cl := &s.clients[c]
	s.untime(c)
	for d := range s.clients {
		s.clients[d].during = s.clients[d].during.without(c)
	}
	cl.step, cl.purpose, cl.write, cl.own, cl.made, cl.mark, cl.since, cl.place = idle, 0, 0, 0, 0, 0, 0, 0
	cl.slow, cl.stale, cl.page, cl.pageOrder = false, false, 0, 0
	cl.before, cl.during, cl.token = 0, 0, 0
	if !b.m.Reuse {
		cl.base = 0
	}
	if !b.m.Reuse && !b.m.Lease {
		cl.snapshot, cl.version = 0, 0
	}
	if written, read := cl.left>>4, cl.left&15; written >= b.m.Writes[c-1] && read >= b.m.Reads[c-1] && !cl.holds {
		// It will do nothing any more but clean up.
		*cl = client{left: cl.left, removable: cl.removable}
	}
	return ""
}

// tidy forgets what can no longer make a difference, so that fewer states differ.
func (s *state) tidy() {
	all := s.visible()
	for c := range s.clients {
		cl := &s.clients[c]
		cl.seen &= all
		cl.settled &= all
		cl.pauseSeen &= all
		cl.removable &= all
	}
}

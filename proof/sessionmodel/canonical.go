package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// canonical brings a state into a form in which states that no future can distinguish are mostly
// equal. It returns by how much the largest token of each lock rose.
func (m *machine) canonical(s *state) (raised [locks]uint8) {
	m.dropDead(s)
	for c := range s.cl {
		s.cl[c].tidy()
	}
	s.forgetSessions()
	if m.reduce {
		m.reduceState(s)
	}
	for l := range locks {
		raised[l] = s.max[l] - explore.TopToken
		if raised[l] != 0 {
			s.shiftTokens(l, raised[l])
		}
	}
	s.sortFlight(m.Remove)
	s.renameSessions()
	s.renameVersions()
	return raised
}

// dropDead removes the requests whose predecessor is not the present version. A version is never
// used twice, so that they are refused whenever they arrive. The version of an absent register does
// return if records are removed.
func (m *machine) dropDead(s *state) {
	s.keep(func(r *request) bool {
		if m.Fault == NotificationOfAnEarlierWrite && r.what == toPoke && s.reg[r.reg].kind == open {
			r.pred = s.reg[r.reg].ver // it reads again, and sends again
		}
		return r.blind == 1 || r.pred == s.reg[r.reg].ver || m.Remove && r.pred == 0
	})
}

// keep removes the requests for which good is false.
func (s *state) keep(good func(r *request) bool) { explore.Keep(s.flight[:], &s.n, good) }

// tidy zeroes what does not belong to a client's present modes.
func (c *client) tidy() {
	if c.term.mode == none {
		c.term = term{}
	}
	for l := range c.hold {
		if c.hold[l].mode == idle {
			c.hold[l] = hold{}
		}
	}
}

// isNamed says whether a client can still use a session: it is the present one of a client, or a
// lock or a claim under way names it.
func (s *state) isNamed(reg uint8) bool {
	for c := range s.cl {
		if t := &s.cl[c].term; t.mode != none && t.reg == reg {
			return true
		}
	}
	for l := range locks {
		if s.reg[l].isTaken() && s.reg[l].under == reg {
			return true
		}
	}
	for i := range s.n {
		if r := &s.flight[i]; r.what == toClaim && r.rec.under == reg {
			return true
		}
	}
	return false
}

// forgetSessions removes the registers of sessions that no client can find again, since ids of
// sessions are never made twice.
func (s *state) forgetSessions() {
	for reg := uint8(firstSess); reg < registers; reg++ {
		if s.isNamed(reg) {
			continue
		}
		if s.reg[reg] != (record{}) || s.n > 0 {
			s.keep(func(r *request) bool { return r.reg != reg })
		}
		s.reg[reg], s.ended[reg] = record{}, 0
		for c := range s.cl {
			s.cl[c].watch[reg] = watch{}
		}
	}
}

// reduceState zeroes what cannot matter any more.
func (m *machine) reduceState(s *state) {
	for reg := range s.reg {
		s.reg[reg].reduce()
	}
	for i := range s.n {
		s.flight[i].rec.reduce()
	}
	for c := range s.cl {
		cl := &s.cl[c]
		if t := &cl.term; t.mode != none {
			r := &s.reg[t.reg]
			if t.base != r.ver && t.base != 0 {
				t.base = explore.GoneVersion
			}
			if t.mode != opening && (t.mark != r.mark || r.kind == absent) {
				t.mark = explore.GoneVersion
			}
			for i := range t.n {
				if a := &t.att[i]; !s.canBeSeen(t.reg, a.ver) {
					*a = attempt{ver: explore.GoneVersion}
				}
			}
		}
		for l := range cl.hold {
			if h := &cl.hold[l]; h.mode != idle && h.base != s.reg[l].ver {
				h.base = explore.GoneVersion
			}
		}
		for reg := range cl.watch {
			s.reduceWatch(&cl.watch[reg], &s.reg[reg])
		}
	}
}

// reduce zeroes what no client uses.
func (r *record) reduce() {
	switch {
	case r.isTaken() && isSession(r.under):
		r.mark = 0 // its session's counts
	case r.kind == free, r.kind == fenced, r.kind == closed:
		*r = record{ver: r.ver, kind: r.kind, tok: r.tok, grant: r.grant}
	}
}

// reduceWatch forgets a watch of a record that was replaced.
func (s *state) reduceWatch(w *watch, r *record) {
	if w.kind != timed {
		return
	}
	if r.kind != open && r.kind != held || w.mark != r.mark {
		*w = watch{}
	} else if w.ver != r.ver {
		w.ver = explore.GoneVersion
	}
}

func (s *state) canBeSeen(reg, ver uint8) bool {
	if s.reg[reg].mark == ver {
		return true
	}
	for i := range s.n {
		if s.flight[i].reg == reg && s.flight[i].rec.ver == ver {
			return true
		}
	}
	return false
}

func (s *state) shiftTokens(l int, by uint8) {
	shift := func(t *uint8) { explore.LowerToken(t, by) }
	shift(&s.reg[l].tok)
	shift(&s.max[l])
	for i := range s.n {
		if r := &s.flight[i]; int(r.reg) == l {
			shift(&r.rec.tok)
		}
	}
}

// sortFlight puts requests into an order that does not depend on the names of versions. Of those
// that are alike in every respect it keeps one.
func (s *state) sortFlight(returns bool) {
	explore.Sort(s.flight[:], &s.n, s.flightKey, func(key uint64, a, b *request) bool {
		return key&0xf == 0 && b.blind == 0 && !(returns && b.pred == 0) &&
			a.reg == b.reg && a.rec.under == b.rec.under && a.rec.marks(&b.rec)
	})
}

// marks says whether two records that are to be written have equivalent marks: each its own
// version, or both the same one.
func (r *record) marks(q *record) bool {
	return r.mark == q.mark || r.mark == r.ver && q.mark == q.ver
}

// flightKey describes a request without versions. Its low four bits say which field of its sender
// names it; zero if none does.
func (s *state) flightKey(r *request) uint64 {
	k := uint64(r.what)<<56 | uint64(r.by)<<52 | uint64(r.rec.kind)<<48 | uint64(r.reg)<<40 | uint64(r.rec.under)<<32 |
		uint64(r.rec.tok)<<24 | uint64(r.rec.ttl)<<20 | uint64(r.rec.grant)<<16 | uint64(r.rec.attend)<<12 |
		uint64(r.over)<<8 | uint64(r.blind)<<9 | uint64(r.rec.owner)<<10
	if r.pred == 0 {
		k |= 1 << 63
	}
	if r.by < 2 {
		t := &s.cl[r.by].term
		for i := range t.n {
			if t.att[i].ver == r.rec.ver {
				k |= uint64(i) + 1
			}
		}
	}
	return k
}

// renameSessions moves the registers of sessions: first those of the two clients, then
// former ones in the order in which locks and requests name them.
func (s *state) renameSessions() {
	var to [registers]uint8
	for l := range uint8(locks) {
		to[l] = l
	}
	next := uint8(formerAt)
	name := func(reg uint8) {
		if isSession(reg) && to[reg] == 0 {
			to[reg] = next
			next++
		}
	}
	same := true
	for c := range s.cl {
		if t := &s.cl[c].term; t.mode != none && isSession(t.reg) {
			to[t.reg] = firstSess + uint8(c)
		}
	}
	for l := range locks {
		if s.reg[l].isTaken() {
			name(s.reg[l].under)
		}
	}
	for i := range s.n {
		if r := &s.flight[i]; r.what == toClaim {
			name(r.rec.under)
		}
	}
	for reg := range to {
		same = same && (to[reg] == 0 || int(to[reg]) == reg)
	}
	if same {
		return
	}
	s.moveSessions(&to)
}

// moveSessions moves the registers of sessions to new places. No state names those without a new
// place.
func (s *state) moveSessions(to *[registers]uint8) {
	old := *s
	for reg := firstSess; reg < registers; reg++ {
		s.reg[reg], s.ended[reg] = record{}, 0
		s.cl[0].watch[reg], s.cl[1].watch[reg] = watch{}, watch{}
	}
	for reg := firstSess; reg < registers; reg++ {
		if at := to[reg]; at != 0 {
			s.reg[at], s.ended[at] = old.reg[reg], old.ended[reg]
			for c := range s.cl {
				s.cl[c].watch[at] = old.cl[c].watch[reg]
			}
		}
	}
	for l := range locks {
		if s.reg[l].isTaken() {
			s.reg[l].under = to[s.reg[l].under]
		}
	}
	for i := range s.n {
		r := &s.flight[i]
		r.reg = to[r.reg]
		if r.rec.isTaken() {
			r.rec.under = to[r.rec.under]
		}
	}
	for c := range s.cl {
		if t := &s.cl[c].term; t.mode != none {
			t.reg = to[t.reg]
		}
	}
}

// renameVersions numbers versions in the order in which they appear.
func (s *state) renameVersions() {
	var names explore.Names
	ver := func(v *uint8) { names.Rename(v) }
	for reg := range s.reg {
		ver(&s.reg[reg].ver)
		ver(&s.reg[reg].mark)
	}
	for c := range s.cl {
		cl := &s.cl[c]
		ver(&cl.term.base)
		ver(&cl.term.mark)
		for i := range cl.term.n {
			ver(&cl.term.att[i].ver)
		}
		for l := range cl.hold {
			ver(&cl.hold[l].base)
		}
		for reg := range cl.watch {
			ver(&cl.watch[reg].ver)
			ver(&cl.watch[reg].mark)
			ver(&cl.watch[reg].saw)
		}
	}
	for i := range s.n {
		r := &s.flight[i]
		ver(&r.pred)
		ver(&r.rec.ver)
		ver(&r.rec.mark)
	}
}

// Hash returns the digest of a canonical state.
func (m *machine) Hash(s *state) uint64 {
	var buf [320]byte
	b := append(buf[:0], s.n<<4|s.max[0], s.max[1])
	for reg := range s.reg {
		r := &s.reg[reg]
		if r.kind == absent && r.ver == 0 {
			b = append(b, 0x80|s.ended[reg]) // no version is that large
			continue
		}
		b = r.append(b)
		b = append(b, s.ended[reg])
	}
	for i := range s.n {
		r := &s.flight[i]
		b = r.rec.append(b)
		b = append(b, r.pred, r.reg<<4|r.what, r.by<<2|r.blind<<1|r.over)
	}
	for c := range s.cl {
		cl := &s.cl[c]
		t := &cl.term
		b = append(b, t.mode<<4|t.reg, t.base, t.mark, t.left<<4|t.late<<3|t.n)
		for i := range t.n {
			b = append(b, t.att[i].ver, t.att[i].left)
		}
		for l := range cl.hold {
			h := &cl.hold[l]
			b = append(b, h.mode<<4|h.left, h.base)
		}
		for reg := range cl.watch {
			w := &cl.watch[reg]
			b = append(b, w.kind<<4|w.wait)
			if w.kind != unseen {
				b = append(b, w.ver, w.mark, w.saw)
			}
		}
	}
	return explore.Digest(b)
}

func (r *record) append(b []byte) []byte {
	return append(b, r.ver, r.kind<<4|r.under, r.owner<<4|r.grant, r.tok<<4|r.ttl, r.mark, r.attend)
}

package lockmodel

import (
	"slices"

	"github.com/holdfast-go/holdfast/proof/explore"
)

// What a register says. None is not a state of a register: it means "this client has seen nothing
// yet".
const (
	none uint8 = iota
	absent
	free
	held
	broken
	brokenNow
)

// record is the value of the register together with its version. A version is never used twice, so
// it names one record for ever.
type record struct {
	ver   uint8 // 0 is the version of an absent register
	kind  uint8
	owner uint8 // client of the grant
	grant uint8 // random id of the grant
	tok   uint8
	ttl   uint8
	pres  uint8 // the presence of the holder's process: none, A's, B's, or of a dead one
	broke uint8 // of a broken record: the version of the grant's last write
	stood uint8 // of a broken record: the age of that write, by the store's clock
	age   uint8 // in the register and in an answer: the record's age, by the store's clock
	mark  uint8 // the version of the holder's last write, if another client has requested it since; else 0
}

// lastWrite is the version of the last write of the grant's holder.
func (r *record) lastWrite() uint8 {
	if r.mark != 0 {
		return r.mark
	}
	return r.ver
}

// oldest is the age at which a record, with what it broke, is old enough for any client.
func (r *record) oldest() uint8 {
	if r.kind != held && r.kind != broken {
		return 0
	}
	return 2*r.ttl - min(r.stood, 2*r.ttl)
}

// of says whether a record is of a grant, in force or broken.
func (r *record) of(grant uint8) bool { return r.kind >= held && r.grant == grant }

// What a write is for.
const (
	toAcquire uint8 = iota + 1
	toRenew
	toRelease
	toGiveUp
	toBreak
	toAttach
	toExtend
	toAsk
	toSweep
)

// operator is the value of request.by for the operator, who breaks locks and removes records.
const operator = 2

// request is a write that was sent and that the store may still apply, now or at
// any time later, or never.
type request struct {
	rec           record // what it writes; rec.ver is its nonce
	pred          uint8  // the version that it is conditional on
	unconditional uint8  // 1: it is not conditional at all (a fault)
	by            uint8
	what          uint8
	grant         uint8 // on behalf of which grant
	over          uint8 // ghost: this grant was reported to be over for certain
}

// What a client is doing.
const (
	idle uint8 = iota
	acquiring
	holding
	releasing
	givingUp
	attaching // a lease with a ticket
	extending // the lease of a ticket, which continues in the next ticket
	freeing   // the lease of a ticket
)

// What a client is waiting for.
const (
	quiet     uint8 = iota
	asked           // its read is on the way to the store
	answered        // the answer of its read is on the way back
	waiting         // its write is on the way to the store
	confirmed       // its write was applied, and the answer is on the way back
	refused         // its write found another version, and the answer is on the way back
)

const (
	maxAttempts = 3
	maxFlight   = 4

	freshVersion = 60 // each step makes at most one version and one grant
	freshGrant   = 20
)

// attempt is a write of the present grant whose outcome the client does not know,
// and how much of the trust that it would give is left: its TTL less the time since
// just before it was sent, on the client's own clock.
type attempt struct{ ver, left uint8 }

type client struct {
	mode, io uint8
	grant    uint8
	tok      uint8
	left     uint8  // trust that is left, on its own clock
	base     record // the version to write against; seen, or written by itself
	wait     uint8  // how long base must still stay unchanged, on its own clock
	asking   uint8  // how long ago its read was sent (only used by a fault)
	reply    record // while answered
	wver     uint8  // the nonce of the write that it waits for
	n        uint8  // attempts in att
	att      [maxAttempts]attempt
	exempt   uint8 // ghost: its grant was broken with --now
}

// state is a state of the whole world. It holds no pointer and no time: of a clock it has only what
// is left of a wait.
type state struct {
	reg    record
	was    record // ghost: the record that the broken one in the register broke
	max    uint8  // ghost: the largest token granted so far
	n      uint8  // requests in flight
	flight [maxFlight]request
	cl     [2]client
	hand   [2]ticket // the file of each client
}

// Start returns the first state.
func (m *machine) Start() state {
	return state{max: explore.TopToken, reg: record{kind: absent, tok: explore.TopToken}}
}

// canonical brings a state into a form in which states that no future can distinguish are mostly
// equal. Requests that can no longer be applied are removed; values that no client uses any more
// are zero; requests have one order; versions, grants and tokens are renumbered. It returns by how
// much the largest token rose.
func (m *machine) canonical(s *state) (raised uint8) {
	m.dropDead(s)
	s.tidyHands()
	for i := range s.cl {
		s.cl[i].tidy()
		if m.reduce {
			m.reduceClient(s, i)
		}
	}
	if m.reduce {
		s.reduceRegister()
		s.relabel()
	}
	raised = s.max - explore.TopToken
	if raised != 0 {
		s.shiftTokens(raised)
	}
	s.sortFlight()
	s.rename()
	return raised
}

// dropDead removes the requests whose predecessor is not the present version. A version is never
// used twice, so that they are refused whenever they arrive.
func (m *machine) dropDead(s *state) {
	explore.Keep(s.flight[:], &s.n, func(r *request) bool {
		if m.Fault == AgeOfAnEarlierWrite && r.by == operator && s.reg.kind == held && r.rec.tok == s.reg.tok+1 {
			r.pred = s.reg.ver // it reads again, and sends again
		}
		if r.unconditional == 1 || r.pred == s.reg.ver {
			return true
		}
		if r.by < 2 {
			if c := &s.cl[r.by]; c.io == waiting && c.wver == r.rec.ver {
				c.io = refused
			}
		}
		return false
	})
}

// tidy zeroes what does not belong to the client's present mode.
func (c *client) tidy() {
	if c.io != answered {
		c.reply = record{}
	}
	if c.io != asked && c.io != answered {
		c.asking = 0
	}
	if c.io != waiting && c.io != confirmed && c.mode != extending {
		c.wver = 0
	}
	if c.mode == idle {
		*c = client{io: c.io, base: c.base, wait: c.wait, asking: c.asking, reply: c.reply}
	} else {
		c.wait = 0
	}
}

// reduceRegister zeroes the fields of the register that no client can use any more.
func (s *state) reduceRegister() {
	r := &s.reg
	switch r.kind {
	case held, broken:
	case brokenNow:
		r.owner, r.ttl, r.pres, r.age = 0, 0, 0, 0
	default:
		r.age = 0
	}
	if r.kind != broken {
		s.was = record{}
	} else if !s.isWatched(r.broke) {
		r.broke, s.was.ver = 0, 0
	}
	if r.kind != held && !s.isWanted(r.grant) {
		r.grant = 0
	}
}

// isWanted says whether a client has a grant, or a write in flight is for it.
func (s *state) isWanted(grant uint8) bool {
	for i := range s.n {
		if s.flight[i].grant == grant {
			return true
		}
	}
	return grant == s.cl[0].grant || grant == s.cl[1].grant
}

// isWatched says whether a client waits on a version, or is about to.
func (s *state) isWatched(ver uint8) bool {
	for i := range s.cl {
		c := &s.cl[i]
		if c.waits() && c.base.lastWrite() == ver || c.io == answered && c.reply.lastWrite() == ver || c.io == confirmed && c.wver == ver {
			return true
		}
	}
	return false
}

// relabel gives the holders' writes that records name new names, which do not depend on earlier
// requests to yield. Only one fact counts: which records name the same write. The exception is a
// write whose holder still waits for its outcome. The first of those records then serves as that
// write.
func (s *state) relabel() {
	records := [...]*record{&s.cl[0].base, &s.cl[0].reply, &s.cl[1].base, &s.cl[1].reply, &s.reg}
	var names, first [len(records)]uint8
	marked := false
	for i, r := range records {
		if names[i] = r.lastWrite(); r.kind == broken && i != 0 && i != 2 {
			names[i] = r.broke
		} else {
			first[i] = r.ver
		}
		marked = marked || r.mark != 0
	}
	if !marked {
		return
	}
	rename := func(old uint8) uint8 {
		if old == 0 || s.isAwaited(old) {
			return old
		}
		for i := range records {
			if names[i] == old && first[i] != 0 {
				return first[i]
			}
		}
		return old
	}
	s.was.ver = rename(s.was.ver)
	for i, r := range records {
		name := rename(names[i])
		switch {
		case first[i] == 0:
			r.broke = name
		case name == r.ver:
			r.mark = 0
		default:
			r.mark = name
		}
	}
}

// isAwaited says whether a client waits for the outcome of a write, or knows the write as one of
// unknown outcome.
func (s *state) isAwaited(ver uint8) bool {
	return slices.ContainsFunc(s.cl[:], func(c client) bool {
		return c.wver == ver || slices.ContainsFunc(c.att[:c.n], func(a attempt) bool { return a.ver == ver })
	})
}

// reduceClient zeroes what client i cannot use any more, or makes equivalent values equal.
func (m *machine) reduceClient(s *state, i int) {
	c := &s.cl[i]
	if c.base.kind != none { // all else is in c.wait, c.grant and c.tok
		base := record{ver: c.base.ver, kind: absent, tok: c.base.tok, mark: c.base.mark}
		if former := c.base.formerlyOf(i); c.wait > 0 && (former || c.base.pres != 0) {
			base.kind, base.owner, base.pres = c.base.kind, uint8(i), c.base.pres
			if !former {
				base.owner = 1 - uint8(i)
			}
		}
		c.base = base
	}
	if c.io == answered {
		m.reduceReply(s, i)
	}
	hopeless := s.buryAttempts(c)
	// Every write over a version that was replaced will be refused, whatever it says.
	stale := c.base.kind != none && c.base.ver != s.reg.ver && c.io != confirmed
	if stale {
		c.base.tok = explore.LowToken
	}
	if stale && c.mode == acquiring && hopeless || c.mode == releasing || c.mode == givingUp || c.mode == freeing {
		c.tok, c.exempt = explore.LowToken, 0
	}
}

// reduceReply reduces an answer on its way to client i to what the client will use: whether it is
// of the client's grant, or of a former one, and how long it makes the client wait.
func (m *machine) reduceReply(s *state, i int) {
	c := &s.cl[i]
	r := &c.reply
	if r.ver != s.reg.ver {
		r.tok = explore.LowToken
	}
	if !c.waits() || r.broke != c.base.lastWrite() {
		r.broke = 0
	}
	if r.kind == brokenNow {
		r.owner, r.ttl, r.pres, r.age = 0, 0, 0, 0
	}
	switch {
	case c.grant != 0 && r.of(c.grant):
	case m.patience(i, *r) == 0:
		*r = record{ver: r.ver, kind: free, tok: r.tok}
	default:
		less := record{ver: r.ver, kind: r.kind, owner: 1 - uint8(i), tok: r.tok, ttl: r.ttl, pres: r.pres, broke: r.broke, mark: r.mark}
		if r.formerlyOf(i) {
			less.owner = r.owner
		}
		if m.isOld(r) {
			less.age, less.stood = 2*r.ttl, min(r.stood, 1)
		}
		*r = less
	}
}

// waits says whether base is what the client has seen of another's.
func (c *client) waits() bool {
	return c.base.kind != none && (c.mode == idle || c.mode == acquiring)
}

// buryAttempts makes the attempts of c equal that can never be seen: those that are neither in
// flight, nor in the register, nor in an answer on its way to c. It reports whether that is true of
// all.
func (s *state) buryAttempts(c *client) (all bool) {
	all = true
	for i := range c.n {
		if a := &c.att[i]; a.ver == explore.GoneVersion || !s.canBeSeen(c, a.ver) {
			*a = attempt{ver: explore.GoneVersion}
		} else {
			all = false
		}
	}
	return all
}

func (s *state) canBeSeen(c *client, ver uint8) bool {
	if ver == s.reg.ver || ver == s.reg.mark || ver == c.wver || c.io == answered && (ver == c.reply.ver || ver == c.reply.mark) {
		return true
	}
	for i := range s.n {
		if s.flight[i].rec.ver == ver {
			return true
		}
	}
	return false
}

func (c *client) forget() {
	c.n = 0
	c.att = [maxAttempts]attempt{}
}

func (s *state) shiftTokens(by uint8) {
	shift := func(t *uint8) { explore.LowerToken(t, by) }
	shift(&s.reg.tok)
	shift(&s.max)
	for i := range s.n {
		shift(&s.flight[i].rec.tok)
	}
	for i := range s.cl {
		c := &s.cl[i]
		shift(&c.tok)
		shift(&c.base.tok)
		shift(&c.reply.tok)
	}
	for i := range s.hand {
		shift(&s.hand[i].tok)
	}
}

// sortFlight puts requests into an order that does not depend on the names of versions. Of those
// that are alike in every respect that matters it keeps one.
func (s *state) sortFlight() {
	explore.Sort(s.flight[:], &s.n, s.flightKey, func(key uint64, a, b *request) bool {
		return a.grant == b.grant && a.rec.grant == b.rec.grant && key&0xff == 0 && b.unconditional == 0
	})
}

// flightKey describes a request without versions and grant ids. Its low byte says which field of
// its sender names it; zero if none does.
func (s *state) flightKey(r *request) uint64 {
	k := uint64(r.by)<<56 | uint64(r.what)<<48 | uint64(r.rec.kind)<<40 | uint64(r.rec.tok)<<32 | uint64(r.rec.ttl)<<24 |
		uint64(r.rec.stood)<<27 | uint64(r.unconditional)<<17 | uint64(r.over)<<16 | uint64(r.rec.pres)<<44
	for h := range s.hand {
		t := &s.hand[h]
		for i, ver := range t.ann[:t.n] {
			if ver == r.rec.ver {
				k |= 1<<(19+2*h+i) | 1<<5
			}
		}
		if t.grant != 0 && t.grant == r.grant {
			k |= 1 << (33 + h + 4)
		}
	}
	if r.by >= 2 {
		return k
	}
	c := &s.cl[r.by]
	if r.grant == c.grant {
		k |= 1 << 18
	}
	if c.wver == r.rec.ver {
		k |= 1 << 4
	}
	for i := range c.n {
		if c.att[i].ver == r.rec.ver {
			k |= uint64(i) + 1
		}
	}
	return k
}

// rename numbers versions and grants in the order in which they appear.
func (s *state) rename() {
	var vers explore.Names
	grants := explore.Names{Last: 2} // the clients' own come first
	ver := func(v *uint8) { vers.Rename(v) }
	grant := func(g *uint8) { grants.Rename(g) }
	for i := range s.cl {
		if g := s.cl[i].grant; g != 0 {
			grants.Set(g, uint8(i)+1)
		}
	}
	ver(&s.reg.ver)
	ver(&s.reg.broke)
	ver(&s.reg.mark)
	ver(&s.was.ver)
	grant(&s.reg.grant)
	for i := range s.cl {
		c := &s.cl[i]
		grant(&c.grant)
		ver(&c.base.ver)
		ver(&c.base.mark)
		ver(&c.reply.ver)
		ver(&c.reply.mark)
		ver(&c.reply.broke)
		grant(&c.reply.grant)
		ver(&c.wver)
		for j := range c.n {
			ver(&c.att[j].ver)
		}
	}
	for i := range s.hand {
		t := &s.hand[i]
		grant(&t.grant)
		ver(&t.ver)
		for j := range t.n {
			ver(&t.ann[j])
		}
	}
	for i := range s.n {
		r := &s.flight[i]
		ver(&r.rec.ver)
		ver(&r.rec.mark)
		ver(&r.pred)
		grant(&r.rec.grant)
		grant(&r.grant)
	}
}

// Hash returns the digest of a canonical state.
func (m *machine) Hash(s *state) uint64 {
	var buf [128]byte
	b := s.reg.append(buf[:0])
	b = append(b, s.max, s.n, s.was.ver, s.was.kind<<4|s.was.pres<<2|s.was.owner)
	for i := range s.n {
		r := &s.flight[i]
		b = r.rec.append(b)
		b = append(b, r.pred, r.by<<6|r.unconditional<<5|r.over<<4|r.what, r.grant)
	}
	for i := range s.cl {
		c := &s.cl[i]
		b = append(b, c.mode<<4|c.io, c.grant, c.tok, c.left<<4|c.wait, c.exempt<<7|c.n<<4|c.asking, c.wver)
		b = c.base.append(b)
		b = c.reply.append(b)
		t := &s.hand[i]
		b = append(b, t.ver, t.grant, t.tok<<4|t.n<<1|t.good, t.ann[0], t.ann[1])
		for j := range c.att {
			b = append(b, c.att[j].ver, c.att[j].left)
		}
	}
	return explore.Digest(b)
}

func (r *record) append(b []byte) []byte {
	return append(b, r.ver, r.kind<<4|r.pres<<2|r.owner, r.grant, r.tok<<4|r.ttl, r.broke, r.stood<<4|r.age, r.mark)
}

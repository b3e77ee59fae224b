package sessionmodel

import "github.com/holdfast-go/holdfast/proof/explore"

// The registers: those of the locks come first, those of sessions after them. The session of each
// client has a place of its own; former ones follow.
const (
	locks     = 2
	firstSess = locks
	formerAt  = firstSess + 2
	registers = formerAt + 4

	nowhere  = 255 // no register
	operator = 2   // who removes records and breaks locks, in request.by and in record.owner
)

// What a register says.
const (
	absent uint8 = iota
	free
	held   // a lock
	broken // a lock, by a program that is not its holder
	open   // a session
	fenced // a session that others revoked
	closed // a session that its client ended
)

// record is the value of a register with its version. A version is never made twice; only that of
// an absent register, zero, returns when a record is removed.
type record struct {
	ver    uint8
	kind   uint8
	under  uint8 // of a held lock: the register that shows whether its holder lives
	owner  uint8 // client of the grant; operator: a placeholder for a session that was absent
	grant  uint8 // of a lock: 1+c is the present grant of client c, 0 any former one
	tok    uint8
	ttl    uint8
	mark   uint8 // version of the holder's own last write
	attend uint8 // locks that others request from the holder, a bit each
}

// What a write is for.
const (
	toOpen uint8 = iota + 1
	toBeat
	toClose
	toFence
	toStandIn
	toPoke
	toClaim
	toFree
	toBreak
)

// request is a write that was sent and that the store may still apply, now, at any later
// time, or never.
type request struct {
	reg   uint8
	what  uint8
	by    uint8
	pred  uint8 // the version that it is conditional on
	blind uint8 // 1: on none (a fault)
	over  uint8 // ghost: its grant was reported to be over for certain
	rec   record
}

// attempt is a write whose outcome its client does not know, and how much of the trust that
// it would give is left: the TTL less the time since just before it was sent, on the
// client's own clock.
type attempt struct{ ver, left uint8 }

// The states of a term: of a session, or of a plain lease.
const (
	none uint8 = iota
	opening
	alive
)

// term is what a client knows of its session, or of its plain lease.
type term struct {
	mode uint8
	reg  uint8
	base uint8 // the version to write against
	mark uint8 // the last own write that is known to have been applied
	left uint8 // trust that is left, on the client's own clock
	late uint8 // ghost: the deadline has passed (a fault)
	n    uint8
	att  [maxAttempts]attempt
}

// What a client does with a lock.
const (
	idle uint8 = iota
	claiming
	holding
	freeing // a release, or a claim that was given up, until its end is certain
)

// hold is what a client knows of one lock. It does not keep a read on which the client has not
// acted, see the package comment.
type hold struct {
	mode uint8
	base uint8 // the version to write against
	left uint8 // a trust of the lock's own (a fault)
}

// What a waiter has seen of a register.
const (
	unseen uint8 = iota
	timed
	dead // it was revoked or closed, and removed since
)

// watch is what a waiter knows of the register that shows whether a holder lives.
type watch struct {
	kind uint8
	ver  uint8 // as it was last read
	mark uint8 // the mark that it times
	wait uint8 // how long the mark must still stay, on the waiter's own clock
	saw  uint8 // ghost: the mark that was there
}

type client struct {
	term  term
	hold  [locks]hold
	watch [registers]watch
}

const (
	maxAttempts = 2
	maxFlight   = 3

	freshVersion = 100 // each step makes at most one version
)

// state is a state of the whole world. It holds no pointer and no time: of a clock it has only what
// is left of a wait.
type state struct {
	reg    [registers]record
	ended  [registers]uint8 // ghost: the session was revoked or closed once
	max    [locks]uint8     // ghost: the largest token granted so far
	n      uint8
	flight [maxFlight]request
	cl     [2]client
}

// Start returns the first state, in its canonical form.
func (m *machine) Start() state {
	var s state
	for l := range locks {
		s.reg[l] = record{ver: uint8(l) + 1, mark: uint8(l) + 1, kind: free, tok: explore.TopToken}
		s.max[l] = explore.TopToken
	}
	m.canonical(&s)
	return s
}

// isTaken says whether a lock has a holder, also if it is broken.
func (r *record) isTaken() bool { return r.kind == held || r.kind == broken }

// isOf says whether a lock's record is of the present grant of client c.
func (r *record) isOf(c int) bool { return r.isTaken() && r.grant == uint8(c)+1 }

func isSession(reg uint8) bool { return reg >= firstSess && reg < registers }

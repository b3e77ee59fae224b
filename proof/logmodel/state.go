// Package logmodel checks the protocol of the logs of package filestore. It visits every state that
// a few processes can reach.
//
// # What is modelled
//
// The world has one register, whose directory exists. Each process reads and writes the register
// repeatedly, by the steps of the protocol in package filestore: GET, PUT, SEAL, NEXT and COLD. A step is
// one system call. Between two steps of a process, each other process may take steps or crash. A crashed
// process leaves its temporary file, and starts again without memory. A listing of a directory takes
// time: it may or may not show a name that was created or removed during the listing. An inode exists
// while it has a name or an open file. So no other file gets the same identity during this time.
//
// # What is checked
//
// No two successful writes replace the same state. A state that a process has acknowledged or read is
// never lost later. If a read starts after another read has ended, it returns the same state or a later
// one. No process reads a refused write. No write succeeds on a removed log. In every state, a process
// without memory can find the newest segment of the log.
//
// # Deliberate faults
//
// The model runs the rules of package fold, as filestore does. A [Mutant] leaves out one check of the
// protocol. The tests show that the model then finds a violation, also if a rule of package fold is changed.
package logmodel

import "github.com/holdfast-go/holdfast/internal/fold"

// The bounds of a state. They are small, so that states stay comparable values.
const (
	maxProcs  = 4
	maxNumber = 14 // highest number of a segment
	maxInodes = 12 // alive at once
	maxIDs    = 12 // states of the register, the first one included
	maxLen    = 7  // entries of a segment after its base
)

// id names a state of the register, by the entry that made it. Zero is none.
type id = uint8

// inode is a file of the log: its base, and the entries after it.
type inode struct {
	number uint8 // the name it was made for
	era    bool  // made after the removal
	base   id
	len    uint8
	entry  [maxLen]uint8 // id of a value, or seal|id of the state it names
}

const seal = 0x80

// step says what a process does next.
type step uint8

const (
	idle step = iota
	read
	appendValue
	checkName
	foldAgain
	checkSeal
	appendSeal
	openNext
	checkBeforeLink
	linkNext
	checkAfterLink
	walkDown
	unlinkUp
	unlinkDown // a mutant
	openLinked
	checkAfterOpen
	list
	listed
	openHighest
	checkFirst
	openBefore
	readBefore
	sweep
)

var stepNames = [...]string{
	"idle", "read", "append", "name check", "fold again", "check before seal", "append seal", "open next", "check before link",
	"link", "check after link", "walk down", "unlink upwards", "unlink downwards", "open linked", "check after open", "list",
	"list ends", "open highest", "check first", "open the one before", "read the one before", "sweep",
}

// doing is what a process was asked for.
type doing uint8

const (
	nothing doing = iota
	getting
	putting
)

// proc is one process. Inodes are named by their index plus one; zero is none.
type proc struct {
	step   step
	doing  doing
	file   uint8 // open: the segment that it believes in
	known  id    // the state that it read there
	base   id    // the state that its write names
	mine   id    // its entry
	floor  uint8 // the number of the newest state that any process had seen when it started
	other  uint8 // open: a segment that it looks at
	linked bool
	cursor uint8  // of a walk over numbers
	always uint16 // of a listing: the numbers that were there all the time
	ever   uint16 // and those that were there at some time
	old    bool   // it wrote after the log was removed
	era    bool   // the directory that it opened was made after the removal
}

// state is the whole world.
type state struct {
	name  [maxNumber + 1]uint8 // inode of each number
	inode [maxInodes]inode
	proc  [maxProcs]proc

	ids    id         // made so far
	prev   [maxIDs]id // the state that each names
	number [maxIDs]uint8

	removed bool // the directory was moved away, and a new log is in its place

	// What was promised: the states that were read or acknowledged, by number, and
	// the highest of them; those that were acknowledged; those that were refused.
	seen  [maxIDs + 1]id
	floor uint8
	acked uint16
	void  uint16
}

// initial returns the state after the creation of the register.
func initial() state {
	var s state
	s.inode[0] = inode{number: 1, base: 1}
	s.name[1] = 1
	s.ids = 1
	s.number[1] = 1
	s.seen[1], s.floor, s.acked = 1, 1, 1<<1
	return s
}

// nonce returns the nonce of the entry that made a state.
func nonce(x id) string { return " ABCDEFGHIJKLM"[x : x+min(x, 1)] }

// read folds the segment, by the rules of the product.
func (s *state) read(file uint8) (st fold.State) {
	n := &s.inode[file-1]
	st.Apply(fold.Entry{Kind: fold.Base, Number: uint64(s.number[n.base]), Nonce: nonce(n.base)})
	for _, e := range n.entry[:n.len] {
		if e&seal != 0 {
			st.Apply(fold.Entry{Kind: fold.Seal, Prev: nonce(e &^ seal)})
		} else {
			st.Apply(fold.Entry{Kind: fold.Value, Number: uint64(s.number[e]), Nonce: nonce(e), Prev: nonce(s.prev[e])})
		}
	}
	return st
}

// fold returns the state that a segment ends on, and whether it is sealed.
func (s *state) fold(file uint8) (last id, sealed bool) {
	st := s.read(file)
	return st.Nonce[0] - 'A' + 1, st.Sealed
}

// continues reports whether a segment starts where the one before it ends.
func (s *state) continues(file, before uint8) bool {
	st, end := s.read(file), s.read(before)
	return st.Continues(&end)
}

// add appends an entry; it reports false where the bounds are reached.
func (w *world) add(s *state, file, e uint8) bool {
	n := &s.inode[file-1]
	if n.len == w.maxLen {
		return false
	}
	n.entry[n.len] = e
	n.len++
	return true
}

// named reports whether the name of a segment leads to it.
func (s *state) named(file uint8) bool { return s.name[s.inode[file-1].number] == file }

// alloc returns a free inode, or zero where the bounds are reached.
func (s *state) alloc(number uint8, base id) uint8 {
	var used [maxInodes + 1]bool
	s.eachRef(func(r *uint8) { used[*r] = true })
	for i := range s.inode {
		if !used[i+1] {
			s.inode[i] = inode{number: number, base: base, era: s.removed}
			return uint8(i + 1)
		}
	}
	return 0
}

// eachRef calls f with each reference to an inode.
func (s *state) eachRef(f func(*uint8)) {
	for i := range s.name {
		f(&s.name[i])
	}
	for i := range s.proc {
		f(&s.proc[i].file)
		f(&s.proc[i].other)
	}
}

// setName changes what a number leads to, for listings that are under way too.
func (s *state) setName(number, file uint8) {
	s.name[number] = file
	for i := range s.proc {
		if p := &s.proc[i]; p.step == listed {
			if file == 0 {
				p.always &^= 1 << number
			} else {
				p.ever |= 1 << number
			}
		}
	}
}

// normal gives equal worlds equal bytes: the processes, of which none is special, are
// put in an order, and so are the inodes.
func (s *state) normal() {
	for i := 1; i < len(s.proc); i++ {
		for j := i; j > 0 && s.before(&s.proc[j], &s.proc[j-1]); j-- {
			s.proc[j], s.proc[j-1] = s.proc[j-1], s.proc[j]
		}
	}
	s.collect()
}

// collect forgets the inodes that no process can reach, and numbers the others in the
// order in which they are found.
func (s *state) collect() {
	var place [maxInodes + 1]uint8
	var inodes [maxInodes]inode
	next := uint8(0)
	s.eachRef(func(r *uint8) {
		if *r == 0 {
			return
		}
		if place[*r] == 0 {
			inodes[next] = s.inode[*r-1]
			next++
			place[*r] = next
		}
		*r = place[*r]
	})
	s.inode = inodes
}

// before puts processes in an order, those that do nothing last. Processes that it
// cannot tell apart only cost time.
func (s *state) before(p, q *proc) bool {
	a, b := s.rank(p), s.rank(q)
	for i := range a {
		if a[i] != b[i] {
			return a[i] > b[i]
		}
	}
	return false
}

func (s *state) rank(p *proc) [16]uint8 {
	r := [16]uint8{
		uint8(p.step), uint8(p.doing), p.known, p.base, p.mine, p.floor, p.cursor, uint8(p.always), uint8(p.ever),
	}
	for i, file := range [2]uint8{p.file, p.other} {
		if file != 0 {
			n := &s.inode[file-1]
			r[9+3*i], r[10+3*i], r[11+3*i] = n.number, n.base, n.len+1
		}
	}
	if p.linked {
		r[15] |= 1
	}
	if p.old {
		r[15] |= 2
	}
	if p.era {
		r[15] |= 4
	}
	return r
}

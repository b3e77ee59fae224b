// Package versionmodel checks the protocol of package s3verstore. It describes the protocol as a state
// machine, and visits all states of small systems. The file compat/s3verstore/PROOF.md defines
// the terms: log, entry, snapshot, accepted, duplicate, recent, final and confirmation.
//
// # Time without a clock
//
// The model has no clocks, only the order of events. A rule of the protocol about a duration becomes a
// rule about the order of events. While the assumption about PUTs holds, a pause ends only when each PUT
// that was sent before the pause has taken effect or can no longer do so. Assume that a client's PUT was
// sent before a pause of another client. If its reply has not come when the pause ends, the PUT took
// longer than L, and its writer knows this. In the same way, if a client observes a lease for its TTL,
// the holder no longer believes in a lease from before this observation. So the model allows every order
// of events that is possible in real time, and more.
//
// # What a state is
//
// A state has the versions of one object, with their positions in the log, and the clients, each
// at some step of an operation. A client that ends is a client that takes no more steps. The model checks
// its rules in every state.
package versionmodel

import "fmt"

const (
	maxEntries = 12
	maxClients = 3
)

// set is a set of entries, or of clients, counted from 1.
type set uint16

func one(i uint8) set             { return 1 << i }
func (s set) has(i uint8) bool    { return s&one(i) != 0 }
func (s set) with(i uint8) set    { return s | one(i) }
func (s set) without(i uint8) set { return s &^ one(i) }

// phase says how far a PUT has come.
type phase uint8

const (
	unused  phase = iota
	flying        // sent
	stamped       // it has its position in the log, and is not visible yet
	visible       // it took effect
	dead          // it will never take effect
	deleted       // it took effect and was removed
)

// entry is one version, from the sending of its PUT.
type entry struct {
	phase    phase
	mark     bool  // a confirmation: it only names a snapshot
	prev     uint8 // the entry that it follows, or a duplicate of it; 0 for none
	snapshot uint8 // the entry that it names as a snapshot, without its duplicate; 0 for none
	copy     uint8 // the entry of which it is a duplicate; 0 for none
	order    uint8 // its position in the log
	by       uint8 // the client that wrote it

	// Of leases.
	holder uint8 // 0: free
	token  uint8
	floor  uint8 // no token that its writer saw exceeds it
}

// step is the next step of a client.
type step uint8

const (
	idle      step = iota
	paging         // the first page of a listing is read
	ready          // it has a base to write on
	sent           // its PUT is under way
	settling       // its PUT was answered; it pauses
	marking        // its confirmation is under way
	waiting        // its Get pauses
	observing      // it watches another client's lease
	erasing        // a control: it wants to remove its own late entry
)

// purpose says what a listing, or a pause, is for.
type purpose uint8

const (
	toWrite purpose = iota
	toResolve
	toRead
	toReadAgain
	toTakeOver
	toAdopt
)

// write is what a PUT is to do.
type write uint8

const (
	put write = iota
	acquire
	renew
	release
)

// client is one process.
type client struct {
	step     step
	purpose  purpose
	write    write
	left     uint8 // operations that it may still start
	base     uint8 // the entry that it writes on
	snapshot uint8 // the entry that it names
	own      uint8 // its entry
	made     uint8 // the version of it that was accepted
	mark     uint8 // its confirmation
	token    uint8 // the token, and the floor, that it writes
	floor    uint8

	seen    set // what it has seen listed
	settled set // the entries that are not recent for it

	// Its pause, and its observation: which PUTs were flying when it began, what it
	// had seen by then, and who was in the middle of something that is timed.
	pauseFlying set
	pauseSeen   set
	pauseTimed  set

	slow bool // what it times took longer than L

	page      set   // the first page of its listing
	pageOrder uint8 // the last position on that page

	removable set // what its last listing showed to be removable

	since uint8 // of a Get: the newest state that was certain when it began
	place uint8 // of a Get: the position of the state that was visible when it began

	// Of leases.
	holds   bool
	stale   bool  // what it writes now can no longer make it believe
	version uint8 // the entry that its lease ended on
	before  set   // an observation: who last sent before it began
	during  set   // its write: whose observations were under way when it was sent
}

// state is a state of the whole system. It is comparable.
type state struct {
	n       uint8 // entries used
	orders  uint8 // entries given
	entries [maxEntries + 1]entry
	clients [maxClients + 1]client

	// What is remembered to judge by, and known to no client.
	certain uint8 // the newest entry that was acknowledged or read
	refused set   // entries that were reported as not applied
	acked   set   // entries that were acknowledged
	highest uint8 // the highest token that a client believed in
}

func (s *state) String() string {
	text := ""
	for i := uint8(1); i <= s.n; i++ {
		e := s.entries[i]
		what := fmt.Sprintf("%d after %d", i, e.prev)
		if e.mark {
			what = fmt.Sprintf("%d confirms", i)
		}
		text += fmt.Sprintf("  [%s snapshot %d by %c %s position %d holder %d token %d]", what, e.snapshot, letter(e.by),
			[]string{"unused", "flying", "stamped", "visible", "dead", "deleted"}[e.phase], e.order, e.holder, e.token)
	}
	return text
}

func letter(client uint8) rune {
	if client == 0 {
		return '-'
	}
	return rune('A' + client - 1)
}

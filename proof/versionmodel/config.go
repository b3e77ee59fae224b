package versionmodel

// Config is one system to search.
type Config struct {
	// Writes and Reads are how many operations each client starts at most. A
	// client with both chooses.
	Writes [maxClients]uint8
	Reads  [maxClients]uint8

	// Founded lets the object begin with one settled entry.
	Founded bool

	// Ghosts is how many PUTs on that entry are under way from writers that are
	// no longer there.
	Ghosts uint8

	// Forked lets the object begin with a chain of three entries and one that follows
	// the first of them and comes after them all, the confirmation of that, and an
	// entry that follows the chain; the last two are under way.
	Forked bool

	// Page is how many entries a page of a listing holds; 0 means all.
	Page int

	// Clean lets clients remove, at any time and in any order, what their last
	// listing showed to be removable.
	Clean bool

	// Lose lets replies be lost, and PUTs be lost before they take effect.
	Lose bool

	// Twice is how many PUTs are applied a second time: within the time that the first
	// may take, or at any time if the assumption is broken.
	Twice uint8

	// Broken drops the assumption: a PUT may take effect at any time.
	Broken bool

	// Lease makes the clients use the register as a lock. TTL then gives each
	// client's, in any unit.
	Lease bool
	TTL   [maxClients]uint8

	// Reuse lets a client write on what it wrote last without listing first.
	Reuse bool

	// The controls: each takes one rule away.
	ShortSettle bool // a pause may end before the PUTs that were sent before it
	DeleteOwn   bool // a writer whose PUT was slow removes its entry
	NoStarts    bool // no entry names a start; all that is superseded is removed
	EagerGet    bool // a Get answers what it sees first
	OwnGet      bool // a Get answers what it has itself seen for a pause
	Adopt       bool // a writer that got no reply reads back and adopts
	NoConfirm   bool // a write is acknowledged without confirming it
	NoOld       bool // starts count as soon as they are seen
	EagerStart  bool // an entry names what its writer saw last, settled or not
	LateConfirm bool // a confirmation counts however late it is answered
	Again       bool // a writer whose confirmation was late judges and confirms again
	HighToo     bool // what is older than the start is removed, whatever its number
	NoGap       bool // an entry that is missing is not missed by the one that follows it
	YoungCopy   bool // a copy of an entry that was only just seen can count
	AnyStart    bool // where no start is known for a pause, clean-up goes by the newest
	LowConflict bool // an entry that was passed over by a start can be a conflict
	HastyClean  bool // what is older than a start that was only just seen is removed
}

// clients returns how many clients take part.
func (m *Config) clients() uint8 {
	n := uint8(0)
	for i := range maxClients {
		if m.Writes[i] > 0 || m.Reads[i] > 0 {
			n = uint8(i + 1)
		}
	}
	return n
}

// initial returns the first state.
func (m *Config) initial() state {
	var s state
	if m.Founded {
		s.n, s.orders = 1, 1
		s.entries[1] = entry{phase: visible, order: 1, token: 1, floor: 1}
		s.certain, s.acked, s.highest = 1, one(1), 1
		for range m.Ghosts {
			s.add(entry{phase: flying, prev: 1, token: 1, floor: 1})
		}
	}
	if m.Forked {
		for _, e := range []entry{{}, {prev: 1, start: 1}, {prev: 2, start: 2}, {prev: 1, start: 1}} {
			s.orders++
			e.phase, e.order = visible, s.orders
			s.add(e)
		}
		s.add(entry{phase: flying, mark: true, start: 4})
		s.add(entry{phase: flying, prev: 3, start: 3})
		s.certain, s.acked = 1, one(1)
	}
	return s
}

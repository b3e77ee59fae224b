package versionmodel

// Config defines one system to search.
type Config struct {
	// Writes and Reads are the largest numbers of writes and reads that each client starts. A client
	// with both may choose the order.
	Writes [maxClients]uint8
	Reads  [maxClients]uint8

	// With Founded, the object has one final entry at the start.
	Founded bool

	// Ghosts is the number of PUTs over this entry that are under way at the start. Their writers have
	// ended.
	Ghosts uint8

	// With Forked, the object has four entries at the start. The first three form a chain. The fourth
	// comes last and follows the first. Two PUTs are under way: the confirmation of the fourth entry,
	// and an entry that follows the third.
	Forked bool

	// Page is the number of entries in a page of a listing; 0 means all.
	Page int

	// Clean lets clients remove superseded entries of their last listing, at any time and in any order.
	Clean bool

	// Lose lets the network lose replies, and PUTs before they take effect.
	Lose bool

	// Twice is the number of PUTs that the server applies a second time. With Broken, the second time is
	// not limited; otherwise it is within the time limit of a PUT.
	Twice uint8

	// With Broken, the assumption about the time limit does not hold: a PUT may take effect at any time.
	Broken bool

	// With Lease, the clients use the register as a lock. TTL is then the TTL of each client, in any
	// unit.
	Lease bool
	TTL   [maxClients]uint8

	// With Reuse, a client may write over its own last write without a new listing.
	Reuse bool

	// The controls. Each control breaks one rule of the protocol. The rules of an evaluation are in package
	// versionlog; the mutants of that package break them.
	ShortSettle   bool // a pause may end before an earlier PUT has taken effect or can no longer do so
	DeleteOwn     bool // a writer whose PUT was too slow removes its entry
	NoSnapshots   bool // no entry names a snapshot; clients remove all superseded entries
	Adopt         bool // a writer that got no reply reads the register, and accepts its own entry there
	NoConfirm     bool // a write is acknowledged without a confirmation
	EagerSnapshot bool // an entry names the last entry that its writer saw as a snapshot, even if that entry is not final
	LateConfirm   bool // a confirmation is valid even if its answer comes too late
	Again         bool // a writer whose confirmation was too late decides and confirms again
	HastyClean    bool // clients remove entries before a snapshot that only recent entries name, also after a listing that took too long
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
		for _, e := range []entry{{}, {prev: 1, snapshot: 1}, {prev: 2, snapshot: 2}, {prev: 1, snapshot: 1}} {
			s.orders++
			e.phase, e.order = visible, s.orders
			s.add(e)
		}
		s.add(entry{phase: flying, mark: true, snapshot: 4})
		s.add(entry{phase: flying, prev: 3, snapshot: 3})
		s.certain, s.acked = 1, one(1)
	}
	return s
}

package versionmodel

// view is the evaluation of a log by a client.
type view struct {
	listed set
	lost   bool // the listing is torn: an entry that another entry needs is not listed

	snapshot uint8 // the entry at which evaluation 1 begins
	chain    set
	tip      uint8

	// Evaluation 2, which ignores snapshots that only recent entries name.
	oldSnapshot uint8
	oldChain    set
	sure        uint8 // the newest snapshot of evaluation 2; entries earlier in the log may be removed

	certain uint8 // the last accepted entry that is not recent, or the snapshot
	final   uint8 // the last accepted entry that is final
}

// look evaluates the log of a listing for a client. For client 0, all entries are recent.
func (m *Config) look(s *state, c uint8, listed set) view {
	v := view{listed: listed}
	old := s.clients[c].settled
	if m.NoSnapshots {
		v.snapshot = s.oldest(listed)
		v.chain, v.tip = s.evaluate(listed, v.snapshot)
		v.oldSnapshot, v.oldChain = v.snapshot, v.chain
		v.certain = s.newestOf(v.chain & (old | one(v.snapshot)))
		v.final = v.certain
		return v
	}
	var most uint8
	v.snapshot, most, v.lost = s.newestSnapshot(listed, listed)
	v.lost = v.lost || !m.NoGap && s.gap(listed, most)
	v.chain, v.tip = s.evaluate(listed, v.snapshot)
	v.oldSnapshot, v.oldChain = v.snapshot, v.chain
	if !m.NoOld {
		// If such a snapshot no longer exists, a client removed it. That client had known a
		// later snapshot for a pause. So evaluation 1 is old enough.
		snapshot, _, lost := s.newestSnapshot(listed, listed&old)
		if v.sure = snapshot; !lost && s.placed(snapshot, listed) {
			v.oldSnapshot = snapshot
			v.oldChain, _ = s.evaluate(listed, snapshot)
		}
	}
	if m.NoOld || m.AnySnapshot && v.sure == 0 {
		v.sure = v.snapshot
	}
	v.certain = s.newestOf(v.chain & (old | one(v.snapshot)))
	v.final = s.newestOf(v.chain & (s.upTo(s.entries[s.newestOf(listed&old)].order) | one(v.snapshot)))
	if m.OwnGet {
		v.final = v.certain
	}
	return v
}

// upTo returns the entries up to a position in the log.
func (s *state) upTo(order uint8) (all set) {
	for i := uint8(1); i <= s.n; i++ {
		if o := s.entries[i].order; o != 0 && o <= order {
			all = all.with(i)
		}
	}
	return all
}

// placed reports whether an evaluation can begin at snapshot: the snapshot is listed, or
// there is no snapshot and the first entry of a chain is listed.
func (s *state) placed(snapshot uint8, listed set) bool {
	if snapshot != 0 {
		return listed.has(snapshot)
	}
	first := false
	for i := uint8(1); i <= s.n; i++ {
		if listed.has(i) && !s.entries[i].mark {
			if s.entries[i].prev == 0 {
				return true
			}
			first = true
		}
	}
	return !first
}

// newestSnapshot returns the newest snapshot that the entries of namers name. most is the
// highest number of the listed snapshots. lost reports whether a named snapshot with a
// higher number is not listed.
func (s *state) newestSnapshot(listed, namers set) (snapshot, most uint8, lost bool) {
	var gone uint8
	for i := uint8(1); i <= s.n; i++ {
		named := s.entries[i].snapshot
		switch {
		case !namers.has(i) || named == 0:
		case !listed.has(named):
			gone = max(gone, s.number(named))
		default:
			most = max(most, s.number(named))
			if snapshot == 0 || s.entries[named].order > s.entries[snapshot].order {
				snapshot = named
			}
		}
	}
	if snapshot == 0 && gone == 0 && !s.placed(0, listed) {
		return 0, 0, true
	}
	return snapshot, most, gone > most
}

// gap reports whether a listed entry follows an entry that is not listed, although the
// missing entry has a higher number than all snapshots that are named and listed.
func (s *state) gap(listed set, most uint8) bool {
	for i := uint8(1); i <= s.n; i++ {
		e := s.entries[i]
		if listed.has(i) && !e.mark && e.prev != 0 && listed&s.copies(e.prev) == 0 && s.number(e.prev) > most {
			return true
		}
	}
	return false
}

// first returns the entry of which i is a duplicate, or i.
func (s *state) first(i uint8) uint8 {
	if c := s.entries[i].copy; c != 0 {
		return c
	}
	return i
}

// copies returns an entry and its duplicate.
func (s *state) copies(i uint8) (all set) {
	for j := uint8(1); j <= s.n; j++ {
		if s.first(j) == s.first(i) {
			all = all.with(j)
		}
	}
	return all
}

// number returns the number of an entry. A confirmation has the number of its snapshot.
func (s *state) number(i uint8) uint8 {
	n := uint8(0)
	if s.entries[i].mark {
		i = s.entries[i].snapshot
	}
	for ; i != 0; i = s.entries[i].prev {
		n++
	}
	return n
}

// evaluate returns the chain of the listed entries from snapshot on, and its end.
func (s *state) evaluate(listed set, snapshot uint8) (chain set, tip uint8) {
	tip = snapshot
	if snapshot != 0 {
		chain = one(snapshot)
	}
	for order := s.entries[snapshot].order + 1; order <= s.orders; order++ {
		i := s.at(order)
		if listed.has(i) && !s.entries[i].mark && s.entries[i].prev == s.first(tip) {
			tip = i
			chain = chain.with(i)
		}
	}
	return chain, tip
}

func (s *state) at(order uint8) uint8 {
	for i := uint8(1); i <= s.n; i++ {
		if s.entries[i].order == order {
			return i
		}
	}
	return 0
}

func (s *state) newestOf(among set) (newest uint8) {
	for i := uint8(1); i <= s.n; i++ {
		if among.has(i) && s.entries[i].order > s.entries[newest].order {
			newest = i
		}
	}
	return newest
}

func (s *state) oldest(listed set) (oldest uint8) {
	for i := uint8(1); i <= s.n; i++ {
		if listed.has(i) && (oldest == 0 || s.entries[i].order < s.entries[oldest].order) {
			oldest = i
		}
	}
	return oldest
}

// visible returns the entries that a listing shows.
func (s *state) visible() (all set) {
	for i := uint8(1); i <= s.n; i++ {
		if s.entries[i].phase == visible {
			all = all.with(i)
		}
	}
	return all
}

// follows reports whether b is a or comes after it in its chain.
func (s *state) follows(b, a uint8) bool {
	for b = s.first(b); b != 0; b = s.entries[b].prev {
		if s.first(a) == b {
			return true
		}
	}
	return a == 0
}

// removable returns the entries that a client may remove after a listing: entries earlier
// in the log than the snapshot, and confirmations of such entries. An entry that is not
// recent must name the snapshot.
func (m *Config) removable(s *state, c uint8, v view) (gone set) {
	snapshot := v.sure
	if m.HastyClean {
		snapshot = v.snapshot
	}
	for i := uint8(1); i <= s.n; i++ {
		e := s.entries[i]
		switch {
		case !v.listed.has(i):
		case m.NoSnapshots:
			if e.order < s.entries[v.certain].order {
				gone = gone.with(i)
			}
		case snapshot == 0:
		case !m.HighToo && s.number(i) > s.number(snapshot):
			// Another entry may still name this entry, or follow it.
		case e.order < s.entries[snapshot].order,
			e.mark && s.entries[e.snapshot].order < s.entries[snapshot].order:
			gone = gone.with(i)
		}
	}
	return gone
}

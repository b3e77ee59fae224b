package versionmodel

// view is what a client makes of a listing.
type view struct {
	listed set
	lost   bool // what others build on is not listed: the listing is torn

	start uint8 // where the fold of all begins
	chain set
	tip   uint8

	// The same without the starts that only entries name which the client has not
	// known for a pause.
	oldStart uint8
	oldChain set
	sure     uint8 // the newest of those starts; what is older may be removed

	certain uint8 // the newest entry of the chain that was itself seen for a pause
	final   uint8 // the newest one up to any place that was: it can't go any more
}

// look folds a listing for a client. Client 0 is one that has just come.
func (m *Config) look(s *state, c uint8, listed set) view {
	v := view{listed: listed}
	old := s.clients[c].settled
	if m.NoStarts {
		v.start = s.oldest(listed)
		v.chain, v.tip = s.fold(listed, v.start)
		v.oldStart, v.oldChain = v.start, v.chain
		v.certain = s.newestOf(v.chain & (old | one(v.start)))
		v.final = v.certain
		return v
	}
	var most uint8
	v.start, most, v.lost = s.newestStart(listed, listed)
	v.lost = v.lost || !m.NoGap && s.gap(listed, most)
	v.chain, v.tip = s.fold(listed, v.start)
	v.oldStart, v.oldChain = v.start, v.chain
	if !m.NoOld {
		// A start that no longer exists was removed by a client that knew a later one for a
		// pause, so that the later one is old enough.
		start, _, lost := s.newestStart(listed, listed&old)
		if v.sure = start; !lost && s.placed(start, listed) {
			v.oldStart = start
			v.oldChain, _ = s.fold(listed, start)
		}
	}
	if m.NoOld || m.AnyStart && v.sure == 0 {
		v.sure = v.start
	}
	v.certain = s.newestOf(v.chain & (old | one(v.start)))
	v.final = s.newestOf(v.chain & (s.upTo(s.entries[s.newestOf(listed&old)].order) | one(v.start)))
	if m.OwnGet {
		v.final = v.certain
	}
	return v
}

// upTo returns the entries up to a place.
func (s *state) upTo(order uint8) (all set) {
	for i := uint8(1); i <= s.n; i++ {
		if o := s.entries[i].order; o != 0 && o <= order {
			all = all.with(i)
		}
	}
	return all
}

// placed reports whether a fold may begin at start: at an entry that is listed, or
// before all of them if the first of a chain is still there.
func (s *state) placed(start uint8, listed set) bool {
	if start != 0 {
		return listed.has(start)
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

// newestStart returns the newest start that one of namers names. It is lost if one
// that is named is not listed and has a higher number than all that are. most is their
// highest number.
func (s *state) newestStart(listed, namers set) (start, most uint8, lost bool) {
	var gone uint8
	for i := uint8(1); i <= s.n; i++ {
		named := s.entries[i].start
		switch {
		case !namers.has(i) || named == 0:
		case !listed.has(named):
			gone = max(gone, s.number(named))
		default:
			most = max(most, s.number(named))
			if start == 0 || s.entries[named].order > s.entries[start].order {
				start = named
			}
		}
	}
	if start == 0 && gone == 0 && !s.placed(0, listed) {
		return 0, 0, true
	}
	return start, most, gone > most
}

// gap reports whether an entry is listed and the one that it follows is not, although
// that has a higher number than all starts that are named and listed.
func (s *state) gap(listed set, most uint8) bool {
	for i := uint8(1); i <= s.n; i++ {
		e := s.entries[i]
		if listed.has(i) && !e.mark && e.prev != 0 && listed&s.copies(e.prev) == 0 && s.number(e.prev) > most {
			return true
		}
	}
	return false
}

// first is the entry of which i is a copy, or i.
func (s *state) first(i uint8) uint8 {
	if c := s.entries[i].copy; c != 0 {
		return c
	}
	return i
}

// copies returns an entry and its copy.
func (s *state) copies(i uint8) (all set) {
	for j := uint8(1); j <= s.n; j++ {
		if s.first(j) == s.first(i) {
			all = all.with(j)
		}
	}
	return all
}

// number is the number of an entry in its chain; a confirmation has that of its start.
func (s *state) number(i uint8) uint8 {
	n := uint8(0)
	if s.entries[i].mark {
		i = s.entries[i].start
	}
	for ; i != 0; i = s.entries[i].prev {
		n++
	}
	return n
}

// fold returns the chain of the listed entries from start on, and its end.
func (s *state) fold(listed set, start uint8) (chain set, tip uint8) {
	tip = start
	if start != 0 {
		chain = one(start)
	}
	for order := s.entries[start].order + 1; order <= s.orders; order++ {
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

// removable returns what a client may remove after a listing: what is older than
// the start, and confirmations of older starts. A start counts here only if the
// client has known for a pause that it is named.
func (m *Config) removable(s *state, c uint8, v view) (gone set) {
	start := v.sure
	if m.HastyClean {
		start = v.start
	}
	for i := uint8(1); i <= s.n; i++ {
		e := s.entries[i]
		switch {
		case !v.listed.has(i):
		case m.NoStarts:
			if e.order < s.entries[v.certain].order {
				gone = gone.with(i)
			}
		case start == 0:
		case !m.HighToo && s.number(i) > s.number(start):
			// An entry may still name it, or follow it.
		case e.order < s.entries[start].order,
			e.mark && s.entries[e.start].order < s.entries[start].order:
			gone = gone.with(i)
		}
	}
	return gone
}

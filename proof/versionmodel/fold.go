package versionmodel

import "github.com/holdfast-go/holdfast/internal/drivers/versionlog"

// view is the evaluation of a log by a client. The rules are those of the product.
type view struct {
	versionlog.View
	listed set
}

// name returns the version id of an entry. It is also the nonce, except for a duplicate.
func name(i uint8) string { return " abcdefghijkl"[i : i+min(i, 1)] }

// of returns the entry with an index of the View; 0 for -1.
func (v *view) of(index int) uint8 {
	if index < 0 {
		return 0
	}
	return v.Entries[index].ID[0] - 'a' + 1
}

// set returns the entries with these indexes.
func (v *view) set(chain []int) (all set) {
	for _, i := range chain {
		all = all.with(v.of(i))
	}
	return all
}

// look evaluates the log of a listing for a client. For client 0, all entries are recent.
func (m *Config) look(s *state, c uint8, listed set) view {
	entries := make([]versionlog.Entry, 0, maxEntries)
	var old versionlog.Named
	for order := uint8(1); order <= s.orders; order++ {
		i := s.at(order)
		if !listed.has(i) {
			continue
		}
		e := &s.entries[i]
		it := versionlog.Entry{
			ID: name(i), Nonce: name(s.first(i)), Number: s.number(i), Prev: name(e.prev), Write: !e.mark, Old: s.clients[c].settled.has(i),
			Snapshot: versionlog.Snapshot{ID: name(e.snapshot), Number: s.number(e.snapshot)},
		}
		if entries = append(entries, it); it.Old {
			old.Add(it.Snapshot)
		}
	}
	if m.NoSnapshots && len(entries) > 0 {
		entries[len(entries)-1].Snapshot = versionlog.Snapshot{ID: entries[0].ID, Number: entries[0].Number}
	}
	v := view{versionlog.Evaluate(entries, nil), listed}
	switch {
	case m.NoSnapshots:
		v.Torn, v.Sure = false, v.Settled()
	default:
		v.EvaluateOld(old)
	}
	if m.HastyClean {
		v.Sure = v.Snapshot
	}
	return v
}

// tip returns the last accepted entry that a client would see now.
func (m *Config) tip(s *state, c uint8) uint8 {
	v := m.look(s, c, s.visible())
	return v.of(v.Tip())
}

// upTo returns the entries up to a position in the log.
func (s *state) upTo(order uint8) set {
	return s.where(func(i uint8) bool { o := s.entries[i].order; return o != 0 && o <= order })
}

// first returns the entry of which i is a duplicate, or i.
func (s *state) first(i uint8) uint8 {
	if c := s.entries[i].copy; c != 0 {
		return c
	}
	return i
}

// copies returns an entry and its duplicate.
func (s *state) copies(i uint8) set {
	return s.where(func(j uint8) bool { return s.first(j) == s.first(i) })
}

// number returns the number of an entry. A confirmation has the number of its snapshot.
func (s *state) number(i uint8) uint64 {
	n := uint64(0)
	if s.entries[i].mark {
		i = s.entries[i].snapshot
	}
	for ; i != 0; i = s.entries[i].prev {
		n++
	}
	return n
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

// visible returns the entries that a listing shows.
func (s *state) visible() set {
	return s.where(func(i uint8) bool { return s.entries[i].phase == visible })
}

// onTheWay returns the entries that are not visible yet.
func (s *state) onTheWay() set {
	return s.where(func(i uint8) bool { p := s.entries[i].phase; return p == flying || p == stamped })
}

// where returns the entries that fit.
func (s *state) where(fits func(i uint8) bool) (all set) {
	for i := uint8(1); i <= s.n; i++ {
		if fits(i) {
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

// removable returns the entries that a client may remove after a listing.
func (v *view) removable() (gone set) {
	for _, id := range v.Garbage() {
		gone = gone.with(id[0] - 'a' + 1)
	}
	return gone
}

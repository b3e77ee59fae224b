package belief

import (
	"math"
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// maxPatterns bounds the records of a session's locks from which those of others may differ in little.
const maxPatterns = math.MaxUint8

// pack keeps the state now, of a grant under the session s, in little memory: the number of a record
// of the session, the term WasLastHolder, and what differs from that record. It reports whether that
// was possible: the record differs in little from that of an earlier lock of the session.
func (g *Grant) pack(s *Grant, now *cell.Seen, terms Terms) bool {
	counter := lockrec.Counter(s.cell.Name(), terms.Grant)
	if counter == 0 || counter > math.MaxUint32 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var patterns []*lockrec.Record
	if all := s.patterns.Load(); all != nil {
		patterns = *all
	}
	if n := len(patterns); n > 0 {
		if packed, ok := lockrec.Pack(now.Version, now.Rec, patterns[n-1]); ok {
			last := byte(0)
			if terms.WasLastHolder {
				last = 1
			}
			g.counter, g.packed = uint32(counter), string([]byte{byte(n - 1), last})+packed
			return true
		}
	}
	if len(patterns) < maxPatterns {
		patterns = append(slices.Clip(patterns), now.Rec)
		s.patterns.Store(&patterns)
	}
	return false
}

// followsItself returns the term WasLastHolder.
func (g *Grant) followsItself() bool {
	if g.counter != 0 {
		return g.packed[1] == 1
	}
	return g.wasLast // the activity is the grant's own from the beginning
}

// Packed returns the version of the record that the grant keeps packed. It is empty if the grant keeps it
// whole.
func (g *Grant) Packed() store.Version {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tries != nil {
		return ""
	}
	return g.known().Base
}

// known returns the tries over the record. The caller has the turn, or holds g.mu.
func (g *Grant) known() *cell.Tries {
	if g.tries != nil {
		return g.tries
	}
	pattern := (*g.session().patterns.Load())[g.packed[0]]
	version, rec := lockrec.Unpack(g.packed[2:], pattern, g.cell.Name(), g.ID(), g.token)
	return g.cell.Over(&cell.Seen{Version: version, Rec: rec})
}

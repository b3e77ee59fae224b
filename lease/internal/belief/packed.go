package belief

import (
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// packed is the record of a grant under a session in little memory. A program can hold many locks under
// one session, and their records differ in little.
type packed struct {
	version store.Version
	rec     lockrec.Packed
}

// pack keeps the state now, packed if it differs little from that of another lock of the session.
func (g *Grant) pack(now *cell.Seen) {
	s := g.terms.Session
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pattern != nil {
		if rec, ok := lockrec.Pack(now.Rec, s.pattern); ok {
			g.packed = packed{now.Version, rec}
			return
		}
	}
	s.pattern, g.tries = now.Rec, g.cell.Over(now)
}

// IsPacked reports whether the grant keeps its record packed.
func (g *Grant) IsPacked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tries == nil
}

// known returns the tries over the record. The caller has the turn, or holds g.mu.
func (g *Grant) known() *cell.Tries {
	if g.tries != nil {
		return g.tries
	}
	return g.cell.Over(&cell.Seen{Version: g.packed.version, Rec: g.packed.rec.Unpack(g.cell.Name, g.terms.Grant, g.terms.Token)})
}

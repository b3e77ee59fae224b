package lease

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// requestIdleYield requests, on behalf of a waiter, a lock that its holder keeps after its work. It
// does so once for each grant.
func (h *Handle) requestIdleYield(ctx context.Context, l *waiting.Queue) {
	s := h.cell.Known()
	if s == nil || s.Rec == nil || s.Rec.State != Held || s.Rec.Linger == 0 || l.YieldRequestedOf == s.Rec.Grant {
		return
	}
	if g := h.c.find(s.Rec.Grant); g != nil {
		g.Want()
	} else if _, err := h.requestYield(ctx, s, YieldRequest{By: h.c.space.Set.Holder, At: h.c.space.Clock.Wall(), OnlyIfIdle: true}); err != nil && !store.Permanent(err) {
		return // the next read tries again
	}
	l.YieldRequestedOf = s.Rec.Grant
}

// find returns a grant of this client, or nil.
func (c *Client) find(id string) *belief.Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.grants {
		if g.ID() == id {
			return g
		}
	}
	if s := c.sessions[lockrec.SessionOf(id)]; s != nil {
		return s.find(id)
	}
	return nil
}

// find returns a grant under the session, or nil.
func (s *Session) find(id string) *belief.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	for g := range s.locks {
		if g.ID() == id {
			return g
		}
	}
	return nil
}

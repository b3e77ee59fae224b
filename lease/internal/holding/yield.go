package holding

import (
	"cmp"
	"context"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/belief"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/waiting"
	"github.com/holdfast-go/holdfast/store"
)

// requestIdleYield requests, on behalf of a waiter, a lock that its holder keeps after its work. It
// does so once for each grant.
func (h *Holder) requestIdleYield(ctx context.Context, l *waiting.Queue, s *cell.Seen) {
	if s.Rec.State != lockrec.Held || s.Rec.Linger == 0 || l.YieldRequestedOf == s.Rec.Grant {
		return
	}
	if g := h.c.find(s.Rec.Grant); g != nil {
		g.Want()
	} else if _, err := h.c.RequestYield(ctx, &h.Cell, s, lockrec.YieldRequest{By: h.c.Space.Set.Holder, At: h.c.Space.Clock.Wall(), OnlyIfIdle: true}); err != nil && !store.Permanent(err) {
		return // the next read tries again
	}
	l.YieldRequestedOf = s.Rec.Grant
}

// find returns a grant of this client, or nil.
func (c *Client) find(id string) *belief.Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[lockrec.SessionOf(id)]; s != nil {
		return s.find(id)
	}
	return c.grants[id]
}

// find returns a grant under the session, or nil.
func (s *Session) find(id string) *belief.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.locks {
		if g.ID() == id {
			return g
		}
	}
	return nil
}

// RequestYield writes a request to yield into the record of the lock, unless there is one. The base
// is what was seen of the record, or nil. It returns the record that has the request.
//
// Between any two steps the holder may renew, release or lose the lock, and others may request,
// break or take it. So the write names the version that was read, and any other state is evaluated
// from the start. After a lost reply the record is read back. If the holder has answered meanwhile,
// the request in its record may be another client's, which makes no difference.
func (c *Client) RequestYield(ctx context.Context, of *cell.Cell, base *cell.Seen, a lockrec.YieldRequest) (now *lockrec.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	if base == nil {
		if base, err = of.Inspect(ctx); err != nil {
			return nil, err
		}
	}
	written, err := of.Change(ctx, base, lockrec.Cause{}, func(s *cell.Seen) (rec *lockrec.Record, err error) {
		if now = nil; s.Rec == nil {
			return nil, of.Absent()
		}
		if rec, err = lockrec.RequestYield(s.Rec, a, s.Age); err == nil {
			now = cmp.Or(rec, s.Rec)
		}
		return rec, err
	})
	if written == nil && (err != nil || len(lockrec.RequestedOf(now)) == 0 || now.YieldRequest.Acknowledged) {
		return now, err
	}
	// If an unacknowledged request is in the record already, its writer may have ended before it
	// notified the sessions.
	return now, c.NotifySessions(ctx, of.Name(), lockrec.SessionsOf(lockrec.RequestedOf(now)))
}

package holding

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/membership"
)

// evaluate decides whether the lock may be taken. The write that takes it is conditional on this
// version. So a state that was read earlier is as good as a new one: if the holder has renewed the
// lease meanwhile, the store refuses the write.
func (h *Holder) evaluate(ctx context.Context, s *cell.Seen) membership.Verdict {
	var own lockrec.Facts
	if s.Rec != nil && s.Rec.State != lockrec.Free {
		own.OwnEnded, own.OwnLeft = h.ownGrantOver(s.Rec)
	}
	v := membership.Verdict{Verdict: lockrec.Judge(s.Rec, h.Cell.Facts(ctx, s, own))}
	if v.BySession {
		v = h.c.Peers.Over(ctx, &h.Cell, s.Rec.Session, s.Rec.TTL)
	}
	if left := h.intervalLeft(s); v.Open && left > 0 {
		return membership.Verdict{Verdict: lockrec.Verdict{Wait: left}}
	}
	return v
}

// intervalLeft returns how long the next grant has to wait although the one before is over.
func (h *Holder) intervalLeft(s *cell.Seen) time.Duration {
	if s.Rec == nil || h.IsAbandoned(s.Rec.Grant) {
		return 0
	}
	return lockrec.Interval(s.Rec, h.c.Space.Clock.Wall(), h.c.Space.Clock.Monotonic().Sub(s.At))
}

// ownGrantOver reports whether the record shows a grant of this handle that is over: one that was
// never handed out, or whose guards were all released. A grant that was lost while its guards still
// exist may have work that is stopping: then ownGrantOver returns how long the lease would have
// lasted.
func (h *Holder) ownGrantOver(r *lockrec.Record) (over bool, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hasAbandoned(r.Grant) {
		return true, 0
	}
	if g := h.grant; g != nil && g.ID() == r.Grant {
		return g.OwnOver()
	}
	return false, 0
}

func (h *Holder) IsAbandoned(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hasAbandoned(id)
}

// hasAbandoned is IsAbandoned for a caller that holds h.mu.
func (h *Holder) hasAbandoned(id string) bool { return h.inUse != nil && h.abandoned[id] }

// abandon remembers a grant that was sent and will never be handed out.
func (h *Holder) abandon(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used().abandoned == nil || len(h.abandoned) > 100 {
		h.abandoned = map[string]bool{}
	}
	h.abandoned[id] = true
}

// awaitSession is [membership.Peers.Await] for a handle that may have read the session not long ago.
func (h *Holder) awaitSession(ctx context.Context, r *lockrec.Record) bool {
	return !h.c.Peers.Trusts(r.Session) && backoff.Sleep(ctx, h.place.ReadDueIn(r.Grant)) == nil && h.c.Peers.Await(ctx, r)
}

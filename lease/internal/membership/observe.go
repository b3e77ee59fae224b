package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// HolderIsDead reports whether the holder of a lock in the state s is known to be dead, or to have
// closed its session. It reads the record of that session now. If the holder is not known to be
// dead, lasts says whether it has held the lock since s was read. If the holder's renewal is overdue
// by the wall clocks, doubt is the time until the next look, and last gets the write that was seen: a later one at the
// next look shows that the holder lives, whatever its clock says. HolderIsDead writes nothing.
func (p *Peers) HolderIsDead(ctx context.Context, of *cell.Cell, s *cell.Seen, last *lockrec.HolderWrite) (dead, lasts bool, doubt time.Duration, _ error) {
	now := s
	if s.Rec.Session != "" {
		if p.Trusts(s.Rec.Session) {
			return false, true, 0, nil
		}
		session, err := p.space.Session(s.Rec.Session)
		if err != nil {
			return false, false, 0, fmt.Errorf("%s: %w: %w", of, store.ErrCorrupt, err)
		}
		if now, err = session.Inspect(ctx); err != nil || now.Rec == nil {
			return false, false, 0, err
		}
		of, now = session, session.Note(now)
	}
	v := of.Judge(ctx, now)
	dead = now.Rec.State != lockrec.Held || v.Open
	write := lockrec.LastWrite(now.Rec)
	renewed := write.Grant == last.Grant && write != *last
	*last = write
	if !dead && !renewed && p.space.Clock.Wall().Sub(now.Rec.Renewed) > p.space.Set.Expiry(now.Rec.TTL) {
		doubt = max(min(v.Wait, p.space.Set.MostPoll(now.Rec.TTL)), time.Millisecond)
	}
	return dead, !dead, doubt, nil
}

// HolderIsOver reports whether the grant of the holder in the state s is known to be over, and how
// long it takes at most to know more. It uses what the client has read of the holder's session not
// long ago. It writes nothing.
func (p *Peers) HolderIsOver(ctx context.Context, of *cell.Cell, s *cell.Seen) (over bool, wait time.Duration, err error) {
	switch {
	case s.Rec == nil || s.Rec.State != lockrec.Held:
		return false, p.space.Set.Expiry(p.space.Set.TTL), nil
	case s.Rec.Session == "":
		v := of.Judge(ctx, s)
		if v.Open {
			v.Wait = p.space.Set.RereadDelay(s.Rec.TTL)
		}
		return v.Open, max(v.Wait, time.Millisecond), nil
	}
	over, _, err = p.IsDead(ctx, s.Rec.Session, s.Rec.TTL)
	return over, p.space.Set.RereadDelay(s.Rec.TTL), err
}

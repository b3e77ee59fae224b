package holding

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// leftover is a claim or a release whose outcome is not known and which nothing waits for any
// more. Its grant, which no guard holds, may stand in the record, or come to stand there.
type leftover struct {
	h     *Holder
	t     *cell.Tries     // what was sent
	rec   *lockrec.Record // where the grant is, or was to be
	grant string
	free  func(*lockrec.Record) lockrec.Record // takes it out of there

	landed bool       // the grant has been in a record, which may be later than that of the tries
	ended  *cell.Seen // the state by which another client has ended the grant; nil if there is none
}

// leftover returns the leftover of a grant that is in the state now.
func (h *Holder) leftover(now *cell.Seen, grant string) *leftover {
	return &leftover{h: h, t: h.Cell.Over(now), rec: now.Rec, grant: grant, free: h.without(grant)}
}

// maxLeftoverTries is how many writes of a leftover are remembered. What counts is the grant
// in the record; the writes only save a request.
const maxLeftoverTries = 16

// withdraw makes sure that the grant does not stand in the record and cannot come to stand
// there, or returns an error at the end of ctx. It can be called again then. It writes a free
// record over the same predecessor, so that the predecessor is replaced; and where the grant has
// landed, over that.
func (l *leftover) withdraw(ctx context.Context) error {
	h := l.h
	others := h.Cell.Contention(cell.FreeConflicts)
	for pause := h.c.Space.ResolveBackoff(); ; {
		if at, _ := lockrec.Find(l.rec, l.grant); at == lockrec.Waiting && len(l.t.Open()) == 0 && h.c.Space.IsContended(l.rec) {
			now, err := h.Cell.Later(ctx, &cell.Seen{Rec: l.rec})
			switch {
			case err == nil && !now.Names(l.grant):
				return nil
			case err == nil:
				l.t, l.rec = h.Cell.Over(now), now.Rec
			case ctx.Err() != nil:
				return fmt.Errorf("%w: %w", cell.ErrUnresolved, err)
			}
			continue
		}
		marked, err := h.Cell.WithHighestMark(ctx, l.rec)
		if err != nil {
			if pause.Wait(ctx) != nil {
				return fmt.Errorf("%w: %w", cell.ErrUnresolved, err)
			}
			continue
		}
		free := l.free(marked)
		free.Nonce = rand.Text()
		open := l.t.Open() // what was refused can go, and what may yet be applied must be known
		l.t.Sent = open[max(0, len(open)-maxLeftoverTries):]
		f := l.t.Send(ctx, &free, h.c.Space.Clock.SinceStart())
		switch now := f.Now; {
		case f.Resolution == store.ResolutionPending:
			// Not applied yet, neither what was sent before nor this.
		case now == nil && f.Resolution == store.ResolutionNotApplied && !l.mayLand():
			return nil
		case now == nil && f.Resolution != store.ResolutionNotApplied:
			return fmt.Errorf("%w; the lock may stay held for %v: %w", cell.ErrUnresolved, h.c.Space.Set.Expiry(l.rec.TTL), f.Err)
		case now == nil: // refused, and to be sent again
		case now.Names(l.grant):
			// The grant has landed, and may have been broken: free it where it is.
			// A holder's write is sent at once: it comes first.
			if at, _ := now.Find(l.grant); at != lockrec.Waiting {
				others.Conflicts = 0
			}
			if newer, err := others.Conflict(ctx, now.Rec); err == nil && newer != nil {
				now = newer
			}
			if !now.Names(l.grant) {
				l.ended = now
				return nil
			}
			if l.t, l.rec = h.Cell.Over(now), now.Rec; ctx.Err() == nil {
				continue
			}
		default:
			if h.Cell.Note(now); f.Resolution == store.ResolutionNotApplied {
				l.ended = now
			} else if l.rec.State == lockrec.Broken {
				l.ended = &cell.Seen{Rec: l.rec}
			}
			return nil
		}
		if pause.Wait(ctx) != nil {
			return fmt.Errorf("%w; the lock may stay held for %v", cell.ErrUnresolved, h.c.Space.Set.Expiry(l.rec.TTL))
		}
	}
}

// mayLand reports whether the grant is in the state that the tries are over, or may be in a later one.
func (l *leftover) mayLand() bool {
	return l.landed || (&cell.Seen{Rec: l.t.Rec}).Names(l.grant)
}

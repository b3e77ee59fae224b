package cell

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// Change writes what change makes of the state base, and returns the record when it is applied. The
// holder and others may write between any two steps: then change is called again with the current
// state. The cause is for the history. Change ends with the error of change, or when change returns no record. The error matches
// [ErrUnresolved] if Change could not find out whether the last write was applied. After any write of
// unknown outcome, the outcome of the error is unknown.
func (c *Cell) Change(ctx context.Context, base *Seen, cause lockrec.Cause, change func(*Seen) (*lockrec.Record, error)) (_ *lockrec.Record, err error) {
	doubt := false // a write that was sent may have been applied, and then been replaced
	defer func() {
		if doubt {
			err = store.MarkUnknown(err)
		}
	}()
	c.Known() // the times of earlier reads continue to count
	for others := c.Contention(0); ; {
		rec, err := change(base)
		if rec == nil || err != nil {
			return nil, err
		}
		// If the holder has not written for its TTL, its lease is over, and no write can delay it.
		if rec.State != lockrec.Broken && c.Space.IsContended(base.Rec) && c.Space.Clock.Monotonic().Sub(base.At) < c.Space.Set.Expiry(rec.TTL) {
			if base, err = c.Later(ctx, base); err != nil {
				return nil, err
			}
			continue
		}
		t := c.Over(base)
		t.Cause = &cause
		f := t.Write(ctx, rec, c.Space.Clock.SinceStart(), nil)
		switch {
		case f.Try.Rec != nil:
			if f.Resolution == store.ResolutionApplied {
				c.Note(f.Now)
			}
			return f.Try.Rec, nil
		case f.Resolution == store.ResolutionPending:
			return nil, fmt.Errorf("%w: %w: %w", f.Err, ErrUnresolved, f.Ended)
		case f.Now != nil:
			// OtherWrite says that the holder did not write. Here the write was not the holder's.
			doubt = doubt || len(t.Open()) > 0 && (f.OtherWrite || f.Resolution != store.ResolutionNotApplied)
			if base, err = others.Conflict(ctx, f.Now.Rec); err != nil {
				return nil, store.MarkNotApplied(fmt.Errorf("%w: %w", f.Err, err))
			}
		case f.Resolution == store.ResolutionNotApplied:
			return nil, f.Err
		default:
			return nil, fmt.Errorf("%w: %w", ErrUnresolved, f.Err)
		}
	}
}

// Later returns the state that is in place of base a part of its TTL later. It is used where others
// have to wait for the holder's next write.
func (c *Cell) Later(ctx context.Context, base *Seen) (*Seen, error) {
	if err := Sleep(ctx, c.Space.Set.RereadDelay(base.Rec.TTL)); err != nil {
		return nil, store.MarkNotApplied(fmt.Errorf("%s: many clients write into the record of the lock, and this write waited for the next renewal of the holder: %w", c, err))
	}
	return c.Reread(ctx)
}

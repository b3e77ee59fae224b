package lease

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// alter writes what change makes of the state base, and returns the record when it is applied. The
// holder and others may write between any two steps: then change is called again with the current
// state. alter ends with the error of change, or when change returns no record. The error matches
// [ErrUnresolved] if alter could not find out whether the write was applied.
func (c *cell) alter(ctx context.Context, base *seen, change func(*seen) (*Record, error)) (*Record, error) {
	c.known() // the times of earlier reads continue to count
	t, others := c.over(base.version, base.rec), contention{cell: c}
	for pause := c.space.resolveBackoff(); ; {
		rec, err := change(base)
		if rec == nil || err != nil {
			return nil, err
		}
		// If the holder has not written for its TTL, its lease is over, and no write can delay it.
		if rec.State != Broken && lockrec.IsContended(base.rec, c.space.calls.takes()) && c.space.clock.monotonic().Sub(base.at) < c.space.set.expiry(rec.TTL) {
			if base, err = c.later(ctx, base); err != nil {
				return nil, err
			}
			t = c.over(base.version, base.rec)
			continue
		}
		rec.Nonce = rand.Text()
		f := t.send(ctx, rec, c.space.clock.sinceStart())
		switch {
		case f.try.rec != nil:
			if f.resolution == store.ResolutionApplied {
				c.note(f.now)
			}
			return f.try.rec, nil
		case f.resolution == store.ResolutionPending:
			if err := pause.wait(ctx); err != nil {
				return nil, fmt.Errorf("%w: %w: %w", f.err, ErrUnresolved, err)
			}
		case f.now != nil:
			if base, err = others.conflict(ctx); err != nil {
				return nil, store.MarkNotApplied(fmt.Errorf("%w: %w", f.err, err))
			}
			t = c.over(base.version, base.rec)
		case f.resolution == store.ResolutionNotApplied:
			return nil, f.err
		default:
			return nil, fmt.Errorf("%w: %w", ErrUnresolved, f.err)
		}
	}
}

// later returns the state that is in place of base a part of its TTL later. It is used where others
// have to wait for the holder's next write.
func (c *cell) later(ctx context.Context, base *seen) (*seen, error) {
	if err := backoff.Sleep(ctx, c.space.set.rereadDelay(base.rec.TTL)); err != nil {
		return nil, store.MarkNotApplied(fmt.Errorf("%s: many clients write into the record of the lock, and this write waited for the next renewal of the holder: %w", c, err))
	}
	return c.reread(ctx)
}

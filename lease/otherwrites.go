package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Other clients write into the record of a grant, too: they request to yield, or enter the queue.
// Such a write names the version that was read, and keeps all fields from which others evaluate
// whether the holder lives. So one rule serves all such writes. Waiters time the last write of the
// holder, which [Record.HolderNonce] names, and never that of another client. When the holder's
// next write conflicts with such a write, the holder writes over it.

// writtenByOther returns r, which is held, as another client writes it. age is how long r has been
// unchanged by the store's clock, negative if that is not known.
func (r *Record) writtenByOther(age time.Duration) Record {
	next := *r
	if r.HolderNonce == "" {
		next.OtherWrites = 0
	}
	next.HolderNonce, next.HolderWriteAge, next.Nonce = r.holderNonce(), r.holderWriteAge(age), rand.Text()
	next.OtherWrites = min(next.OtherWrites+1, math.MaxInt32)
	return next
}

// maxOtherWrites bounds how often others write between two writes of a holder.
const maxOtherWrites = 1000

// isRenewed reports whether the holder renews this record itself, and not that of a session.
func (r *Record) isRenewed() bool { return r != nil && r.State == Held && r.Session == "" }

// isContended reports whether others have written too often since the holder's own last write. A
// renewal that conflicts with each of these writes, one after the other, might come too late if a
// request takes that long. Then those that want to write wait for the holder's next write. So a
// holder can always renew, whatever the number of writers and the times of their writes. Where the
// holder renews another record, nothing is late.
func (r *Record) isContended(took time.Duration) bool {
	if !r.isRenewed() || r.HolderNonce == "" {
		return false
	}
	most := r.TTL / latencyPerTTL / max(2*took, time.Millisecond)
	return r.OtherWrites >= int(min(max(most, 1), maxOtherWrites))
}

// alter writes what change makes of the state base, and returns the record when it is applied. The
// holder and others may write between any two steps: then change is called again with the current
// state. alter ends with the error of change, or when change returns no record. The error matches
// [ErrUnresolved] if alter could not find out whether the write was applied.
func (h *Handle) alter(ctx context.Context, base *seen, change func(*seen) (*Record, error)) (*Record, error) {
	h.known() // the times of earlier reads continue to count
	t, others := h.over(base.version, base.rec), contention{h: h}
	for pause := h.c.resolveBackoff(); ; {
		rec, err := change(base)
		if rec == nil || err != nil {
			return nil, err
		}
		// If the holder has not written for its TTL, its lease is over, and no write can delay it.
		if rec.State != Broken && base.rec.isContended(h.c.calls.takes()) && h.c.clock.monotonic().Sub(base.at) < h.c.set.expiry(rec.TTL) {
			if base, err = h.later(ctx, base); err != nil {
				return nil, err
			}
			t = h.over(base.version, base.rec)
			continue
		}
		f := t.send(ctx, rec, h.c.clock.sinceStart())
		switch {
		case f.try.rec != nil:
			if f.resolution == store.ResolutionApplied {
				h.note(f.now)
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
			t = h.over(base.version, base.rec)
		case f.resolution == store.ResolutionNotApplied:
			return nil, f.err
		default:
			return nil, fmt.Errorf("%w: %w", ErrUnresolved, f.err)
		}
	}
}

// later returns the state that is in place of base a part of its TTL later. It is used where others
// have to wait for the holder's next write.
func (h *Handle) later(ctx context.Context, base *seen) (*seen, error) {
	if err := sleep(ctx, h.c.set.rereadDelay(base.rec.TTL)); err != nil {
		return nil, store.MarkNotApplied(fmt.Errorf("%s: many clients write into its record, and this write waited for the holder's next renewal: %w", h, err))
	}
	return h.reread(ctx)
}

// isOtherWriteOver reports whether others made r, in one write or several, from the record before,
// the last that the grant's own holder wrote: r has the same grant, and shows no sign that the
// holder lives.
func (r *Record) isOtherWriteOver(before *Record) bool {
	return r != nil && before != nil && r.State == Held && before.State == Held &&
		r.Grant == before.Grant && r.HolderNonce != "" && r.HolderNonce == before.holderNonce()
}

// renewed returns r as its grant's own holder writes it at the time now.
func (r *Record) renewed(now time.Time) Record {
	next := *r
	next.HolderNonce, next.HolderWriteAge, next.LocksToCheck, next.Nonce, next.Renewed = "", 0, nil, rand.Text(), now
	if next.YieldRequest != nil && !next.YieldRequest.Acknowledged {
		heard := *next.YieldRequest
		heard.Acknowledged = true
		next.YieldRequest = &heard
	}
	return next
}

// holderWriteAge returns how long ago, certainly, the last write of the grant's holder was, by the
// store's clock, if r has been unchanged for age.
func (r *Record) holderWriteAge(age time.Duration) time.Duration {
	stood := max(age, 0)
	if r.State == Broken || r.HolderNonce != "" {
		stood += r.HolderWriteAge
	}
	return min(stood, maxWriteAge)
}

package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Others than the holder write into the record of its grant, too: they ask it to give way, or
// enter the queue. Such a write names the version that was read, and leaves all by which others
// judge whether the holder lives. So there is one rule for all of them: waiters time the last
// write of the holder, which [Record.HolderNonce] names, and never that of another client; and
// the holder, whose next write meets the record, goes on over it.

// beside returns r, which is held, as another client writes it. age is for how long r has
// stood by the store's clock, negative if that is not known.
func (r *Record) writtenByOther(age time.Duration) Record {
	next := *r
	if r.HolderNonce == "" {
		next.OtherWrites = 0
	}
	next.HolderNonce, next.HolderWriteAge, next.Nonce = r.holderNonce(), r.holderWriteAge(age), rand.Text()
	next.OtherWrites = min(next.OtherWrites+1, math.MaxInt32)
	return next
}

// maxBeside bounds how often others write between two writes of a holder.
const maxOtherWrites = 1000

// isRenewed reports whether the holder renews the record itself, and not that of a session.
func (r *Record) isRenewed() bool { return r != nil && r.State == Held && r.Session == "" }

// isContended reports whether others have written so often since the holder's own last write that a
// renewal which met one after the other of these writes might come too late, if a request takes that
// long. Then those who would write wait for the holder's next write. So no number of them, nor the
// instants at which they come, keeps a holder from its renewals. Where the record's holder renews it
// elsewhere nothing is late.
func (r *Record) isContended(took time.Duration) bool {
	if !r.isRenewed() || r.HolderNonce == "" {
		return false
	}
	most := r.TTL / latencyPerTTL / max(2*took, time.Millisecond)
	return r.OtherWrites >= int(min(max(most, 1), maxOtherWrites))
}

// alter writes what change makes of the state base, and returns it when it is applied. Between
// any two steps the holder, and others, may write: then change is asked about what stands there
// by then. It ends with the error of change, or when that makes no record. The error matches
// [ErrUnresolved] if it could not be found out whether the write was applied.
func (h *Handle) alter(ctx context.Context, base *seen, change func(*seen) (*Record, error)) (*Record, error) {
	h.known() // what was seen earlier goes on to count
	t, others := h.over(base.version, base.rec), contention{h: h}
	for pause := h.c.resolveBackoff(); ; {
		rec, err := change(base)
		if rec == nil || err != nil {
			return nil, err
		}
		// Where the holder has not written for its TTL no write of its own comes too late.
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

// later returns what stands in place of base a part of its TTL later, where others have to wait for
// the holder's next write.
func (h *Handle) later(ctx context.Context, base *seen) (*seen, error) {
	if err := sleep(ctx, h.c.set.rereadDelay(base.rec.TTL)); err != nil {
		return nil, store.MarkNotApplied(fmt.Errorf("%s: others write into its record, and its holder comes first: %w", h, err))
	}
	return h.reread(ctx)
}

// isOtherWriteOver reports whether r is what others have written since the grant's own holder wrote
// the record before, perhaps more than once: it is the same grant, and it shows no sign of life.
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

// holderWriteAge returns for how long the last write of the grant's holder has stood for certain, by
// the store's clock, if r has stood for age.
func (r *Record) holderWriteAge(age time.Duration) time.Duration {
	stood := max(age, 0)
	if r.State == Broken || r.HolderNonce != "" {
		stood += r.HolderWriteAge
	}
	return min(stood, maxWriteAge)
}

package lease

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Others than the holder write into the record of its grant, too: they ask it to give way, or
// enter the queue. Such a write names the version that was read, and leaves all by which others
// judge whether the holder lives. So there is one rule for all of them: waiters time the last
// write of the holder, which [Record.Mark] names, and never that of another client; and
// the holder, whose next write meets the record, goes on over it.

// beside returns r, which is held, as another client writes it. age is for how long r has
// stood by the store's clock, negative if that is not known.
func (r *Record) beside(age time.Duration) Record {
	next := *r
	next.Mark, next.Stood, next.Nonce = r.mark(), r.stoodFor(age), rand.Text()
	return next
}

// alter writes what change makes of the state base, and returns it when it is applied. Between
// any two steps the holder, and others, may write: then change is asked about what stands there
// by then. It ends with the error of change, or when that makes no record. The error matches
// [ErrUnresolved] if it could not be found out whether the write was applied.
func (h *Handle) alter(ctx context.Context, base *seen, change func(*seen) (*Record, error)) (*Record, error) {
	h.known() // what was seen earlier goes on to count
	t := h.over(base.version, base.rec)
	for pause := h.c.settling(); ; {
		rec, err := change(base)
		if rec == nil || err != nil {
			return nil, err
		}
		f := t.send(ctx, rec, h.c.clock.look())
		switch {
		case f.try.rec != nil:
			if f.fate == store.FateApplied {
				h.note(f.now)
			}
			return f.try.rec, nil
		case f.fate == store.FateNotYet:
			if err := pause.wait(ctx); err != nil {
				return nil, fmt.Errorf("%w: %w: %w", f.err, ErrUnresolved, err)
			}
		case f.now != nil:
			base, t = f.now, h.over(f.now.version, f.now.rec)
		case f.fate == store.FateNever:
			return nil, f.err
		default:
			return nil, fmt.Errorf("%w: %w", ErrUnresolved, f.err)
		}
	}
}

// isBeside reports whether r is what others have written since the grant's own holder wrote
// the record before, perhaps more than once: it is the same grant, and it shows no sign of life.
func (r *Record) isBeside(before *Record) bool {
	return r != nil && before != nil && r.State == Held && before.State == Held &&
		r.Grant == before.Grant && r.Mark != "" && r.Mark == before.mark()
}

// renewed returns r as its grant's own holder writes it at the time now.
func (r *Record) renewed(now time.Time) Record {
	next := *r
	next.Mark, next.Stood, next.Attend, next.Nonce, next.Renewed = "", 0, nil, rand.Text(), now
	if next.Ask != nil && !next.Ask.Heard {
		heard := *next.Ask
		heard.Heard = true
		next.Ask = &heard
	}
	return next
}

// stoodFor returns for how long the last write of the grant's holder has stood for certain, by
// the store's clock, if r has stood for age.
func (r *Record) stoodFor(age time.Duration) time.Duration {
	stood := max(age, 0)
	if r.State == Broken || r.Mark != "" {
		stood += r.Stood
	}
	return min(stood, maxStood)
}

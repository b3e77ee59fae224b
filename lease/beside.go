package lease

import (
	"crypto/rand"
	"time"
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

// isBeside reports whether r is what others have written since the grant's own holder wrote
// the record before, perhaps more than once: it is the same grant, and it shows no sign of life.
func (r *Record) isBeside(before *Record) bool {
	return r != nil && before != nil && r.State == Held && before.State == Held &&
		r.Grant == before.Grant && r.Mark != "" && r.Mark == before.mark()
}

// renewed returns r as its grant's own holder writes it at the time now.
func (r *Record) renewed(now time.Time) Record {
	next := *r
	next.Mark, next.Stood, next.Nonce, next.Renewed = "", 0, rand.Text(), now
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

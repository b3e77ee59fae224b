package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// tries are writes of a lock's record that were sent over one state of it. At most one of them is
// ever applied. In this package only tries decides the outcome of a write. It uses [store.Resolve]
// and the nonce that each record has.
//
// It needs the nonce too, for two cases: a conflict carries the current record, which saves a
// further request; and an abandoned call returned no version to query.
type tries struct {
	cell *cell
	base store.Version // the state that all of them name
	rec  *Record       // the record of that state; nil if it is absent, or cannot be read
	sent []try

	// noReadBack is set where a write of unknown outcome must not be adopted: then tries does not
	// read the record back to resolve it.
	noReadBack bool
}

// try is one write.
type try struct {
	rec     *Record
	at      time.Duration // when it was sent
	version store.Version // the version that it would make; zero if the store did not name it
	refused bool          // certainly not applied
	failed  bool          // it returned an error, whether it was applied or not
}

// finding is the resolution of tries.
type finding struct {
	resolution store.Resolution
	now        *seen // the current state; nil if it could not be read, or need not be
	try        try   // the applied write, with ResolutionApplied and ResolutionSuperseded

	// otherWrite means, with ResolutionNotApplied, that others have written over the base and left
	// its grant as it was: its holder continues over that.
	otherWrite bool

	// durable means that the applied write survives a power cut, as far as the store guarantees
	// that.
	durable bool

	// err is why the last try failed, and why the state could not be read. refused means that the
	// last try was certainly not applied, for another reason than a conflict.
	err     error
	refused bool
}

// over returns an empty list of tries over the state base, whose record is rec.
func (c *cell) over(base store.Version, rec *Record) *tries {
	return &tries{cell: c, base: base, rec: rec}
}

// add notes a try that is about to be sent.
func (t *tries) add(rec *Record, at time.Duration) {
	t.sent = append(t.sent, try{rec: rec, at: at})
}

// failed notes what the error of a try shows about it.
func (t *tries) failed(rec *Record, err error) {
	for i := range t.sent {
		if s := &t.sent[i]; s.rec == rec {
			s.version, s.refused, s.failed = store.AttemptedVersion(err), store.OutcomeOf(err) == store.NotApplied, true
		}
	}
}

// open returns the tries that may have been applied, or may still be.
func (t *tries) open() []try {
	return slices.DeleteFunc(slices.Clone(t.sent), func(s try) bool { return s.refused })
}

// inDoubt reports whether a try that may have been applied has failed, or was sent again.
func (t *tries) inDoubt() bool {
	open := t.open()
	return len(open) > 1 || len(open) == 1 && open[0].failed
}

// versions returns the versions to query at the store.
func (t *tries) versions() []store.Version {
	var all []store.Version
	for _, s := range t.open() {
		all = append(all, s.version)
	}
	return all
}

// send writes rec over the base. It then resolves this write and the tries before it, until they
// are resolved or ctx ends. The caller has chosen a new nonce. ResolutionNotApplied without a state
// means that all of them were refused.
func (t *tries) send(ctx context.Context, rec *Record, at time.Duration) finding {
	value, err := lockrec.Encode(rec)
	if err != nil {
		return t.refusedAll(err)
	}
	own := *rec // the caller still changes rec
	rec = &own
	t.add(rec, at)
	version, err := t.cell.space.st.Put(ctx, t.cell.key, t.base, value)
	if err == nil {
		now := &seen{version: version, rec: rec, at: t.cell.space.clock.monotonic(), age: -1}
		return finding{resolution: store.ResolutionApplied, now: now, try: t.sent[len(t.sent)-1], durable: true}
	}
	t.failed(rec, err)
	named := fmt.Errorf("%s: %w", t.cell, err)
	if f := t.refusedAll(named); notApplied(err) && f.resolution == store.ResolutionNotApplied {
		return f
	}
	if t.noReadBack && store.OutcomeOf(err) == store.Unknown {
		return finding{err: named}
	}
	now, found, readErr := t.after(ctx, err)
	f := finding{}
	if readErr != nil {
		named = store.MarkUnknown(errors.Join(named, readErr))
	} else {
		f = t.resolve(now, found)
	}
	f.err, f.refused = named, notApplied(err)
	return f
}

// refusedAll is the finding after a refused try: if none of the others is open, no try is ever
// applied.
func (t *tries) refusedAll(err error) finding {
	if len(t.open()) > 0 {
		return finding{err: store.MarkUnknown(err), refused: true}
	}
	return finding{resolution: store.ResolutionNotApplied, err: err, refused: true}
}

// after returns the state that a failed try left: the one in its conflict, or else the one that it
// reads. It reads until it knows the state, or ctx ends.
func (t *tries) after(ctx context.Context, err error) (*seen, store.ResolveResult, error) {
	if e, known := conflictEntry(err); known {
		now, err := t.cell.decodeEntry(e, nil)
		return now, store.ResolveResult{}, err
	}
	for pause := t.cell.space.resolveBackoff(); ; {
		now, found, err := t.cell.readBack(ctx, t.base, t.versions())
		if err == nil || errors.Is(err, store.ErrCorrupt) || pause.wait(ctx) != nil {
			return now, found, err
		}
	}
}

// readBack reads the record, and what the store knows of writes over the state base.
func (c *cell) readBack(ctx context.Context, base store.Version, writes []store.Version) (*seen, store.ResolveResult, error) {
	found, err := store.Resolve(ctx, c.space.st, c.key, base, writes...)
	now, err := c.decodeEntry(found.Current, err)
	return now, found, err
}

// decodeEntry decodes an entry that was just read.
func (c *cell) decodeEntry(e store.Entry, err error) (*seen, error) {
	if err == nil && e.Version == "" {
		err = store.ErrNotFound
	}
	now, err := c.decode(e.Value, e.Version, err)
	if err != nil {
		return nil, err
	}
	now.at = c.space.clock.monotonic()
	return now, nil
}

// resolve decides the outcome of the tries, from the state in place of the base and from the
// store's own findings.
func (t *tries) resolve(now *seen, found store.ResolveResult) finding {
	f := finding{resolution: found.Resolution, now: now, durable: found.Resolution == store.ResolutionApplied}
	for _, s := range t.sent {
		if now.rec != nil && lockrec.Wrote(s.rec, now.rec) {
			f.resolution, f.try = store.ResolutionApplied, s
			return f
		}
	}
	switch {
	case now.version == t.base:
		f.resolution = store.ResolutionPending
	case lockrec.OnlyOthersWrote(now.rec, t.rec):
		f.resolution, f.otherWrite = store.ResolutionNotApplied, true
	case f.resolution == store.ResolutionSuperseded:
		for _, s := range t.sent {
			if s.version == found.Write {
				f.try = s
			}
		}
	case f.resolution == store.ResolutionNotApplied:
	case len(t.open()) == 0:
		f.resolution = store.ResolutionNotApplied
	default:
		f.resolution = store.ResolutionUnknown
	}
	return f
}

// conflictEntry returns the state that a conflict carries.
func conflictEntry(err error) (e store.Entry, known bool) {
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !conflict.HasCurrent || store.OutcomeOf(err) != store.NotApplied {
		return e, false
	}
	return store.Entry{Value: conflict.Value, Version: conflict.Version}, true
}

// notApplied reports whether err proves that a write was not applied, and was refused for another
// reason than the state of the record.
func notApplied(err error) bool {
	return store.OutcomeOf(err) == store.NotApplied && !errors.Is(err, store.ErrConflict)
}

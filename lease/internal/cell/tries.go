package cell

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/store"
)

// Tries are writes of a record that were sent over one state of it. At most one of them is
// ever applied. Only Tries decides the outcome of a write. It uses [store.Resolve]
// and the nonce that each record has.
//
// It needs the nonce too, for two cases: a conflict carries the current record, which saves a
// further request; and an abandoned call returned no version to query.
type Tries struct {
	cell *Cell
	Base store.Version   // the state that all of them name
	Rec  *lockrec.Record // the record of that state; nil if it is absent, or cannot be read
	Sent []Try
	one  [1]Try // of Sent: most writes are not sent again

	Cause *lockrec.Cause // of all of them, for the history; may be nil

	// within bounds the requests that resolve a write; 0: only the caller's context does.
	within time.Duration

	// NoReadBack is set where a write of unknown outcome must not be adopted: then Tries does not
	// read the record back to resolve it.
	NoReadBack bool
}

// Try is one write.
type Try struct {
	Rec     *lockrec.Record
	At      time.Duration // when it was sent
	version store.Version // the version that it would make; zero if the store did not name it
	refused bool          // certainly not applied
	failed  bool          // it returned an error, whether it was applied or not
}

// Finding is the resolution of tries.
type Finding struct {
	Resolution store.Resolution
	Now        *Seen // the current state; nil if it could not be read, or need not be
	Try        Try   // the applied write, with ResolutionApplied and ResolutionSuperseded

	// OtherWrite means, with ResolutionNotApplied, that others have written over the base and left
	// its grant as it was: its holder continues over that.
	OtherWrite bool

	// Durable means that the applied write survives a power cut, as far as the store guarantees
	// that.
	Durable bool

	// Err is why the last try failed, and why the state could not be read. Refused means that the
	// last try was certainly not applied, for another reason than a conflict.
	Err     error
	Refused bool

	// Ended is why Write did not send a write again whose base no other write has replaced.
	Ended error
}

// Over returns an empty list of tries over the state base.
func (c *Cell) Over(base *Seen) *Tries {
	t := &Tries{cell: c, Base: base.Version, Rec: base.Rec}
	t.Sent = t.one[:0]
	return t
}

// Again returns an empty list of tries over the same state.
func (t *Tries) Again() *Tries { return t.cell.Over(&Seen{Version: t.Base, Rec: t.Rec}) }

// OverGrant is Over for writes that take a lock or a session: they are resolved within
// [Settings.ResolveTimeout], and none of unknown outcome is adopted where the store cannot read its
// own writes.
func (c *Cell) OverGrant(base *Seen) *Tries {
	t := c.Over(base)
	t.within, t.NoReadBack = c.Space.Set.ResolveTimeout(), c.Space.Set.Traits.Delayed()
	return t
}

// Add notes a try that is about to be sent.
func (t *Tries) Add(rec *lockrec.Record, at time.Duration) {
	t.Sent = append(t.Sent, Try{Rec: rec, At: at})
}

// Failed notes what the error of a try shows about it.
func (t *Tries) Failed(rec *lockrec.Record, err error) {
	for i := range t.Sent {
		if s := &t.Sent[i]; s.Rec == rec {
			s.version, s.refused, s.failed = store.AttemptedVersion(err), store.OutcomeOf(err) == store.NotApplied, true
		}
	}
}

// Open returns the tries that may have been applied, or may still be.
func (t *Tries) Open() []Try {
	return slices.DeleteFunc(slices.Clone(t.Sent), func(s Try) bool { return s.refused })
}

// InDoubt reports whether a try that may have been applied has failed, or was sent again.
func (t *Tries) InDoubt() bool {
	open := t.Open()
	return len(open) > 1 || len(open) == 1 && open[0].failed
}

// Versions returns the versions to query at the store.
func (t *Tries) Versions() []store.Version {
	var all []store.Version
	for _, s := range t.Open() {
		all = append(all, s.version)
	}
	return all
}

// Send writes rec over the base. It then resolves this write and the tries before it, until they
// are resolved or ctx ends. The caller has chosen a new nonce. ResolutionNotApplied without a state
// means that all of them were refused.
func (t *Tries) Send(ctx context.Context, rec *lockrec.Record, at time.Duration) Finding {
	return t.send(ctx, rec, at, time.Time{})
}

// send is Send, where the resolution ends at a time unless that is zero.
func (t *Tries) send(ctx context.Context, rec *lockrec.Record, at time.Duration, end time.Time) Finding {
	move := t.cell.Chronicle(rec, t.Rec, t.Cause)
	value, err := lockrec.Encode(rec)
	if err != nil {
		return t.refusedAll(err)
	}
	own := *rec // the caller still changes rec
	rec = &own
	t.Add(rec, at)
	sent := t.cell.Space.Clock.Monotonic()
	version, err := t.cell.Space.Store.Put(ctx, t.cell.Key, t.Base, value)
	if err == nil {
		now := &Seen{Version: version, Rec: rec, At: t.cell.Space.Clock.Monotonic(), Sent: sent, Age: -1, Durable: true}
		t.cell.wakeNext(ctx, t.Rec, rec)
		if move {
			t.cell.MoveHistory(rec)
		}
		return Finding{Resolution: store.ResolutionApplied, Now: now, Try: t.Sent[len(t.Sent)-1], Durable: true}
	}
	t.Failed(rec, err)
	named := fmt.Errorf("%s: %w", t.cell, err)
	if f := t.refusedAll(named); NotApplied(err) && f.Resolution == store.ResolutionNotApplied {
		return f
	}
	if t.NoReadBack && store.OutcomeOf(err) == store.Unknown {
		return Finding{Err: named}
	}
	if !end.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, end)
		defer cancel()
	}
	now, found, readErr := t.after(ctx, sent, err)
	f := Finding{}
	if readErr != nil {
		named = store.MarkUnknown(errors.Join(named, readErr))
	} else {
		f = t.Resolve(now, found)
	}
	f.Err, f.Refused = named, NotApplied(err)
	return f
}

// Write is Send, again and again with new nonces, for as long as no try was applied and no other
// write has replaced the base. It returns a finding with ResolutionPending only if ctx ends before that is resolved. The
// first try counts from the time at. stamp, if it is not nil, completes rec before each try.
func (t *Tries) Write(ctx context.Context, rec *lockrec.Record, at time.Duration, stamp func()) Finding {
	var end time.Time
	if t.within > 0 {
		end = time.Now().Add(t.within)
	}
	for pause := (*RetryPause)(nil); ; at = t.cell.Space.Clock.SinceStart() {
		if rec.Nonce = rand.Text(); stamp != nil {
			stamp()
		}
		f := t.send(ctx, rec, at, end)
		if f.Resolution != store.ResolutionPending {
			return f
		}
		if pause == nil { // most writes are not sent again
			if pause = t.cell.Space.ResolveBackoff(); t.within > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, end)
				defer cancel()
			}
		}
		if f.Ended = pause.Wait(ctx); f.Ended != nil {
			return f
		}
	}
}

// refusedAll is the finding after a refused try: if none of the others is open, no try is ever
// applied.
func (t *Tries) refusedAll(err error) Finding {
	if len(t.Open()) > 0 {
		return Finding{Err: store.MarkUnknown(err), Refused: true}
	}
	return Finding{Resolution: store.ResolutionNotApplied, Err: err, Refused: true}
}

// after returns the state that a failed try, sent at that time, left: the one in its conflict, or else
// the one that it reads. It reads until it knows the state, or ctx ends.
func (t *Tries) after(ctx context.Context, sent time.Time, err error) (*Seen, store.ResolveResult, error) {
	if e, known := ConflictEntry(err); known {
		now, err := t.cell.DecodeEntry(sent, e, nil)
		return now, store.ResolveResult{}, err
	}
	for pause := t.cell.Space.ResolveBackoff(); ; {
		now, found, err := t.cell.ReadBack(ctx, t.Base, t.Versions())
		if err == nil || errors.Is(err, store.ErrCorrupt) || pause.Wait(ctx) != nil {
			return now, found, err
		}
	}
}

// ReadBack reads the record, and what the store knows of writes over the state base.
func (c *Cell) ReadBack(ctx context.Context, base store.Version, writes []store.Version) (*Seen, store.ResolveResult, error) {
	sent := c.Space.Clock.Monotonic()
	found, err := store.Resolve(ctx, c.Space.Store, c.Key, base, writes...)
	now, err := c.DecodeEntry(sent, found.Current, err)
	return now, found, err
}

// DecodeEntry decodes an entry that was just received. Its request was sent at that time.
func (c *Cell) DecodeEntry(sent time.Time, e store.Entry, err error) (*Seen, error) {
	if err == nil && e.Version == "" {
		err = store.ErrNotFound
	}
	now, err := c.decode(e.Value, e.Version, err)
	if err != nil {
		return nil, err
	}
	now.At, now.Sent = c.Space.Clock.Monotonic(), sent
	return now, nil
}

// Resolve decides the outcome of the tries, from the state in place of the base and from the
// store's own findings.
func (t *Tries) Resolve(now *Seen, found store.ResolveResult) Finding {
	f := Finding{Resolution: found.Resolution, Now: now, Durable: found.Resolution == store.ResolutionApplied}
	for _, s := range t.Sent {
		if now.Rec != nil && lockrec.Wrote(s.Rec, now.Rec) {
			f.Resolution, f.Try = store.ResolutionApplied, s
			return f
		}
	}
	switch {
	case now.Version == t.Base:
		f.Resolution = store.ResolutionPending
	case lockrec.OnlyOthersWrote(now.Rec, t.Rec), t.Rec != nil && lockrec.IsRenewed(now.Rec) && lockrec.Wrote(t.Rec, now.Rec):
		// In the second case, another program has copied the object onto itself, or changed its metadata.
		f.Resolution, f.OtherWrite = store.ResolutionNotApplied, true
	case f.Resolution == store.ResolutionSuperseded:
		for _, s := range t.Sent {
			if s.version == found.Write {
				f.Try = s
			}
		}
	case f.Resolution == store.ResolutionNotApplied:
	case len(t.Open()) == 0:
		f.Resolution = store.ResolutionNotApplied
	default:
		f.Resolution = store.ResolutionUnknown
	}
	return f
}

// ConflictEntry returns the state that a conflict carries.
func ConflictEntry(err error) (e store.Entry, known bool) {
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || !conflict.HasCurrent || store.OutcomeOf(err) != store.NotApplied {
		return e, false
	}
	return store.Entry{Value: conflict.Value, Version: conflict.Version}, true
}

// NotApplied reports whether err proves that a write was not applied, and was refused for another
// reason than the state of the record.
func NotApplied(err error) bool {
	return store.OutcomeOf(err) == store.NotApplied && !errors.Is(err, store.ErrConflict)
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/store"
)

// outcomeOf returns the resolution of a write, from the current state of its register. The
// first of the write's Predecessors is the nonce of the state that the write names.
//
// No other function below [store.Store] decides this for a remote backend.
func outcomeOf(current Stored, write *Envelope) store.Resolution {
	created := len(write.Predecessors) == 0
	switch {
	case current.Absent() && created, !created && current.Nonce == write.Predecessors[0]:
		return store.ResolutionPending
	case current.Absent():
		return store.ResolutionUnknown // removed by hand
	case current.Nonce == write.Nonce:
		return store.ResolutionApplied
	case slices.Contains(current.Predecessors, write.Nonce):
		return store.ResolutionSuperseded
	case created && len(current.Predecessors) < maxPredecessors, !created && slices.Contains(current.Predecessors, write.Predecessors[0]):
		return store.ResolutionNotApplied // its predecessors leave no place for the write
	}
	return store.ResolutionUnknown
}

// writing is one write in progress.
type writing struct {
	s      *Store
	key    string
	create bool     // the register must be absent or a tombstone
	base   Stored   // the state that the write names
	e      Envelope // its nonce stays the same in all tries

	// lost is the error of the last try whose outcome is not known. That try may still be
	// applied while the register is in the state base.
	lost error

	// wrongRefusals counts refusals of a condition that holds.
	wrongRefusals int
}

// write replaces the state prev by e.
func (s *Store) write(ctx context.Context, key string, prev store.Version, e Envelope) (store.Version, error) {
	base, err := s.parse(prev)
	if err != nil {
		return "", err
	}
	if err := store.CheckContext(ctx); err != nil {
		return "", err
	}
	if err := s.Verify(ctx); err != nil {
		return "", err
	}
	w := s.writing(key, base, e)
	made, err := w.run(ctx)
	if store.OutcomeOf(err) == store.Unknown {
		err = &store.InDoubtError{Version: w.made(), Err: err}
	}
	return made.version(err), err
}

// writing returns the write of e over base.
func (s *Store) writing(key string, base Stored, e Envelope) *writing {
	if e.Nonce == "" {
		e.Nonce = newNonce()
	}
	w := &writing{s: s, key: key, create: base.Absent(), e: e}
	w.against(base)
	return w
}

func (w *writing) against(base Stored) {
	w.base = base
	w.e.follow(base, w.s.o.Numbered)
}

// made is the version that the write makes, without the server's tag.
func (w *writing) made() store.Version { return Stored{Envelope: w.e}.Version() }

// run sends the write until the outcome is known, or cannot become known. It returns the
// state that it wrote.
func (w *writing) run(ctx context.Context) (Stored, error) {
	if w.s.o.Tags && !w.base.Absent() && w.base.Tag == "" {
		// The version comes from a write whose reply, with the tag, was lost.
		if made, err := w.readBack(ctx, errNoTag); !errors.Is(err, errSendAgain) {
			return made, err
		}
	}
	for try := 1; ; try++ {
		tag, err := w.s.driver.Write(ctx, w.key, w.base, w.e)
		if err == nil {
			return Stored{Envelope: w.e, Tag: tag}, nil
		}
		made, err := w.resolve(ctx, err, try)
		if !errors.Is(err, errSendAgain) {
			return made, err
		}
	}
}

var (
	// errSendAgain says that the write must be sent again.
	errSendAgain = errors.New("not applied yet")

	errNoTag = errors.New("the tag of the state is not known")
)

// resolve finds out whether a try that failed with cause was applied. It returns
// errSendAgain if the write must be sent again.
func (w *writing) resolve(ctx context.Context, cause error, try int) (Stored, error) {
	var refused *ConditionFailedError
	last := try >= w.s.o.tries
	conflict, busy := errors.Is(cause, store.ErrConflict), errors.Is(cause, ErrBusy)
	known := errors.As(cause, &refused) && refused.HasCurrent
	if !conflict && !busy {
		if store.OutcomeOf(cause) == store.NotApplied {
			return Stored{}, w.failed(cause)
		}
		w.lost = cause
	}
	// If a refusal carries the current state, the next try replaces a read.
	again := busy || !conflict && w.s.o.Traits.ConflictCarriesState
	if again && last {
		return Stored{}, w.failed(cause)
	}
	if (!conflict || w.wrongRefusals > 0) && backoff.Wait(ctx, try, w.s.o.Pause, maxPause) != nil {
		return Stored{}, w.failed(fmt.Errorf("%w; %w", cause, store.Cause(ctx)))
	}
	if again {
		return Stored{}, errSendAgain
	}
	var made Stored
	var err error
	if known {
		made, err = w.conflicts(ctx, refused.Current.clone(), cause)
	} else {
		made, err = w.readBack(ctx, cause)
	}
	if errors.Is(err, errSendAgain) && last {
		if conflict {
			cause = &store.ConflictError{Key: w.key} // other writers were faster each time
		}
		return Stored{}, w.failed(cause)
	}
	return made, err
}

// failed returns err as the error of the write. If an earlier try may have been applied,
// err does not prove the outcome, and the result must not match a conflict.
func (w *writing) failed(err error) error {
	switch {
	case w.lost == nil:
		return err
	case errors.Is(err, w.lost):
		return store.MarkUnknown(err)
	}
	return store.MarkUnknown(fmt.Errorf("%w; then: %v", w.lost, err))
}

// readBack reads the register after a try that failed with cause, and decides the outcome
// from it.
func (w *writing) readBack(ctx context.Context, cause error) (Stored, error) {
	current, err := w.s.read(ctx, w.key, "")
	switch {
	case err == nil, errors.Is(err, store.ErrNotFound):
		return w.conflicts(ctx, current, cause)
	case errors.Is(err, store.ErrCorrupt):
		return Stored{}, w.failed(store.MarkNotApplied(err))
	case w.lost != nil:
		return Stored{}, w.failed(fmt.Errorf("reading the register back: %w", err))
	case errors.Is(cause, errNoTag):
		return Stored{}, store.MarkNotApplied(err)
	}
	return Stored{}, store.MarkUnknown(fmt.Errorf("the server refused the condition of the write, and a read that should show the reason failed: %w", err))
}

// conflicts decides the outcome of the write from the current state, after a try that
// failed with cause.
func (w *writing) conflicts(ctx context.Context, current Stored, cause error) (Stored, error) {
	resolution := outcomeOf(current, &w.e)
	if err := w.s.durable(ctx, resolution); err != nil {
		return Stored{}, w.failed(store.MarkUnknown(err))
	}
	if resolution == store.ResolutionPending && current.Number == w.base.Number && (current.Tag == w.base.Tag || w.base.Tag == "" || w.s.o.TagChanges != nil && w.s.o.TagChanges(w.base.Tag, current.Tag)) {
		return Stored{}, w.unchangedBase(current, cause)
	}
	switch {
	case resolution == store.ResolutionApplied:
		w.s.o.Logger.Debug("a write whose reply was lost was applied", "key", w.key)
		return current, nil
	case resolution == store.ResolutionSuperseded:
		w.s.o.Logger.Debug("a write whose reply was lost was applied and then superseded", "key", w.key)
		return Stored{Envelope: w.e}, nil
	case w.lost != nil && current.Absent():
		return Stored{}, w.failed(errors.New("the register was removed after the write was sent"))
	case w.lost != nil && resolution != store.ResolutionNotApplied:
		return Stored{}, w.failed(errors.New("other writers have changed the register several times after the write was sent"))
	case !current.Absent() && !current.Deleted:
		return Stored{}, &store.ConflictError{Key: w.key, HasCurrent: true, Value: current.Value, Version: current.Version()}
	case !w.create:
		return Stored{}, &store.ConflictError{Key: w.key, HasCurrent: true}
	}
	// A create names the tombstone, or nothing if the tombstone was removed.
	w.lost = nil
	w.against(current)
	return Stored{}, errSendAgain
}

// durable makes a write durable that a read has shown.
func (s *Store) durable(ctx context.Context, resolution store.Resolution) error {
	if s.o.Sync == nil || resolution != store.ResolutionApplied && resolution != store.ResolutionSuperseded {
		return nil
	}
	return s.o.Sync(ctx)
}

// unchangedBase handles a register that is still in the state base. After a refusal this is
// unexpected: the read may have been faster than the write that caused the refusal, but not
// several times in a row.
func (w *writing) unchangedBase(current Stored, cause error) error {
	if !errors.Is(cause, store.ErrConflict) || current.Tag != w.base.Tag {
		w.base.Tag = current.Tag
		return errSendAgain
	}
	w.wrongRefusals++
	if w.wrongRefusals < 3 {
		return errSendAgain
	}
	err := fmt.Errorf("%w: the server refuses a condition that is true", store.ErrUnsafe)
	if w.base.Absent() {
		err = fmt.Errorf("%w: the server refuses to create a register that it reports as absent; it may treat a delete marker as an object", store.ErrUnsafe)
	}
	return w.failed(err)
}

// Resolve implements [store.Resolver]. It sends one read, and calls [Options].Sync.
func (s *Store) Resolve(ctx context.Context, key string, prev store.Version, writes ...store.Version) (store.ResolveResult, error) {
	found, err := s.resolve(ctx, key, prev, writes)
	return found, s.opError("resolve", key, err)
}

func (s *Store) resolve(ctx context.Context, key string, prev store.Version, writes []store.Version) (store.ResolveResult, error) {
	base, err := s.parse(prev)
	if err != nil {
		return store.ResolveResult{}, err
	}
	attempts := make([]Stored, len(writes))
	for i, v := range writes {
		if attempts[i], err = s.parse(v); err != nil {
			return store.ResolveResult{}, err
		}
	}
	current, err := s.read(ctx, key, "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.ResolveResult{}, err
	}
	found := store.ResolveResult{Resolution: store.ResolutionNotApplied, Current: store.Entry{Key: key}}
	there := !current.Absent() && !current.Deleted
	if there {
		found.Current.Value, found.Current.Version = current.Value, current.Version()
	}
	notYet := false
	for i, write := range attempts {
		resolution := store.ResolutionUnknown
		if !write.Absent() {
			resolution = outcomeOf(current, &write.Envelope)
		}
		switch resolution {
		case store.ResolutionApplied, store.ResolutionSuperseded:
			if err := s.durable(ctx, resolution); err != nil {
				return store.ResolveResult{}, err
			}
			found.Resolution, found.Write = resolution, writes[i]
			return found, nil
		case store.ResolutionPending:
			notYet = true
		case store.ResolutionUnknown:
			found.Resolution = resolution
		}
	}
	switch {
	case there && current.Nonce == base.Nonce:
		found.Resolution = store.ResolutionPending
	case found.Resolution == store.ResolutionNotApplied && (notYet || !there && base.Absent()):
		// Writes of an absent register may name different tombstones. If the register is
		// still absent and none of them was applied, the caller may create it.
		found.Resolution = store.ResolutionPending
	}
	return found, nil
}

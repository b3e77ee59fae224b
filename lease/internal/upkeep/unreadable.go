package upkeep

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// Replace replaces a record that cannot be read by a free one, after keep has kept its content.
func Replace(ctx context.Context, s *cell.Space, name string, keep func(ctx context.Context, key string, value []byte) error) (lockrec.Record, error) {
	of, err := s.Lock(name)
	if err != nil {
		return lockrec.Record{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	value, version, err := s.Store.Get(ctx, of.Key)
	switch {
	case errors.Is(err, store.ErrCorrupt):
		value, version = nil, ""
	case err != nil:
		return lockrec.Record{}, fmt.Errorf("lock %q: %w", name, err)
	default:
		_, broken := lockrec.Decode("", name, value)
		if broken == nil {
			return lockrec.Record{}, fmt.Errorf("lock %q: %w: the record of the lock is readable, so break the lock by its token", name, lockrec.ErrNotHeld)
		}
		if errors.Is(broken, lockrec.ErrNewerFormat) {
			return lockrec.Record{}, fmt.Errorf("lock %q: %w", name, broken)
		}
	}
	rec := &lockrec.Record{Name: name, State: lockrec.Free, Nonce: rand.Text(), Renewed: s.Clock.Wall(), Token: lockrec.FirstToken(s.Clock.Wall())}
	floor, err := s.Floor(ctx)
	if err != nil {
		return lockrec.Record{}, fmt.Errorf("token floor: %w", err)
	}
	mark, err := of.HighestToken(ctx)
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		return lockrec.Record{}, fmt.Errorf("lock %q: %w", name, err)
	}
	for _, above := range []uint64{floor, mark, lockrec.TokenOf(value)} {
		if err := lockrec.Raise(rec, above); err != nil {
			return lockrec.Record{}, err
		}
	}
	if err := keep(ctx, of.Key, value); err != nil {
		return lockrec.Record{}, fmt.Errorf("lock %q: nothing was changed: %w", name, err)
	}
	// The floor is raised first: a program that finds no record begins above the floor.
	if err := s.RaiseFloor(ctx, rec.Token); err != nil {
		return lockrec.Record{}, err
	}
	t := of.Over(&cell.Seen{Version: version})
	t.Cause = &lockrec.Cause{Kind: lockrec.HistoryBroken, Reason: "the record could not be read"}
	f := t.Write(ctx, rec, s.Clock.SinceStart(), nil)
	switch {
	case f.Try.Rec != nil:
		return *f.Try.Rec, nil
	case f.Now != nil && f.Resolution != store.ResolutionPending:
		return lockrec.Record{}, fmt.Errorf("lock %q: %w: another client has changed the record during the break; try again", name, store.ErrConflict)
	case f.Resolution == store.ResolutionNotApplied:
		return lockrec.Record{}, f.Err
	}
	return lockrec.Record{}, fmt.Errorf("%w: %w", cell.ErrUnresolved, f.Err)
}

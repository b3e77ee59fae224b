// Package upkeep does the work on records that have no holder: it copies them to another store, removes
// those that were not used for a long time, and replaces those that cannot be read.
package upkeep

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// CopyResult is the result of Copy. The alias in package lease documents the fields.
type CopyResult struct {
	From    store.Version
	Record  lockrec.Record
	Changed bool
}

// Copy copies a free lock from the store of one space to the store of another.
func Copy(ctx context.Context, from, to *cell.Space, name string, dryRun bool) (CopyResult, error) {
	source, err := from.Lock(name)
	if err != nil {
		return CopyResult{}, err
	}
	target, err := to.Lock(name)
	if err != nil {
		return CopyResult{}, err
	}
	if source.Same(target) {
		return CopyResult{}, fmt.Errorf("lock %q: %w: the lock cannot be copied to itself", name, store.ErrInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, cell.MaxDuration)
	defer cancel()
	read, err := source.Fetch(ctx)
	if err == nil && read.Rec == nil {
		err = source.Absent()
	}
	if err == nil {
		err = freeIn(source, read)
	}
	if err != nil {
		return CopyResult{}, err
	}
	rec := *read.Rec
	mark, err := source.HighestToken(ctx) // of claims that lost, and may have shown their tokens
	if err != nil {
		return CopyResult{}, fmt.Errorf("%s: %w", source, err)
	}
	rec.Token = max(rec.Token, mark)
	base, err := target.Fetch(ctx)
	if err != nil {
		return CopyResult{}, err
	}
	result := CopyResult{From: read.Version}
	_, err = target.Change(ctx, base, lockrec.Cause{Kind: lockrec.HistoryCopied}, func(s *cell.Seen) (*lockrec.Record, error) {
		if err := freeIn(target, s); err != nil {
			return nil, err
		}
		next, changed, err := lockrec.Copied(&rec, s.Rec, to.Clock.Wall())
		if err == nil && s.Rec == nil {
			var floor uint64
			if floor, err = to.Floor(ctx); err == nil {
				err = lockrec.Raise(&next, floor)
			}
		}
		result.Record, result.Changed = next, changed
		if err != nil || !changed || dryRun {
			return nil, err
		}
		return &next, nil
	})
	return result, err
}

// freeIn returns the error of a lock that cannot be copied, because it is not free.
func freeIn(of *cell.Cell, s *cell.Seen) error {
	if s.Rec == nil || s.Rec.State == lockrec.Free && len(s.Rec.Holders) == 0 {
		return nil
	}
	return holding.NewHeldError(of, s, 0, "")
}

// CopyFloor makes the floor of one store at least as high as the floor of another.
func CopyFloor(ctx context.Context, from, to *cell.Space) error {
	floor, err := from.Floor(ctx)
	if err != nil {
		return fmt.Errorf("token floor: %w", err)
	}
	if floor == 0 {
		return nil
	}
	return to.RaiseFloor(ctx, floor)
}

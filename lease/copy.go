package lease

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/store"
)

// CopyOptions configures [Client.CopyLock].
type CopyOptions struct {
	// With DryRun, CopyLock writes nothing. It only reports what it would write.
	DryRun bool
}

// CopyResult is the result of [Client.CopyLock].
type CopyResult struct {
	// From is the version of the record that was copied. If the other store has this version later, no
	// client has taken the lock there meanwhile.
	From store.Version

	// Record is the record of the lock in this client's store after the copy.
	Record Record

	// Changed is false if the record needed no change.
	Changed bool
}

// CopyLock copies a free lock from the store of another client to the store of this client. From then on
// each grant in this store has a higher token than every grant before in the other store. CopyLock also
// copies the last run of a periodic job ([Client.Once]), NotBefore (Options.MinInterval), the number of
// slots and the data. A second CopyLock changes nothing. So after an error the caller can repeat the call.
//
// CopyLock changes nothing in the other store. So it does not prevent grants there: the caller makes sure
// that no client takes the lock in the other store alone. Clients that take the lock in both stores may
// continue. CopyLock of two clients may run at the same time.
//
// These errors are special:
//
//   - [ErrHeld]: the lock is not free in one of the two stores. The error is a [*HeldError]. A lock whose
//     holder is dead, or that was broken, is free again after the next grant.
//   - [store.ErrCorrupt]: one of the two records cannot be read.
//   - [store.ErrNotFound]: the other store has no record.
//   - [store.ErrInvalid]: both clients use the same record.
//   - [ErrUnresolved]: CopyLock could not find out whether its write was applied.
//
// The call takes at most two minutes.
func (c *Client) CopyLock(ctx context.Context, from *Client, name string, o *CopyOptions) (CopyResult, error) {
	source, err := from.space.Lock(name)
	if err != nil {
		return CopyResult{}, err
	}
	target, err := c.space.Lock(name)
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
		err = freeIn(source, read.Rec)
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
	_, err = target.Change(ctx, base, lockrec.Cause{Kind: lockrec.HistoryCopied}, func(s *cell.Seen) (*Record, error) {
		if s.Rec != nil {
			if err := freeIn(target, s.Rec); err != nil {
				return nil, err
			}
		}
		next, changed, err := lockrec.Copied(&rec, s.Rec, c.space.Clock.Wall())
		if err == nil && s.Rec == nil {
			var floor uint64
			if floor, err = c.space.Floor(ctx); err == nil {
				err = lockrec.Raise(&next, floor)
			}
		}
		result.Record, result.Changed = next, changed
		if err != nil || !changed || o != nil && o.DryRun {
			return nil, err
		}
		return &next, nil
	})
	return result, err
}

// freeIn returns the error of a lock that cannot be copied, because it is not free.
func freeIn(of *cell.Cell, r *Record) error {
	if r.State == Free && len(r.Holders) == 0 {
		return nil
	}
	return &HeldError{Name: of.Name(), Store: of.Space.Set.Traits.Name, Record: *r}
}

// CopyFloor makes the floor of this client's store at least as high as the floor of another client's
// store; see [Client.Sweep]. So the locks that a sweep has removed there get higher tokens here.
func (c *Client) CopyFloor(ctx context.Context, from *Client) error {
	floor, err := from.space.Floor(ctx)
	if err != nil {
		return fmt.Errorf("token floor: %w", err)
	}
	if floor == 0 {
		return nil
	}
	return c.space.RaiseFloor(ctx, floor)
}

package upkeep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockrec"
	"github.com/holdfast-go/holdfast/lease/internal/cell"
	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// SweepOptions configures Sweep. The type of the same name in package lease documents the fields.
type SweepOptions struct {
	OlderThan time.Duration
	Prefix    string
	DryRun    bool
	OnLock    func(name string, removed bool, err error)
}

// Sweep removes the records of locks and sessions that no client has used for a long time.
func Sweep(ctx context.Context, c *holding.Client, o *SweepOptions) (int, error) {
	found := map[string]*cell.Seen{}
	kept := map[string]bool{} // locks that stay, and have a history
	var highest uint64
	var unreadable []error // errors of keys whose record could not be decoded: the others are swept
	for name, err := range c.Space.Locks(ctx, o.Prefix) {
		if errors.Is(err, store.ErrCorrupt) {
			unreadable = append(unreadable, err)
			continue
		}
		if err != nil {
			return 0, err
		}
		of, err := c.Space.Lock(name)
		if err != nil {
			return 0, err
		}
		s, err := of.Fetch(ctx)
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			return 0, err
		}
		unused := false
		if err == nil {
			unused, err = lockrec.Unused(s.Rec, c.Space.Clock.Wall(), o.OlderThan)
		}
		if !unused {
			if err != nil || lockrec.HasHistory(s.Rec) {
				kept[name] = true
			}
			o.tell(name, false, err)
			continue
		}
		found[name] = s
		highest = max(highest, s.Rec.Token)
	}
	if len(found) > 0 && !o.DryRun {
		if err := c.Space.RaiseFloor(ctx, highest); err != nil {
			return 0, err
		}
	}
	removed := 0
	for name, s := range found {
		var err error
		if key := c.Space.Set.KeyPrefix + "/" + name; !o.DryRun {
			err = c.Space.Store.Delete(ctx, key, s.Version) // not if a client has used the lock since it was read
		}
		if err == nil {
			removed++
		}
		o.tell(name, err == nil, err)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return removed, fmt.Errorf("lock %q: %w", name, err)
		}
	}
	if !o.DryRun {
		// Those of the removed locks, and those that an earlier sweep or a late move of entries has left.
		unreadable = append(unreadable, collect(ctx, c, "histories", cell.HistoryDir+c.Space.Set.KeyPrefix, o.Prefix, func(name string) error {
			of, err := c.Space.Lock(name)
			if err != nil || kept[name] {
				return err
			}
			return of.RemoveHistory(ctx)
		}))
	}
	if o.Prefix == "" && !o.DryRun {
		// A lock that still names a removed session is then under an absent one, whose TTL every waiter waits for.
		unreadable = append(unreadable, collect(ctx, c, "sessions", c.Space.Set.KeyPrefix+cell.SessionDir, "", func(id string) error {
			return collectSession(ctx, c, id, o.OlderThan)
		}))
	}
	return removed, errors.Join(unreadable...)
}

// collect calls remove for each key below a directory and a prefix there.
func collect(ctx context.Context, c *holding.Client, what, dir, prefix string, remove func(key string) error) error {
	all, err := store.Prefix(c.Space.Store, dir)
	if err != nil {
		return err
	}
	var unreadable []error
	for key, err := range store.List(ctx, all, prefix) {
		if err == nil {
			err = remove(key)
		}
		switch {
		case errors.Is(err, store.ErrCorrupt):
			unreadable = append(unreadable, err)
		case err != nil:
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return errors.Join(unreadable...)
}

// collectSession removes the record of a session that has ended long ago.
func collectSession(ctx context.Context, c *holding.Client, id string, age time.Duration) error {
	of, s, err := c.Peers.End(ctx, id, age)
	if err != nil || s == nil {
		return err
	}
	if err := discard(ctx, c.Space, of.Key, s.Version); err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}

// eraser is a store that removes a register without a tombstone, whatever its state.
type eraser interface {
	Erase(ctx context.Context, key string) error
}

// discard removes the record of a session that has ended. No client writes it any more, and its id
// is never used again. So no tombstone is needed where the store can do without.
func discard(ctx context.Context, s *cell.Space, key string, v store.Version) error {
	if erases, ok := store.As[eraser](s.Given); ok {
		err := s.Run(ctx, s.Set.CallTimeout(), func(ctx context.Context) error { return erases.Erase(ctx, key) })
		if !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	return s.Store.Delete(ctx, key, v)
}

func (o *SweepOptions) tell(name string, removed bool, err error) {
	if o.OnLock != nil {
		o.OnLock(name, removed, err)
	}
}

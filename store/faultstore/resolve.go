package faultstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// fate is what became of a write with an unknown outcome. The zero value was not
// applied. It is guarded by the store's mutex.
type lostWrite struct {
	version store.Version // that it made, or would have made, in the store below
	deleted bool          // it was a delete, and was applied
	unclear bool          // its outcome is unknown in the store below, which gave no version
	late    *lateWrite    // it is applied later, or was
}

// fateOf returns the fate of a write that the store below has answered.
func lostWriteOf(op *store.Op, err error) *lostWrite {
	if err != nil {
		v := store.AttemptedVersion(err)
		return &lostWrite{version: v, unclear: v == "" && store.OutcomeOf(err) == store.Unknown}
	}
	return &lostWrite{version: op.Version, deleted: op.Kind == store.OpDelete}
}

// name returns a version for the error of a write. It is one of this decorator's own,
// since the store below has not chosen one for a write that it has not seen yet.
func (s *Store) name(f *lostWrite) store.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lostWrites == nil {
		s.lostWrites = make(map[store.Version]*lostWrite)
	}
	v := store.Version(fmt.Sprintf("fault-%d", len(s.lostWrites)+1))
	s.lostWrites[v] = f
	return v
}

// settling returns a Settle that knows the versions of this decorator: it asks the store
// below for those of its own. A write that was not applied so far is left out there: it
// is not to be found, whatever stands there.
func (s *Store) resolveHandler(next store.Handler) store.Handler {
	return func(ctx context.Context, op *store.Op) error {
		for {
			below, deleted, late, err := s.translate(ctx, op.Writes)
			if err != nil {
				return &store.OpError{Op: op.Kind, Key: op.Key, Store: s.storeName, Err: err}
			}
			asked := *op
			asked.Writes = nil
			for v := range below {
				asked.Writes = append(asked.Writes, v)
			}
			if err := next(ctx, &asked); err != nil {
				return err
			}
			if s.begun(late) {
				continue // what was read may be before it, or after it
			}
			op.Resolved = asked.Resolved
			if v, ok := below[asked.Resolved.Write]; ok {
				op.Resolved.Write = v
			}
			if deleted != "" {
				op.Resolved.Resolution, op.Resolved.Write = store.ResolutionSuperseded, deleted
				if op.Resolved.Current.Version == "" {
					op.Resolved.Resolution = store.ResolutionApplied
				}
			}
			return nil
		}
	}
}

// translate returns the versions of the store below, with those that they stand for,
// the delete that was applied, and the late writes that have not begun. It waits for
// those that have.
func (s *Store) translate(ctx context.Context, writes []store.Version) (below map[store.Version]store.Version, deleted store.Version, late []*lateWrite, err error) {
	below = make(map[store.Version]store.Version)
	for _, v := range writes {
		f := s.lostWrite(v)
		switch {
		case f == nil:
			below[v] = v
			continue
		case f.late != nil && s.begun([]*lateWrite{f.late}):
			select {
			case <-f.late.done:
				f = s.lostWrite(v)
			case <-ctx.Done():
				return nil, "", nil, context.Cause(ctx)
			}
		case f.late != nil:
			late = append(late, f.late)
		}
		if f.version != "" || f.unclear {
			below[f.version] = v
		}
		if f.deleted {
			deleted = v
		}
	}
	return below, deleted, late, nil
}

// fate returns a copy of the fate that a version of this decorator names; nil if it is
// none of them.
func (s *Store) lostWrite(v store.Version) *lostWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.lostWrites[v]; f != nil {
		found := *f
		return &found
	}
	return nil
}

// begun reports whether one of the late writes has begun.
func (s *Store) begun(late []*lateWrite) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(late, func(l *lateWrite) bool { return !slices.Contains(s.late, l) })
}

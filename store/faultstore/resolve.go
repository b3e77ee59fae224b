package faultstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/store"
)

// lostWrite is the true outcome of a write whose call returned an unknown one. The zero
// value was not applied. The store's mutex guards it.
type lostWrite struct {
	version store.Version // that it made, or would have made, in the store below
	deleted bool          // it was a delete, and was applied
	unclear bool          // its outcome is unknown in the store below, which gave no version
	late    *lateWrite    // set if the write is, or was, applied later
}

// lostWriteOf returns the true outcome of a write, from the answer of the store below.
func lostWriteOf(op *store.Op, err error) *lostWrite {
	if err != nil {
		v := store.AttemptedVersion(err)
		return &lostWrite{version: v, unclear: v == "" && store.OutcomeOf(err) == store.Unknown}
	}
	return &lostWrite{version: op.Version, deleted: op.Kind == store.OpDelete}
}

// name returns a version for the error of a write. The decorator makes this version itself,
// since the store below chooses none for a write that has not reached it.
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

// resolveHandler returns a Resolve that knows the versions of this decorator. It passes the
// versions of the store below to that store. It leaves out writes that have not reached
// that store.
func (s *Store) resolveHandler(next store.Handler) store.Handler {
	return func(ctx context.Context, op *store.Op) error {
		for {
			below, deleted, late, err := s.translate(ctx, op.Writes)
			if err != nil {
				return &store.OpError{Op: op.Kind, Key: op.Key, Store: s.storeName, Err: err}
			}
			asked := *op
			asked.Writes = slices.Collect(maps.Keys(below))
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

// translate returns the versions of the store below, each with the version of this
// decorator that it replaces; the delete that was applied; and the late writes that have
// not begun. It waits for late writes that have begun.
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
				return nil, "", nil, store.Cause(ctx)
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

// lostWrite returns a copy of the write that a version of this decorator names; nil if the
// version is not one of this decorator.
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

package s3verstore

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// Resolve implements [store.Resolver], by a Get. An unknown outcome stays unknown: a PUT without an
// answer may become visible later, and may be earlier in the log than a PUT that was answered. The writer
// must treat its write as a write of another program. If the call names no writes, Resolve reports
// whether the register still has the version prev.
func (s *Store) Resolve(ctx context.Context, key string, prev store.Version, writes ...store.Version) (store.ResolveResult, error) {
	for _, v := range append([]store.Version{prev}, writes...) {
		if _, err := parseVersion(v); err != nil {
			return store.ResolveResult{}, s.opError("resolve", key, err)
		}
	}
	value, v, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.ResolveResult{}, err
	}
	found := store.ResolveResult{Current: store.Entry{Key: key, Value: value, Version: v}}
	switch {
	case len(writes) > 0:
	case v == prev:
		found.Resolution = store.ResolutionPending
	default:
		found.Resolution = store.ResolutionNotApplied
	}
	return found, nil
}

package s3verstore

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// Resolve implements [store.Resolver], by a Get. It never says that one of the writes was
// applied, nor that it will not be: a PUT without an answer may have taken its place
// before one that was answered, and show up later. The fate of a write whose outcome is
// unknown stays so, and its writer treats it as another's. Without writes it reports
// whether the register is still in the state prev.
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

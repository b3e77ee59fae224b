package memstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// Resolve implements [store.Resolver]. Every version that this store has returned belongs to a
// write that was applied. The store itself never returns an unknown outcome, but a decorator can:
// for example, one that loses a reply.
func (s *Store) Resolve(ctx context.Context, key string, prev store.Version, writes ...store.Version) (store.ResolveResult, error) {
	r, err := s.get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.ResolveResult{}, &store.OpError{Op: "resolve", Key: key, Store: name, Err: err}
	}
	found := store.ResolveResult{Resolution: store.ResolutionNotApplied, Current: store.Entry{Key: key, Value: r.value, Version: r.version}}
	for _, write := range writes {
		switch {
		case write == "":
			found.Resolution = store.ResolutionUnknown
		case write == r.version:
			found.Resolution, found.Write = store.ResolutionApplied, write
			return found, nil
		case !s.issued(write):
			return store.ResolveResult{}, &store.OpError{Op: "resolve", Key: key, Store: name, Err: fmt.Errorf("%w: %.80q is not a version of this store", store.ErrVersion, write)}
		default:
			found.Resolution, found.Write = store.ResolutionSuperseded, write
			return found, nil
		}
	}
	// A write whose version is not known may have created the absent register, and another
	// may have deleted it.
	if r.version == prev && (found.Resolution == store.ResolutionNotApplied || prev != "") {
		found.Resolution = store.ResolutionPending
	}
	return found, nil
}

// issued reports whether this store has returned a version.
func (s *Store) issued(v store.Version) bool {
	number, _, _ := strings.Cut(string(v), "-")
	n, err := strconv.ParseUint(number, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && n > 0 && n <= s.writes && s.versionOf(n) == v
}

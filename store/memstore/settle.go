package memstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// Settle implements [store.Settler]. Every version that this store has given out is
// that of a write that was applied. Its own writes never have an unknown outcome; those
// whose reply a decorator has lost do.
func (s *Store) Settle(ctx context.Context, key string, prev store.Version, writes ...store.Version) (store.Settlement, error) {
	r, err := s.get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Settlement{}, &store.OpError{Op: "settle", Key: key, Err: err}
	}
	found := store.Settlement{Fate: store.FateNever, Current: store.Entry{Key: key, Value: r.value, Version: r.version}}
	for _, write := range writes {
		switch {
		case write == "":
			found.Fate = store.FateUnknown
		case write == r.version:
			found.Fate, found.Write = store.FateApplied, write
			return found, nil
		case !s.gave(write):
			return store.Settlement{}, &store.OpError{Op: "settle", Key: key, Err: fmt.Errorf("%w: %.80q is none of this store", store.ErrVersion, write)}
		default:
			found.Fate, found.Write = store.FateSuperseded, write
			return found, nil
		}
	}
	// Absent again can be created and deleted, by a write that nobody can name.
	if r.version == prev && (found.Fate == store.FateNever || prev != "") {
		found.Fate = store.FateNotYet
	}
	return found, nil
}

// gave reports whether this store has given out a version.
func (s *Store) gave(v store.Version) bool {
	number, _, _ := strings.Cut(string(v), "-")
	n, err := strconv.ParseUint(number, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	return err == nil && n > 0 && n <= s.writes && s.versionOf(n) == v
}

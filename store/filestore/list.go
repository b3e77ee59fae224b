package filestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/store"
)

// pageSize is how many names a listing holds at a time.
const pageSize = 1 << 16

// maxBad is how many keys that cannot be read a listing names.
const maxBad = 100

// List implements [store.Lister]. It opens the log of each key below prefix. It reads the
// names in pages, so its memory does not depend on the number of keys. If some keys cannot
// be read, List yields an error at its end.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := s.list(ctx, prefix, func(key string) bool { return yield(key, nil) })
		if err != nil {
			yield("", fmt.Errorf("list %q: %w", prefix, err))
		}
	}
}

// errStop ends a listing that its caller leaves early.
var errStop = errors.New("the caller has stopped the listing")

func (s *Store) list(ctx context.Context, prefix string, yield func(string) bool) error {
	below, err := store.Below(prefix)
	if err != nil {
		return err
	}
	var bad []error
	more := 0
	err = s.eachKey(ctx, below, func(key string, v store.Version, err error) error {
		switch {
		case err != nil && len(bad) < maxBad:
			bad = append(bad, fmt.Errorf("%s: %w", key, err))
		case err != nil:
			more++
		case v != "" && !yield(key):
			return errStop
		}
		return nil
	})
	switch {
	case errors.Is(err, errStop):
		return nil
	case err != nil:
		return err
	case more > 0:
		bad = append(bad, fmt.Errorf("%d more keys cannot be read", more))
	}
	return errors.Join(bad...)
}

// eachKey reads the log of each key below a prefix, once, and calls f with the key and its
// version, or with the reason why the log cannot be read. An error of f ends it.
func (s *Store) eachKey(ctx context.Context, prefix string, f func(key string, v store.Version, err error) error) error {
	for last := ""; ; {
		names, err := counted(ctx, s, "", s.begin, func() ([]string, error) { return s.page(ctx, last) })
		if err != nil {
			return explain(err)
		}
		if len(names) == 0 {
			return nil
		}
		last = names[len(names)-1]
		if err := s.readAll(ctx, names, prefix, f); err != nil {
			return err
		}
	}
}

// readAll is eachKey for the keys of directories. It does not wait for one log that is not
// complete: it reads the others first, and waits for all such logs together.
func (s *Store) readAll(ctx context.Context, names []string, prefix string, f func(string, store.Version, error) error) error {
	incomplete := make(map[string]*incompleteScan)
	for try := 0; len(names) > 0; try++ {
		if err := pause(ctx, min(time.Duration(try)*time.Millisecond, maxReadPause)); err != nil {
			return err
		}
		var again []string
		for _, name := range names {
			if err := store.CheckContext(ctx); err != nil {
				return err
			}
			key, whole := decodeKey(name)
			if whole && !strings.HasPrefix(key, prefix) || !whole && !(cut(name) && begins(key, prefix)) {
				continue
			}
			first := cmp.Or(incomplete[name], &incompleteScan{})
			e, err := counted(ctx, s, key, s.begin, func() (store.Entry, error) {
				if whole {
					return s.get(ctx, key, first)
				}
				return s.getLong(ctx, name, first)
			})
			switch {
			case errors.Is(err, errIncomplete):
				incomplete[name] = first
				again = append(again, name)
				continue
			case err == nil && (e.Key == "" || !strings.HasPrefix(e.Key, prefix)):
				continue
			case errors.Is(err, store.ErrClosed), errors.Is(err, errVanished):
				return err // every other key would fail in the same way
			}
			if err := f(cmp.Or(e.Key, key), e.Version, err); err != nil {
				return err
			}
		}
		names = again
	}
	return nil
}

// page lists the directories of keys, in their order: those whose names come after a name, but
// no more than a page.
func (s *Store) page(ctx context.Context, after string) (names []string, err error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := s.lost(); err != nil {
		return nil, err
	}
	last := "" // of a full page
	shorten := func() {
		slices.Sort(names)
		names = slices.Compact(names)
		if len(names) >= s.limits.page {
			names = names[:s.limits.page]
			last = names[len(names)-1]
		}
	}
	err = safefile.EachName(s.root, keysDir, math.MaxInt, func(name string) {
		if len(name) > maxName || name <= after || last != "" && name >= last {
			return
		}
		if names = append(names, name); len(names) >= 2*s.limits.page {
			shorten()
		}
	})
	if notExist(err) {
		return nil, nil
	}
	shorten()
	return names, err
}

// readBounded reads a file that was just opened, unless it is larger than limit bytes.
func readBounded(f *os.File, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%w: the file has more than %d bytes", store.ErrCorrupt, limit)
	}
	return text, err
}

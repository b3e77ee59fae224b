package filestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/fold"
	"github.com/holdfast-go/holdfast/store"
)

// List implements [store.Lister]. It opens the log of each key below prefix.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := s.list(ctx, prefix, func(key string) bool { return yield(key, nil) })
		if err != nil {
			yield("", fmt.Errorf("list %q: %w", prefix, err))
		}
	}
}

func (s *Store) list(ctx context.Context, prefix string, yield func(string) bool) error {
	if prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			return err
		}
		prefix += "/"
	}
	names, err := s.dirNames(ctx)
	if err != nil {
		return explain(err)
	}
	slices.Sort(names)
	var bad []error // of keys that could not be read; the others are listed all the same
	for _, name := range slices.Compact(names) {
		if err := store.CheckContext(ctx); err != nil {
			return err
		}
		key, ok := decodeKey(name)
		if !ok && cut(name) {
			key, ok = s.longKey(name)
		}
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		v, err := s.version(ctx, key)
		if errors.Is(err, store.ErrClosed) || errors.Is(err, errVanished) {
			return err // of the others the same would be said
		}
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", key, err))
		}
		if v != "" && !yield(key) {
			return nil
		}
	}
	return errors.Join(bad...)
}

// dirNames lists the directories of all keys.
func (s *Store) dirNames(ctx context.Context) ([]string, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	if err := s.lost(); err != nil {
		return nil, err
	}
	names, err := s.names(keysDir)
	if gone(err) {
		return nil, nil
	}
	return names, err
}

// longKey reads the key of a directory whose name was cut from one of its files.
func (s *Store) longKey(name string) (key string, ok bool) {
	if s.begin() != nil {
		return "", false
	}
	defer s.end()
	dir := keysDir + "/" + name
	names, err := s.names(dir)
	if err != nil {
		return "", false
	}
	for _, file := range names {
		if segmentNumber(file) == 0 {
			continue
		}
		data, err := s.readFile(dir + "/" + file)
		if err != nil {
			continue
		}
		fold.Scan(data, func(e fold.Entry) {
			if key == "" && e.Kind == kindKey && json.Unmarshal(e.Value, &key) != nil {
				key = ""
			}
		})
		if store.CheckKey(key) == nil && encodeKey(key) == name {
			return key, true
		}
	}
	return "", false
}

// readFile reads a file of the store, and nothing else that lies in its place.
func (s *Store) readFile(name string) ([]byte, error) {
	f, err := s.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a file", store.ErrCorrupt, name)
	}
	return io.ReadAll(f)
}

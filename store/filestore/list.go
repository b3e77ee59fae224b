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
	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/store"
)

// maxKeys is how many names one listing reads.
const maxKeys = 1 << 20

// List implements [store.Lister]. It opens the log of each key below prefix.
// It fails with an error that matches [store.ErrTooLarge] where the store has more than
// 1,048,576 keys.
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
	if errors.Is(err, trust.ErrTooMany) {
		return fmt.Errorf("%w: the store holds more than %d keys, the most that a listing reads", store.ErrTooLarge, s.limits.keys)
	}
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
			return err // every other key would fail in the same way
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
	var names []string
	err := trust.EachName(s.root, keysDir, s.limits.keys, func(name string) {
		if len(name) <= maxName {
			names = append(names, name)
		}
	})
	if notExist(err) {
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
	dir, _, err := trust.OpenBelow(s.root, keysDir+"/"+name)
	if err != nil {
		return "", false
	}
	defer dir.Close()
	var files []string
	_ = trust.EachName(dir, ".", maxSegments, func(name string) { // an incomplete list is good enough
		if segmentNumber(name) > 0 {
			files = append(files, name)
		}
	})
	for _, file := range files {
		if key, ok := keyOf(dir, file); ok && encodeKey(key) == name {
			return key, true
		}
	}
	return "", false
}

// keyOf reads the key that stands at the start of a segment.
func keyOf(dir *os.Root, file string) (key string, ok bool) {
	f, _, err := trust.OpenFile(dir, file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	start := make([]byte, 8<<10) // a key is at most 512 bytes, which JSON can make 3 KiB
	n, err := f.ReadAt(start, 0)
	if err != nil && err != io.EOF {
		return "", false
	}
	fold.Scan(start[:n], func(e fold.Entry) {
		if key == "" && e.Kind == kindKey && json.Unmarshal(e.Value, &key) != nil {
			key = ""
		}
	})
	return key, store.CheckKey(key) == nil
}

// readBounded reads a file that was just opened, unless it is larger than limit bytes.
func readBounded(f *os.File, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%w: the file has more than %d bytes", store.ErrCorrupt, limit)
	}
	return text, err
}

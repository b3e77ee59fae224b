package certstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Load returns the value of a key. If the key is absent, the error matches fs.ErrNotExist. If its register contains
// something else, or has a newer format, the error matches store.ErrCorrupt.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	r, err := s.read(ctx, "load", key)
	return r.value, err
}

func (s *Storage) read(ctx context.Context, op, key string) (r record, err error) {
	name, err := nameOf(cleaned(key))
	if err == nil {
		var data []byte
		data, _, err = s.values.Get(ctx, name)
		switch {
		case errors.Is(err, store.ErrNotFound):
			err = fs.ErrNotExist
		case err != nil:
			return r, err
		default:
			r, err = parse(name, data)
		}
	}
	if err != nil {
		return record{}, &fs.PathError{Op: op, Path: key, Err: err}
	}
	return r, nil
}

// Stat describes a key, or a directory with keys below it. Modified is the time of the last write by the clock of its
// writer. Of a directory it is zero. If there is neither, the error matches fs.ErrNotExist.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	r, err := s.read(ctx, "stat", key)
	if err == nil {
		return certmagic.KeyInfo{Key: key, Modified: r.Modified, Size: int64(len(r.value)), IsTerminal: true}, nil
	}
	clean := cleaned(key)
	if clean == "" {
		return certmagic.KeyInfo{Key: key}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		for _, err := range s.below(ctx, clean) {
			return certmagic.KeyInfo{Key: key}, err
		}
	}
	return certmagic.KeyInfo{}, err
}

// Exists reports whether a key exists, or a directory with keys below it. It repeats failed reads for up to ten
// seconds, and then returns false. For a register that cannot be read as a value, it returns true: so certmagic does
// not order a certificate that it cannot store.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	err := retry(ctx, shortTimeout, func(ctx context.Context) error {
		_, err := s.Stat(ctx, key)
		return err
	})
	return err == nil || errors.Is(err, store.ErrCorrupt)
}

// retry repeats a call that failed, until a time is over.
func retry(ctx context.Context, most time.Duration, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		err := call(ctx)
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, lease.ErrLost) || store.Permanent(err) {
			return err
		}
		if backoff.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// List returns the keys and the directories that are directly in a directory; with recursive, those in directories
// below it, too. The result is sorted. If there is no such key or directory, the error matches fs.ErrNotExist.
func (s *Storage) List(ctx context.Context, path string, recursive bool) ([]string, error) {
	start := cleaned(path)
	from := len(start)
	if from > 0 {
		from++ // the slash
	}
	found := map[string]bool{}
	for key, err := range s.below(ctx, start) {
		if err != nil {
			return nil, err
		}
		end := from
		for rest := key[from:]; rest != ""; {
			var name string
			name, rest, _ = strings.Cut(rest, "/")
			end += len(name)
			found[key[:end]] = true
			if end++; !recursive {
				break
			}
		}
	}
	if len(found) == 0 {
		if _, err := s.Stat(ctx, path); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// below yields the keys below a clean key.
func (s *Storage) below(ctx context.Context, key string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for name, err := range store.List(ctx, s.values, listedDir(key)) {
			found := name
			if err == nil && len(name) > maxPlain {
				var data []byte
				if data, _, err = s.values.Get(ctx, name); errors.Is(err, store.ErrNotFound) {
					continue
				}
				if err == nil {
					var r record
					r, err = parse(name, data)
					found = r.Key
				}
			}
			if err == nil && key != "" && !strings.HasPrefix(found, key+"/") {
				continue
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
	}
}

// Store writes the value of a key. The last writer wins, except as the package comment says: then the error matches
// lease.ErrLost. If the value is too large, the error matches store.ErrTooLarge. Store repeats a failed write for up to
// 30 seconds. If its outcome is unknown then, store.OutcomeOf of the error says so.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	return s.write(ctx, "store", cleaned(key), value)
}

// Delete deletes a key and all keys below it. It deletes one key after the other, each within 30 seconds: if Delete
// returns an error, some of the keys may be deleted. It does not delete the root. Errors are as in Store.
func (s *Storage) Delete(ctx context.Context, key string) error {
	key = cleaned(key)
	keys := []string{key}
	for found, err := range s.below(ctx, key) {
		if err != nil {
			return err
		}
		keys = append(keys, found)
	}
	for _, key := range keys {
		if err := s.write(ctx, remove, key, nil); err != nil {
			return err
		}
	}
	return nil
}

// remove is the operation of [Storage.Delete].
const remove = "delete"

// write replaces or deletes the content of the register of a clean key.
func (s *Storage) write(ctx context.Context, op, key string, value []byte) error {
	return retry(ctx, writeTimeout, func(ctx context.Context) error { return s.tryWrite(ctx, op, key, value) })
}

// tryWrite is like write, and ends with the first error. But it repeats the write if another writer was faster.
func (s *Storage) tryWrite(ctx context.Context, op, key string, value []byte) error {
	refuse := func(err error) error { return store.MarkNotApplied(&fs.PathError{Op: op, Path: key, Err: err}) }
	name, err := nameOf(key)
	if err != nil {
		return refuse(err)
	}
	content, version, err := s.values.Get(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.MarkNotApplied(err)
	}
	for {
		var r record
		if version != "" {
			if r, err = parse(name, content); err != nil && op != remove {
				return refuse(err)
			}
		} else if op == remove {
			return nil
		}
		lock, token, err := s.lockOfKey(key)
		if err == nil && lock != "" && r.Lock == lock && r.Token > token {
			err = fmt.Errorf("%w: a later holder of the lock has written it", lease.ErrLost)
		}
		if err != nil {
			return refuse(err)
		}
		var result store.ResolveResult
		if op == remove {
			result, err = store.DeleteAndResolve(ctx, s.values, name, version)
		} else {
			if content, err = r.replaced(key, value, lock, token); err != nil {
				return refuse(err)
			}
			result, err = store.PutAndResolve(ctx, s.values, name, version, content)
		}
		if err != nil || result.Resolution != store.ResolutionNotApplied {
			return err
		}
		content, version = result.Current.Value, result.Current.Version
	}
}

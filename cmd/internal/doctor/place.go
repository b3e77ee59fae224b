package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// ownDirs are the first segments of the keys of locks, sessions and checkpoints. A store whose prefix
// contains such a segment has the same registers as the store that ends before this segment.
var ownDirs = []string{"lock", "lock.session", "checkpoint"}

// The most keys that place lists, and the most registers that it reads.
const (
	placeKeys  = 1000
	placeReads = 20
)

// place checks whether another store of the same kind has some of the registers of this store. A lock has
// different names in the two stores, and its record has only one. So each store refuses the locks of the
// other store as unreadable.
func (r *registers) place(ctx context.Context, c Check) []Check {
	const useOther = "each of the two stores refuses records of the other store: use a prefix that is not inside another store"
	if r.whole == nil { // a directory; see [directory.nested]
		return nil
	}
	prefix := strings.Split(store.TraitsOf(r.whole).Prefix, "/")
	if i := slices.IndexFunc(prefix, own); i >= 0 {
		return c.Warn(fmt.Sprintf("the prefix contains %q, so a store with the prefix %q has the same records", prefix[i], strings.Join(prefix[:i], "/")), useOther)
	}
	for _, dir := range ownDirs {
		inner, err := r.innerStore(ctx, dir)
		switch {
		case errors.Is(err, errors.ErrUnsupported), errors.Is(err, store.ErrDenied): // "list-registers" reports it
			return c.OK("not searched, because this needs a listing")
		case err != nil:
			return r.Failed(c, err)
		case inner != "":
			return c.Warn(fmt.Sprintf("another store has the prefix %q below this store", inner), useOther)
		}
	}
	return c.OK("none found")
}

func own(segment string) bool { return slices.Contains(ownDirs, segment) }

// innerStore returns the prefix of a store whose registers are among those below dir; empty if there is
// none.
func (r *registers) innerStore(ctx context.Context, dir string) (string, error) {
	listed, read := 0, 0
	for key, err := range store.List(ctx, r.whole, dir) {
		if listed++; err != nil && !errors.Is(err, store.ErrCorrupt) {
			return "", err
		}
		if listed > placeKeys || read >= placeReads {
			break
		}
		segments := strings.Split(key, "/")
		if err != nil || !slices.ContainsFunc(segments[1:], own) {
			continue
		}
		read++
		value, _, err := r.whole.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			continue
		}
		if err != nil {
			return "", err
		}
		var record struct{ Name, Key string } // of a lock, and of a checkpoint
		if json.Unmarshal(value, &record) != nil {
			continue
		}
		for i := 1; i < len(segments)-1; i++ {
			if name := strings.Join(segments[i+1:], "/"); own(segments[i]) && (name == record.Name || name == record.Key) {
				return strings.Join(segments[:i], "/"), nil
			}
		}
	}
	return "", nil
}

// storeParts are directories that each directory of a store has, or gets.
var storeParts = []string{"k", "alive", "wake", "tmp"}

// nested checks whether the directory is inside a part of another store, or another store is inside a part
// of it. The outer store takes the files of the inner store for its own keys.
func (p *directory) nested(_ context.Context, c Check) []Check {
	const useOther = "the outer store takes the files of the inner store for its own, and a sweep can remove them: use a directory that is not inside a store"
	root, err := filepath.Abs(p.root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return p.e.Failed(c, err)
	}
	for dir := root; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if outer := filepath.Dir(dir); slices.Contains(storeParts, filepath.Base(dir)) && isStore(outer) {
			return c.Unsafe("the directory is inside the store file:"+outer, useOther)
		}
	}
	for _, part := range storeParts {
		if inner := filepath.Join(root, part); isStore(inner) {
			return c.Unsafe("the store file:"+inner+" is inside this store", useOther)
		}
	}
	return c.OK("none found")
}

// isStore reports whether a directory seems to be a store.
func isStore(dir string) bool {
	return !slices.ContainsFunc(storeParts[:2], func(part string) bool {
		info, err := os.Lstat(filepath.Join(dir, part))
		return err != nil || !info.IsDir()
	})
}

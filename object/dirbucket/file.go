package dirbucket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// write makes a new file, fills it, and makes it durable: the bytes, and the name.
func (b *Bucket) write(fill func(*os.File) (int64, error)) (name string, size int64, err error) {
	name = newName()
	path := b.path(name)
	if err := makeLike(filepath.Dir(path), b.mode); err != nil {
		return "", 0, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, b.mode&0o666)
	if err != nil {
		return "", 0, err
	}
	err = f.Chmod(b.mode & 0o666) // whatever the umask
	if err == nil {
		size, err = fill(f)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		b.remove(name)
		return "", 0, err
	}
	return name, size, nil
}

// makeLike makes a directory with this mode, durably, unless it is there.
func makeLike(dir string, mode os.FileMode) error {
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(dir, mode) // whatever the umask
	}
	if err == nil {
		err = syncDir(filepath.Dir(dir))
	}
	return err
}

// syncDir makes the names in a directory durable. Windows has no such call, and
// needs none.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove removes a file that nothing names any more. If that fails, Sweep does it.
func (b *Bucket) remove(name string) {
	if name != "" {
		_ = os.Remove(b.path(name))
	}
}

// Sweep removes files that nothing names and that are older than the grace: what
// killed processes left behind. It returns how many it removed. It may run while the
// bucket is in use, and holds the names of all bodies in memory.
func (b *Bucket) Sweep(ctx context.Context) (removed int, err error) {
	// What is old now and unnamed in a later look can never be named again, since a
	// put gives up long before its file is that old.
	old, err := b.oldFiles(ctx)
	if err != nil || len(old) == 0 {
		return 0, err
	}
	for key, err := range store.List(ctx, b.index, "") {
		if err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		value, _, err := b.index.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("sweep: %w", err)
		}
		e, err := decode(value)
		if err != nil {
			return 0, fmt.Errorf("sweep: %q: %w", key, err)
		}
		delete(old, e.File)
	}
	for name := range old {
		err := os.Remove(b.path(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("sweep: %w", err)
		}
		removed++
	}
	return removed, nil
}

// oldFiles returns the names of all files that are older than the grace.
func (b *Bucket) oldFiles(ctx context.Context) (map[string]bool, error) {
	old := make(map[string]bool)
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		rel, relErr := filepath.Rel(b.dir, path)
		if err = errors.Join(err, relErr); err != nil {
			return err
		}
		// Only what this package may have made: two characters, a slash, the rest.
		name := filepath.ToSlash(rel)
		if !d.Type().IsRegular() || len(name) != len(newName())+1 || name[2] != '/' {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && time.Since(info.ModTime()) > b.grace {
			old[name[:2]+name[3:]] = true
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	return old, nil
}

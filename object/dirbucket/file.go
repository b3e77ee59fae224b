package dirbucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/internal/indexed"
	"github.com/holdfast-go/holdfast/store"
)

// files are the bodies: files in a directory.
type files struct {
	dir       string
	root      *os.Root    // of dir
	info      os.FileInfo // of root
	reading   bool        // Options.ReadOnly
	inherited inherited   // mode and owner of what is made in dir

	mu     sync.Mutex
	synced map[string]bool // the directories in dir whose names this process has made durable
}

var _ indexed.Bodies = (*files)(nil)

// Write makes a new file, fills it, and makes it durable: the bytes, and the name.
func (b *files) Write(ctx context.Context, name string, body io.Reader, o object.PutOptions) (size int64, err error) {
	if err := b.lost(); err != nil {
		return 0, err
	}
	f, err := b.create(name)
	if err != nil {
		return 0, safefile.Explain(err)
	}
	if err = b.inherited.apply(f, 0o666); err == nil {
		size, err = io.Copy(f, body)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = syncDir(b.root, name[:2])
	}
	if err == nil {
		err = b.syncNames(name[:2])
	}
	if err != nil {
		b.Remove(ctx, name)
		return 0, safefile.Explain(err)
	}
	o.Progress.Report(size, size)
	return size, nil
}

// Copy copies a file.
func (b *files) Copy(ctx context.Context, from, name string, size int64, _ object.Progress) error {
	r, err := b.Open(ctx, from, size, 0, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = b.Write(ctx, name, r, object.PutOptions{})
	return err
}

// Open opens a file.
func (b *files) Open(_ context.Context, name string, size, offset, length int64) (io.ReadCloser, error) {
	f, stat, err := safefile.OpenFile(b.root, path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", store.ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, safefile.Explain(err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	case stat.Size() != size:
		f.Close()
		return nil, fmt.Errorf("%w: the file of the object has %d bytes, but must have %d", store.ErrCorrupt, stat.Size(), size)
	}
	if length == 0 || length > size-offset {
		length = size - offset
	}
	return &section{io.NewSectionReader(f, offset, length), f, length}, nil
}

// section is a part of a file. One that ends early is an error.
type section struct {
	r    io.Reader
	file io.Closer
	left int64
}

func (s *section) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.left -= int64(n)
	if err == io.EOF && s.left > 0 {
		err = fmt.Errorf("%w: the file of the object became shorter during the read", store.ErrCorrupt)
	}
	return n, err
}

func (s *section) Close() error { return s.file.Close() }

// Exists reports whether there is such a file.
func (b *files) Exists(_ context.Context, name string) (bool, error) {
	_, err := b.root.Stat(path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// create makes the file of a body, and its directory.
func (b *files) create(name string) (f *os.File, err error) {
	for range 10 {
		if err = makeLike(b.root, name[:2], b.inherited); err == nil {
			f, err = b.root.OpenFile(path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		}
		// Another process may just have replaced the directory by its own empty one.
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, os.ErrClosed) {
		err = store.ErrClosed
	}
	return f, err
}

// lost returns an error if nothing may be written: the directory of the bodies is no longer
// the one that was opened, and another process would not find the files that are written there.
func (b *files) lost() error {
	if b.reading {
		return fmt.Errorf("%w: the bucket was opened with ReadOnly", store.ErrInvalid)
	}
	info, err := os.Stat(b.dir)
	if err == nil && os.SameFile(info, b.info) {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: the directory of the bucket was removed, moved or unmounted while in use; open it again", store.ErrUnavailable), err)
}

// inherited is what new files and directories inherit from the directory: mode, owner and
// group.
type inherited struct {
	mode         os.FileMode
	owner, group int // -1: unchanged
}

// inheritedFrom returns what is inherited from a directory. What root makes in the
// directory of another user belongs to that user, and what is made in a directory that a
// group may write belongs to the group.
func inheritedFrom(info os.FileInfo) inherited {
	g := inherited{info.Mode().Perm(), -1, -1}
	owner := safefile.OwnerOf(info)
	if owner > 0 && os.Geteuid() == 0 {
		g.owner, g.group = owner, safefile.GroupOf(info)
	}
	if owner >= 0 && g.mode&0o020 != 0 {
		g.mode, g.group = g.mode|info.Mode()&fs.ModeSetgid, safefile.GroupOf(info)
	}
	return g
}

// apply gives a new file or directory what it inherits.
func (g inherited) apply(f *os.File, mask os.FileMode) error {
	return safefile.Give(f, g.owner, g.group, g.mode&mask)
}

// syncNames makes the names durable that lead to the files in a directory: the process that
// made them may have been killed before it did, or may be about to.
func (b *files) syncNames(sub string) error {
	b.mu.Lock()
	done := b.synced[sub]
	b.mu.Unlock()
	if done {
		return nil
	}
	if err := syncDir(b.root, "."); err != nil {
		return err
	}
	// The directory of a bucket that Open has made is the parent.
	for _, dir := range []string{filepath.Dir(b.dir), filepath.Dir(filepath.Dir(b.dir))} {
		// One that this process may not read was not made by it. The file system outside may
		// be one that cannot do it.
		err := syncOutside(dir)
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.synced[sub] = true
	return nil
}

// makeLike makes a directory, durably, unless it exists.
func makeLike(parent *os.Root, name string, g inherited) error {
	if info, err := parent.Lstat(name); err == nil && info.IsDir() {
		return nil
	}
	var err error
	if g.owner < 0 && g.mode&0o077 == 0 {
		err = parent.Mkdir(name, g.mode)
	} else {
		err = safefile.GiveDir(parent, stagePrefix+rand.Text(), name, func(f *os.File) error {
			return g.apply(f, 0o777|fs.ModeSetgid)
		})
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = syncDir(parent, ".")
	}
	return err
}

// stagePrefix starts the names of directories that are being made.
const stagePrefix = "tmp-"

// syncDir makes the names in a directory durable.
func syncDir(parent *os.Root, name string) error {
	onSync(filepath.Join(parent.Name(), name))
	return safefile.SyncBelow(parent, name)
}

// syncOutside is syncDir for a directory that is not below the bucket's.
func syncOutside(dir string) error {
	onSync(dir)
	return safefile.SyncDir(dir)
}

// onSync is called with each directory that is to be made durable; for tests.
var onSync = func(dir string) {}

// Remove removes a file that no register names any more. If that fails, the sweep does it.
func (b *files) Remove(_ context.Context, name string) { _ = b.root.Remove(path(name)) }

// Sweep removes a file that no register names.
func (b *files) Sweep(_ context.Context, name string) error {
	if err := b.lost(); err != nil {
		return err
	}
	if err := b.root.Remove(path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return safefile.Explain(err)
	}
	return nil
}

// path spreads the files over 32*32 directories.
func path(name string) string { return name[:2] + "/" + name[2:] }

// maxSweep is how many names of a directory one sweep looks at. The next sweep looks at
// the others.
const maxSweep = 100_000

// OlderThan yields the names of all files that are older than age. It removes directories that
// killed processes had not finished.
func (b *files) OlderThan(ctx context.Context, age func() time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var dirs []string
		err := safefile.EachName(b.root, ".", maxSweep, func(name string) { dirs = append(dirs, name) })
		if err != nil && !errors.Is(err, safefile.ErrTooMany) {
			yield("", err)
			return
		}
		for _, dir := range dirs {
			var old []string
			var err error
			if random, ok := strings.CutPrefix(dir, stagePrefix); ok && safefile.IsRandom(random) {
				b.removeStage(dir, age())
			} else if len(dir) == 2 {
				old, err = b.oldIn(dir, age)
			}
			if ctx.Err() != nil {
				err = store.Cause(ctx)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, safefile.ErrTooMany) {
				yield("", err)
				return
			}
			for _, name := range old {
				if !yield(name, nil) {
					return
				}
			}
		}
	}
}

// oldIn returns the names of the old files in a directory.
func (b *files) oldIn(name string, age func() time.Duration) (old []string, err error) {
	dir, _, err := safefile.OpenBelow(b.root, name)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, nil // this package makes no such file
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	err = safefile.EachName(dir, ".", maxSweep, func(rest string) {
		// Only what this package may have made.
		if !safefile.IsRandom(name + rest) {
			return
		}
		if info, err := dir.Lstat(rest); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > age() {
			old = append(old, name+rest)
		}
	})
	return old, err
}

// removeStage removes an old directory in which another one was being made, if both are
// empty.
func (b *files) removeStage(name string, age time.Duration) {
	dir, info, err := safefile.OpenBelow(b.root, name)
	if err != nil {
		return
	}
	defer dir.Close()
	if time.Since(info.ModTime()) <= age {
		return
	}
	var inner []string
	_ = safefile.EachName(dir, ".", 1, func(n string) { inner = append(inner, n) })
	for _, n := range inner {
		if info, err := dir.Lstat(n); err == nil && info.IsDir() && safefile.IsRandom(n) {
			_ = dir.Remove(n)
		}
	}
	_ = b.root.Remove(name)
}

// Package dirbucket keeps objects in a directory, with every condition of package
// object.
//
// # How
//
// A body is a file that is written once, under a unique name, and never changed. The
// index, a [store.Store], has a register for each key that names the file of its body.
// For the processes of one machine the index is a filestore beside the files; for
// machines that share the directory it can be any other store. A put writes the file and
// makes it durable, then swaps the register. So a change has the outcome of that one
// write, readers see whole bodies, and every version is unique.
//
// The file that a put or a delete replaces is removed afterwards. A process that is
// killed in between leaves a file that nothing names; [Bucket.Sweep] removes such
// files after a day.
//
// New directories get the mode 0700, and their files 0600. In an existing directory, new
// files and directories get its mode: that of a group, for example. A directory that
// users who are not trusted with it could change is refused; see [Options].
package dirbucket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/internal/indexed"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

const (
	// DefaultOrphanAge is how old a file that nothing names must be to be swept.
	DefaultOrphanAge = 24 * time.Hour

	// MinOrphanAge is the shortest grace.
	MinOrphanAge = time.Minute
)

// Options are the options of [New].
type Options struct {
	// OrphanAge is how old a file that no register names must be before Sweep removes it. A
	// put that takes longer than half of it, from its first byte to the swap of the
	// register, fails. At least [MinOrphanAge]; 0 means [DefaultOrphanAge]. All users of one
	// directory must use the same.
	OrphanAge time.Duration

	// AllowNetwork lets [Open] use a file system that is not known to be local; see
	// [filestore.Options]. New ignores it.
	AllowNetwork bool

	// Unsafe lists the accepted risks of the directory; see [filestore.Options].
	Unsafe []string

	// ReadOnly lets [Open] use a bucket only to read it, and makes nothing; see
	// [filestore.Options]. New ignores it.
	ReadOnly bool
}

// Bucket is a space of objects in a directory. It may be used by any number of
// goroutines, and starts none. It implements [object.Bucket] and [object.Copier]. Its
// Sweep removes files that no register names and that are older than the grace, and
// returns how many it removed; with [Open] also what is left of objects that were deleted that
// long ago. Its memory does not depend on the number of objects; it may leave a few files to the
// next sweep.
type Bucket struct {
	*objects
	files *files
	name  string
	own   *filestore.Store // the index, if Open opened it
	index store.Store
}

type objects = indexed.Bucket

var (
	_ object.Bucket    = (*Bucket)(nil)
	_ object.Copier    = (*Bucket)(nil)
	_ object.Describer = (*Bucket)(nil)
)

// Open returns the bucket in dir, and makes dir if it does not exist. Bodies are in
// dir/data, and the index is a filestore in dir/index. The caller closes the bucket.
func Open(dir string, opts *Options) (*Bucket, error) {
	fileOpts := &filestore.Options{}
	if opts != nil {
		fileOpts.AllowNetwork, fileOpts.Unsafe, fileOpts.ReadOnly = opts.AllowNetwork, opts.Unsafe, opts.ReadOnly
	}
	if !fileOpts.ReadOnly {
		if err := makeDirs(dir); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", trust.Explain(err))
		}
	}
	if err := trust.CheckNames(fileOpts.Unsafe); err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	root, info, err := trust.OpenDir(dir, fileOpts.ReadOnly, fileOpts.Unsafe)
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", trust.Explain(err))
	}
	defer root.Close()
	for _, sub := range []string{"data", "index"} {
		if fileOpts.ReadOnly {
			break
		}
		if err := makeLike(root, sub, inheritedFrom(info)); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", trust.Explain(err))
		}
	}
	data, index := filepath.Join(dir, "data"), filepath.Join(dir, "index")
	s, err := filestore.Open(index, fileOpts)
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	b, err := newBucket(data, s, opts, !fileOpts.AllowNetwork, fileOpts.ReadOnly)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	b.own, b.name = s, "dir:"+dir
	return b, nil
}

// Exists reports whether [Open] has made a bucket in dir. It changes nothing.
func Exists(dir string) (bool, error) {
	for _, sub := range []string{"data", "index"} {
		info, err := os.Stat(filepath.Join(dir, sub))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.IsDir() {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("dirbucket: %w", err)
		}
	}
	return true, nil
}

// Close closes the index, if Open opened it. Afterwards every call fails.
func (b *Bucket) Close() error {
	if b.own == nil {
		return nil
	}
	return errors.Join(b.own.Close(), b.files.root.Close())
}

// New returns the bucket with its bodies in dir and its index in the given store. It
// makes dir if it does not exist. The index needs a space of registers without other
// users; see [store.Prefix].
func New(dir string, index store.Store, opts *Options) (*Bucket, error) {
	return newBucket(dir, index, opts, false, false)
}

// newBucket is New. With oneClock, only this machine uses the bucket.
func newBucket(dir string, index store.Store, opts *Options, oneClock, reading bool) (*Bucket, error) {
	grace := DefaultOrphanAge
	if opts != nil && opts.OrphanAge != 0 {
		grace = opts.OrphanAge
	}
	if grace < MinOrphanAge {
		return nil, fmt.Errorf("dirbucket: Options.OrphanAge is %v, at least %v is needed", grace, MinOrphanAge)
	}
	if !reading {
		if err := makeDirs(dir); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", err)
		}
	}
	var unsafe []string
	if opts != nil {
		unsafe = opts.Unsafe
	}
	f := &files{dir: dir, reading: reading, synced: make(map[string]bool)}
	err := trust.CheckNames(unsafe)
	if err == nil {
		f.root, f.info, err = trust.OpenDir(dir, reading, unsafe)
	}
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	f.inherited = inheritedFrom(f.info)
	return &Bucket{objects: indexed.New("dir:"+dir, index, f, grace, oneClock), files: f, name: "dir:" + dir, index: index}, nil
}

// Traits implements [object.Describer].
func (b *Bucket) Traits() object.Traits {
	of, id := store.TraitsOf(b.index), ""
	if of.ID != "" {
		id = "dir:" + of.ID + "#" + of.Prefix // the index decides which objects exist
	}
	return object.Traits{Name: b.name, ID: id, Local: of.Local, Trusted: true, UniqueVersions: true}
}

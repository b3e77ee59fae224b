// Package dirbucket stores objects in a directory, and supports every condition of package object.
// Use it for programs on one machine, and for tests.
//
// # Use
//
//	bucket, err := dirbucket.Open("/var/lib/app/objects", nil)
//	defer bucket.Close()
//	client, err := object.New(bucket, nil) // see package object
//
// Call Sweep once a day: it removes files that crashed processes have left. [Exists] reports
// whether there is a bucket in a directory. If several machines share the directory, use [New], and
// pass an index in another store.
//
// New directories have the mode 0700, and their files 0600. If the directory exists, new files
// and directories get the mode of the directory. So a group can share it. Open refuses a
// directory that untrusted users could change; see [Options].
//
// # How it works
//
// A body is a file with a unique name. It is written once and never changed. The index is a
// [store.Store]. It has a register for each key, which names the file of the body. For the
// processes of one machine the index is a filestore in the same directory. A put writes the file
// and makes it durable, then changes the register by one write. So a put has the outcome of this
// one write, readers see whole bodies, and every version is unique.
//
// Then the put or delete removes the old file. If the process is killed before that, the old file
// remains. Sweep removes such files after a day.
package dirbucket

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/internal/indexed"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// OrphanAge is the age at which Sweep removes a file that no register names. If a put takes longer
// than half of OrphanAge, from its first byte to the write of the register, the put fails.
const OrphanAge = 24 * time.Hour

// Options are the options of [Open].
type Options struct {
	// AllowNetwork allows a file system that may be a network file system; see [filestore.Options].
	AllowNetwork bool

	// Unsafe lists the risks of the directory that the caller accepts; see [filestore.Options].
	Unsafe []string

	// With ReadOnly, Open opens a bucket only for reads, and creates nothing; see
	// [filestore.Options].
	ReadOnly bool
}

// Bucket contains the objects in a directory. Any number of goroutines may use it. It starts no
// goroutine. It implements [object.Bucket] and [object.Copier].
//
// The method Sweep removes files that no register names and that are older than [OrphanAge]. It
// returns the number of removed files. If [Open] opened the bucket, Sweep also removes the
// registers of objects that were deleted longer ago than OrphanAge. Sweep may run while the bucket
// is in use. Its memory does not depend on the number of objects. It may leave a few files for the
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

// Open returns the bucket in a directory, and creates the directory if it does not exist. The
// bodies are in the subdirectory "data", and the index is a filestore in the subdirectory "index".
// The caller must close the bucket.
func Open(dir string, opts *Options) (*Bucket, error) {
	o := *cmp.Or(opts, &Options{})
	if !o.ReadOnly {
		if err := safefile.MakeDirs(dir, syncOutside); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", safefile.Explain(err))
		}
	}
	if err := safefile.CheckNames(o.Unsafe); err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	root, info, err := safefile.OpenDir(dir, o.ReadOnly, o.Unsafe)
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", safefile.Explain(err))
	}
	defer root.Close()
	for _, sub := range []string{"data", "index"} {
		if o.ReadOnly {
			break
		}
		if err := makeLike(root, sub, inheritedFrom(info)); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", safefile.Explain(err))
		}
	}
	data, index := filepath.Join(dir, "data"), filepath.Join(dir, "index")
	s, err := filestore.Open(index, &filestore.Options{AllowNetwork: o.AllowNetwork, Unsafe: o.Unsafe, ReadOnly: o.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	b, err := newBucket(data, s, o, !o.AllowNetwork)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	b.own, b.name = s, "dir:"+dir
	return b, nil
}

// Exists reports whether [Open] has created a bucket in the directory. It changes nothing.
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

// Close closes the index if the bucket is from Open. Afterwards every call fails.
func (b *Bucket) Close() error {
	if b.own == nil {
		return nil
	}
	return errors.Join(b.own.Close(), b.files.root.Close())
}

// New returns a bucket whose bodies are in a directory, and whose registers are in the store passed
// as index. If the directory does not exist, New creates it. No other program may write registers
// into the index. To share a store, pass a prefix of it; see [store.Prefix].
func New(dir string, index store.Store) (*Bucket, error) {
	return newBucket(dir, index, Options{}, false)
}

// newBucket is New. With oneClock, only this machine uses the bucket.
func newBucket(dir string, index store.Store, o Options, oneClock bool) (*Bucket, error) {
	if !o.ReadOnly {
		if err := safefile.MakeDirs(dir, syncOutside); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", err)
		}
	}
	f := &files{dir: dir, reading: o.ReadOnly, synced: make(map[string]bool)}
	var err error
	if f.root, f.info, err = safefile.OpenDir(dir, o.ReadOnly, o.Unsafe); err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	f.inherited = inheritedFrom(f.info)
	return &Bucket{objects: indexed.New("dir:"+dir, index, f, OrphanAge, oneClock), files: f, name: "dir:" + dir, index: index}, nil
}

// Traits implements [object.Describer].
func (b *Bucket) Traits() object.Traits {
	of, id := store.TraitsOf(b.index), ""
	if of.ID != "" {
		id = "dir:" + of.ID + "#" + of.Prefix // the index decides which objects exist
	}
	return object.Traits{Name: b.name, ID: id, Local: of.Local, Trusted: true, UniqueVersions: true}
}

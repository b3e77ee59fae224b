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
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/trust"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

const (
	// DefaultGrace is how old a file that nothing names must be to be swept.
	DefaultGrace = 24 * time.Hour

	// MinGrace is the shortest grace.
	MinGrace = time.Minute
)

// Options are the options of [New].
type Options struct {
	// Grace is how old a file that no register names must be before Sweep removes it. A
	// put that takes longer than half of it, from its first byte to the swap of the
	// register, fails. At least [MinGrace]; 0 means [DefaultGrace]. All users of one
	// directory must use the same.
	Grace time.Duration

	// AllowNetwork lets [Open] use a file system that is not known to be local; see
	// [filestore.Options]. New ignores it.
	AllowNetwork bool

	// Unsafe lists the accepted risks of the directory; see [filestore.Options].
	Unsafe []string
}

// Bucket is a space of objects in a directory. It may be used by any number of
// goroutines, and starts none.
type Bucket struct {
	dir       string
	root      *os.Root    // of dir
	info      os.FileInfo // of root
	name      string
	own       *filestore.Store // the index, if Open opened it
	inherited inherited        // mode and owner of what is made in dir
	index     store.Store
	grace     time.Duration
}

var (
	_ object.Bucket    = (*Bucket)(nil)
	_ object.Copier    = (*Bucket)(nil)
	_ object.Describer = (*Bucket)(nil)
)

// entry is the value of a register of the index.
type entry struct {
	Key         string            `json:"key"`
	File        string            `json:"file"`
	Size        int64             `json:"size"`
	Modified    time.Time         `json:"modified"`
	ContentType string            `json:"content_type"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// Open returns the bucket in dir, and makes dir if it does not exist. Bodies are in
// dir/data, and the index is a filestore in dir/index. The caller closes the bucket.
func Open(dir string, opts *Options) (*Bucket, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	fileOpts := &filestore.Options{}
	if opts != nil {
		fileOpts.AllowNetwork, fileOpts.Unsafe = opts.AllowNetwork, opts.Unsafe
	}
	if err := trust.CheckNames(fileOpts.Unsafe); err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	root, info, err := trust.OpenDir(dir, fileOpts.Unsafe)
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	defer root.Close()
	for _, sub := range []string{"data", "index"} {
		if err := makeLike(root, sub, inheritedFrom(info)); err != nil {
			return nil, fmt.Errorf("dirbucket: %w", err)
		}
	}
	data, index := filepath.Join(dir, "data"), filepath.Join(dir, "index")
	s, err := filestore.Open(index, fileOpts)
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	b, err := New(data, s, opts)
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
	return errors.Join(b.own.Close(), b.root.Close())
}

// New returns the bucket with its bodies in dir and its index in the given store. It
// makes dir if it does not exist. The index needs a space of registers without other
// users; see [store.Prefix].
func New(dir string, index store.Store, opts *Options) (*Bucket, error) {
	b := &Bucket{dir: dir, name: "dir:" + dir, index: index, grace: DefaultGrace}
	if opts != nil && opts.Grace != 0 {
		b.grace = opts.Grace
	}
	if b.grace < MinGrace {
		return nil, fmt.Errorf("dirbucket: Options.Grace is %v, at least %v is needed", b.grace, MinGrace)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	var unsafe []string
	if opts != nil {
		unsafe = opts.Unsafe
	}
	err := trust.CheckNames(unsafe)
	if err == nil {
		b.root, b.info, err = trust.OpenDir(dir, unsafe)
	}
	if err != nil {
		return nil, fmt.Errorf("dirbucket: %w", err)
	}
	b.inherited = inheritedFrom(b.info)
	return b, nil
}

// Traits implements [object.Describer].
func (b *Bucket) Traits() object.Traits {
	of, id := store.TraitsOf(b.index), ""
	if of.ID != "" {
		id = "dir:" + of.ID + "#" + of.Prefix // the index decides which objects exist
	}
	return object.Traits{Name: b.name, ID: id, Local: true, Trusted: true, UniqueVersions: true}
}

// register returns the key of the register of an object: the object's key, with escapes
// for segments that a register's key cannot have, or a hash if that is too long. The
// entry has the full key.
func register(key string) string {
	segments := strings.Split(key, "/")
	for i, s := range segments {
		s = strings.ReplaceAll(s, "%", "%25")
		switch s {
		case "":
			s = "%"
		case ".", "..":
			s = "%" + s
		}
		segments[i] = s
	}
	if r := "k/" + strings.Join(segments, "/"); len(r) <= maxRegister {
		return r
	}
	sum := sha256.Sum256([]byte(key))
	return "h/" + hex.EncodeToString(sum[:])
}

// maxRegister leaves room for a prefix that the index may have.
const maxRegister = store.MaxKey - 112

// load returns the entry of a key and its version.
func (b *Bucket) load(ctx context.Context, key string) (entry, store.Version, error) {
	value, v, err := b.index.Get(ctx, register(key))
	if err != nil {
		return entry{}, "", plain(err)
	}
	e, err := decode(value)
	if err == nil && e.Key != key {
		err = fmt.Errorf("%w: it is the entry of another key", store.ErrCorrupt)
	}
	return e, v, err
}

func decode(value []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil || e.Key == "" || !trust.IsRandom(e.File) {
		return entry{}, fmt.Errorf("%w: a register of the index is no entry", store.ErrCorrupt)
	}
	return e, nil
}

// plain removes the operation on the index from an error: the caller names its own
// operation.
func plain(err error) error {
	var op *store.OpError
	if errors.As(err, &op) && err == error(op) {
		return op.Err
	}
	return err
}

func (e entry) info(v store.Version) object.Info {
	return object.Info{
		Key: e.Key, Version: object.Version(v), Size: e.Size, Modified: e.Modified,
		ContentType: e.ContentType, Metadata: e.Metadata,
	}
}

// Get implements [object.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	o, err := object.CheckGet(key, opts)
	if err != nil {
		return nil, opError("get", key, err)
	}
	// If the object is replaced after the index was read, its file may no longer exist.
	// Then the index has another entry.
	var last store.Version
	for {
		e, v, err := b.load(ctx, key)
		if err == nil {
			err = check(key, e, v, o)
		} else if errors.Is(err, store.ErrNotFound) && o.IfMatch != "" {
			err = &object.ConflictError{Key: key, Known: true}
		}
		if err != nil {
			return nil, opError("get", key, err)
		}
		f, stat, err := trust.OpenFile(b.root, path(e.File))
		if err == nil {
			return b.reader(key, f, stat, e, v, o)
		}
		if !errors.Is(err, fs.ErrNotExist) || v == last {
			return nil, opError("get", key, fmt.Errorf("%w: %w", store.ErrCorrupt, err))
		}
		last = v
	}
}

// check checks the conditions of a read.
func check(key string, e entry, v store.Version, o object.GetOptions) error {
	switch {
	case o.IfMatch != "" && store.Version(o.IfMatch) != v:
		return &object.ConflictError{Key: key, Known: true, Version: object.Version(v)}
	case o.IfChanged != "" && store.Version(o.IfChanged) == v:
		return object.ErrNotChanged
	case o.Offset > 0 && o.Offset >= e.Size:
		return object.ErrRange
	}
	return nil
}

func (b *Bucket) reader(key string, f *os.File, stat os.FileInfo, e entry, v store.Version, o object.GetOptions) (*object.Reader, error) {
	if stat.Size() != e.Size {
		f.Close()
		return nil, opError("get", key, fmt.Errorf("%w: its file has %d bytes in place of %d", store.ErrCorrupt, stat.Size(), e.Size))
	}
	length := e.Size - o.Offset
	if o.Length > 0 {
		length = min(length, o.Length)
	}
	return &object.Reader{ReadCloser: section{io.NewSectionReader(f, o.Offset, length), f}, Info: e.info(v)}, nil
}

type section struct {
	io.Reader
	io.Closer
}

// Stat implements [object.Bucket].
func (b *Bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	err := object.CheckKey(key)
	var e entry
	var v store.Version
	if err == nil {
		e, v, err = b.load(ctx, key)
	}
	if err != nil {
		return object.Info{}, opError("stat", key, err)
	}
	return e.info(v), nil
}

// List implements [object.Bucket]. It reads the register of each key.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	var after string
	if opts != nil {
		after = opts.After
	}
	return func(yield func(object.Info, error) bool) {
		for key, err := range store.List(ctx, b.index, "") {
			var e entry
			var v store.Version
			if err == nil {
				var value []byte
				if value, v, err = b.index.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
					continue // deleted meanwhile
				}
				if err == nil {
					e, err = decode(value)
				}
			}
			if err != nil {
				yield(object.Info{}, opError("list", prefix, plain(err)))
				return
			}
			if !strings.HasPrefix(e.Key, prefix) || after != "" && e.Key <= after {
				continue
			}
			info := e.info(v)
			info.ContentType, info.Metadata = "", nil
			if !yield(info, nil) {
				return
			}
		}
	}
}

func opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Err: err}
}

// newName returns the name of a new body.
func newName() string { return rand.Text() }

// path spreads the files over 32*32 directories.
func path(name string) string { return name[:2] + "/" + name[2:] }

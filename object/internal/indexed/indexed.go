// Package indexed stores the body of each object under a unique name, and never changes it. An index has
// a register for each key. The register contains the name of the body. So every version is unique, and
// the condition of a write is a condition of one write of a register.
//
// A change writes the new body, then the register, and then removes the old body. If the process stops
// between two of these steps, a body can remain that no register names. [Bucket.Sweep] removes such
// bodies.
package indexed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/safefile"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Bodies stores the bodies. A name is a result of [rand.Text].
type Bodies interface {
	// Write stores a body under this name, durably, and returns its size. After an error, no
	// register may name this body.
	Write(ctx context.Context, name string, body io.Reader, o object.PutOptions) (size int64, err error)

	// Copy copies a body to this name. The parameter from is the name of the source.
	Copy(ctx context.Context, from, name string, size int64, progress object.Progress) error

	// Open opens length bytes of a body, from offset; if length is 0, it opens the body from offset
	// to its end. If the body does not exist, the error matches store.ErrNotFound. If the body does
	// not have the given size, the error matches store.ErrCorrupt.
	Open(ctx context.Context, name string, size, offset, length int64) (io.ReadCloser, error)

	// Exists reports whether the body exists.
	Exists(ctx context.Context, name string) (bool, error)

	// Remove removes a body that no register names any more. If the body cannot be removed now, it
	// remains for Sweep.
	Remove(ctx context.Context, name string)

	// OlderThan returns the names of all bodies that are older than age. It calls age for each body, after
	// it has read the time of the body and the time of the store, because the age grows during a sweep. The
	// names may include other files or objects, because the sweep removes only names of the form of
	// [rand.Text]. The iteration ends after an error.
	OlderThan(ctx context.Context, age func() time.Duration) iter.Seq2[string, error]

	// Sweep removes an old body that no register names.
	Sweep(ctx context.Context, name string) error
}

// Bucket is a bucket of indexed objects; see the package comment. It implements
// [object.Bucket] and [object.Copier], and has Sweep.
type Bucket struct {
	name      string // for people
	index     store.Store
	bodies    Bodies
	orphanAge time.Duration

	// oneClock says that all writers and readers are on one machine, whose clock is the
	// bucket's.
	oneClock bool
}

// New returns a bucket with this index. The index must have no other registers. The parameter name is the
// name of the bucket in errors. Set oneClock if all writers and readers are on one machine. The clock of
// the machine is then the clock of the bucket, and [object.Info].Now is known.
func New(name string, index store.Store, bodies Bodies, grace time.Duration, oneClock bool) *Bucket {
	return &Bucket{name, index, bodies, grace, oneClock}
}

// entry is the value of a register of the index.
type entry struct {
	Key         string            `json:"key"`
	File        string            `json:"file"` // the name of the body
	Size        int64             `json:"size"`
	Modified    time.Time         `json:"modified"`
	ContentType string            `json:"content_type"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	object.Headers
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
		return entry{}, "", Bare(err)
	}
	e, err := decode(register(key), value)
	return e, v, err
}

// decode returns the entry in a register of the index.
func decode(name string, value []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil || e.Key == "" || !safefile.IsRandom(e.File) {
		return entry{}, fmt.Errorf("%w: the value of a register of the index is not an index entry", store.ErrCorrupt)
	}
	if register(e.Key) != name {
		return entry{}, fmt.Errorf("%w: the register has the entry of another key", store.ErrCorrupt)
	}
	return e, nil
}

// Bare removes the operation on the index or the bodies from an error: the caller names its own
// operation.
func Bare(err error) error {
	if of, ok := err.(*store.OpError); ok {
		return of.Err
	}
	return err
}

// info describes the object of an entry.
func (b *Bucket) info(e entry, v store.Version) object.Info {
	info := object.Info{
		Key: e.Key, Version: object.Version(v), Size: e.Size, Modified: e.Modified,
		ContentType: e.ContentType, Headers: e.Headers, Metadata: e.Metadata,
	}
	if b.oneClock {
		info.Now = time.Now().UTC()
	}
	return info
}

// Get implements [object.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	o, err := object.CheckGet(key, opts)
	if err != nil {
		return nil, b.opError("get", key, err)
	}
	r, err := b.open(ctx, key, o)
	return r, b.opError("get", key, err)
}

func (b *Bucket) open(ctx context.Context, key string, o object.GetOptions) (*object.Reader, error) {
	// If the object is replaced after the index was read, its body may no longer exist.
	// Then the index has another entry.
	var last store.Version
	for {
		e, v, err := b.loadIf(ctx, key, o)
		if err != nil {
			return nil, err
		}
		body, err := b.bodies.Open(ctx, e.File, e.Size, o.Offset, o.Length)
		switch {
		case err == nil:
			return &object.Reader{ReadCloser: body, Info: b.info(e, v)}, nil
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		case v == last:
			return nil, fmt.Errorf("%w: the body of the object is missing: %v", store.ErrCorrupt, err)
		}
		last = v
	}
}

// loadIf is load under the conditions of a read.
func (b *Bucket) loadIf(ctx context.Context, key string, o object.GetOptions) (entry, store.Version, error) {
	e, v, err := b.load(ctx, key)
	switch {
	case err != nil && (o.IfMatch == "" || !errors.Is(err, store.ErrNotFound)):
	case o.IfMatch != "" && !same(o.IfMatch, v):
		err = &object.ConflictError{Key: key, HasCurrent: true, Version: object.Version(v)}
	case o.IfChanged != "" && same(o.IfChanged, v):
		err = object.ErrNotChanged
	case o.Offset > 0 && o.Offset >= e.Size:
		err = object.ErrRange
	}
	return e, v, err
}

// same reports whether a caller's version is that of a register.
func same(named object.Version, v store.Version) bool {
	return v != "" && store.Version(named).WithoutHint() == v.WithoutHint()
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
		return object.Info{}, b.opError("stat", key, err)
	}
	return b.info(e, v), nil
}

// List implements [object.Bucket]. List reads the register of each key. If some registers are
// damaged, List yields the other objects first, and then an error.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	after := cmp.Or(opts, &object.ListOptions{}).After
	return func(yield func(object.Info, error) bool) {
		var bad []error
		for e, err := range b.entries(ctx) {
			if err != nil {
				if len(bad) < maxBad {
					bad = append(bad, err)
				}
				continue
			}
			if !strings.HasPrefix(e.Key, prefix) || after != "" && e.Key <= after {
				continue
			}
			info := b.info(e.entry, e.version)
			info.ContentType, info.Headers, info.Metadata = "", object.Headers{}, nil
			if !yield(info, nil) {
				return
			}
		}
		if len(bad) > 0 {
			yield(object.Info{}, b.opError("list", prefix, errors.Join(bad...)))
		}
	}
}

// maxBad is how many damaged registers a listing names.
const maxBad = 100

// entries yields all entries of the index, and an error for each register that is damaged. Any
// other error ends it.
func (b *Bucket) entries(ctx context.Context) iter.Seq2[current, error] {
	return func(yield func(current, error) bool) {
		for key, err := range store.List(ctx, b.index, "") {
			var e current
			if err == nil {
				var value []byte
				if value, e.version, err = b.index.Get(ctx, key); errors.Is(err, store.ErrNotFound) {
					continue // deleted meanwhile
				}
				if err == nil {
					if e.entry, err = decode(key, value); err != nil {
						err = fmt.Errorf("register %q: %w", key, err)
					}
				}
			}
			if !yield(e, Bare(err)) || err != nil && !errors.Is(err, store.ErrCorrupt) {
				return
			}
		}
	}
}

func (b *Bucket) opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Store: b.name, Err: err}
}

// Package indexed keeps objects as immutable bodies under unique names, and an index with
// a register for each key, which names the body. So every version is unique, and every
// condition is that of one write of a register, wherever the bodies are.
//
// A change writes the new body, then swaps the register, then removes the body that it
// replaced. A process that is stopped in between leaves a body that nothing names, for
// [Bucket.Sweep].
package indexed

import (
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

// Bodies is where the bodies are. Names are those of [rand.Text].
type Bodies interface {
	// Write stores a body under this name, durably, and returns its size. An error means
	// that no register may name it.
	Write(ctx context.Context, name string, body io.Reader, o object.PutOptions) (size int64, err error)

	// Copy stores a copy of the body from under this name.
	Copy(ctx context.Context, from, name string, size int64, progress object.Progress) error

	// Open opens a body of this size: length bytes from offset, or all that follow where
	// length is 0. A body that does not exist is store.ErrNotFound, and one of another
	// size store.ErrCorrupt.
	Open(ctx context.Context, name string, size, offset, length int64) (io.ReadCloser, error)

	// Exists reports whether there is such a body.
	Exists(ctx context.Context, name string) (bool, error)

	// Remove removes a body that nothing names any more, if that is possible now.
	Remove(ctx context.Context, name string)

	// OlderThan yields the names of bodies that are older than age. A name need not be that of a
	// body of this package: the sweep removes only random ones. After an error it ends.
	OlderThan(ctx context.Context, age time.Duration) iter.Seq2[string, error]

	// Sweep removes a body that is old, and that nothing names.
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

// New returns the objects of an index, which has no other registers. Errors name the
// bucket by name. With oneClock all writers and readers are on one machine: its clock is
// the bucket's, so that the time of an answer is known ([object.Info].Now).
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
		return entry{}, "", plain(err)
	}
	e, err := decode(value)
	if err == nil && e.Key != key {
		err = fmt.Errorf("%w: the register has the entry of another key", store.ErrCorrupt)
	}
	return e, v, err
}

func decode(value []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil || e.Key == "" || !safefile.IsRandom(e.File) {
		return entry{}, fmt.Errorf("%w: a register of the index does not contain an entry", store.ErrCorrupt)
	}
	return e, nil
}

// plain removes the operation on the index from an error: the caller names its own
// operation.
func plain(err error) error {
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
	r, _, err := b.open(ctx, key, o)
	return r, b.opError("get", key, err)
}

// open is Get, and also returns the entry.
func (b *Bucket) open(ctx context.Context, key string, o object.GetOptions) (*object.Reader, entry, error) {
	// If the object is replaced after the index was read, its body may no longer exist.
	// Then the index has another entry.
	var last store.Version
	for {
		e, v, err := b.load(ctx, key)
		if err == nil {
			err = check(key, e, v, o)
		} else if errors.Is(err, store.ErrNotFound) && o.IfMatch != "" {
			err = &object.ConflictError{Key: key, HasCurrent: true}
		}
		if err != nil {
			return nil, entry{}, err
		}
		body, err := b.bodies.Open(ctx, e.File, e.Size, o.Offset, o.Length)
		switch {
		case err == nil:
			return &object.Reader{ReadCloser: body, Info: b.info(e, v)}, e, nil
		case !errors.Is(err, store.ErrNotFound):
			return nil, entry{}, err
		case v == last:
			return nil, entry{}, fmt.Errorf("%w: the body of the object is missing: %v", store.ErrCorrupt, err)
		}
		last = v
	}
}

// check checks the conditions of a read.
func check(key string, e entry, v store.Version, o object.GetOptions) error {
	switch {
	case o.IfMatch != "" && !same(o.IfMatch, v):
		return &object.ConflictError{Key: key, HasCurrent: true, Version: object.Version(v)}
	case o.IfChanged != "" && same(o.IfChanged, v):
		return object.ErrNotChanged
	case o.Offset > 0 && o.Offset >= e.Size:
		return object.ErrRange
	}
	return nil
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

// List implements [object.Bucket]. It reads the register of each key. Registers that are damaged
// are an error at its end: the others are listed all the same.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	var after string
	if opts != nil {
		after = opts.After
	}
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
					if e.entry, err = decode(value); err != nil {
						err = fmt.Errorf("register %q: %w", key, err)
					}
				}
			}
			if !yield(e, plain(err)) || err != nil && !errors.Is(err, store.ErrCorrupt) {
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

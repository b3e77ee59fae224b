// Package membucket keeps objects in the memory of one process, for tests.
//
//	client, err := object.New(membucket.New(), nil) // see package object
//
// It obeys the whole contract of package object: every change takes effect under one mutex. It
// never holds the mutex while it reads a body, so a bucket works inside a bubble of
// testing/synctest. It starts no goroutine and needs no Close.
package membucket

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Bucket is a space of objects in memory. The zero value is empty and ready for
// use. It must not be copied after its first use.
type Bucket struct {
	mu      sync.Mutex
	id      uint64 // part of every version, so that another bucket's version never fits
	writes  uint64 // counts over all keys
	objects map[string]stored

	// Hashed makes the version of an object a hash of its body, like the ETag on S3. Then equal
	// bodies have equal versions. Use it to test programs that must work without unique versions.
	// Set it before the first use.
	Hashed bool
}

// stored is one state of an object. Nothing in it changes after it was stored.
type stored struct {
	info object.Info
	body []byte
}

var (
	_ object.Bucket    = (*Bucket)(nil)
	_ object.Copier    = (*Bucket)(nil)
	_ object.Describer = (*Bucket)(nil)
)

// New returns an empty bucket. It does the same as new(Bucket).
func New() *Bucket { return new(Bucket) }

// name is what errors call the bucket.
const name = "memory"

// Traits implements [object.Describer]: the bucket is local and trusted. No version is used
// twice, unless Hashed is set.
func (b *Bucket) Traits() object.Traits {
	b.mu.Lock()
	defer b.mu.Unlock()
	return object.Traits{Name: name, ID: fmt.Sprintf("memory:%016x", b.identify()), Local: true, Trusted: true, UniqueVersions: !b.Hashed}
}

// identify returns the bucket's id. It is called with the mutex held.
func (b *Bucket) identify() uint64 {
	for b.id == 0 {
		b.id = rand.Uint64()
	}
	return b.id
}

// Get implements [object.Bucket]. The reader reads the state at the time of the call, even if the
// object changes later.
func (b *Bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	o, err := object.CheckGet(key, opts)
	if err != nil {
		return nil, opError("get", key, err)
	}
	s, err := b.load(ctx, key, o)
	if err != nil {
		return nil, opError("get", key, err)
	}
	body := s.body[o.Offset:]
	if o.Length > 0 && o.Length < int64(len(body)) {
		body = body[:o.Length]
	}
	return &object.Reader{ReadCloser: io.NopCloser(bytes.NewReader(body)), Info: s.answer()}, nil
}

// Stat implements [object.Bucket].
func (b *Bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	err := object.CheckKey(key)
	var s stored
	if err == nil {
		s, err = b.load(ctx, key, object.GetOptions{})
	}
	if err != nil {
		return object.Info{}, opError("stat", key, err)
	}
	return s.answer(), nil
}

// Put implements [object.Bucket].
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts)
	if err != nil {
		return object.Info{}, opError("put", key, err)
	}
	all, err := io.ReadAll(object.CheckedBody(body, o))
	if err != nil {
		return object.Info{}, opError("put", key, store.MarkNotApplied(err))
	}
	s := stored{body: all}
	s.info.Headers = o.Headers
	s.info.ContentType = cmp.Or(o.ContentType, "application/octet-stream")
	s.info.Metadata = maps.Clone(o.Metadata)
	info, err := b.write(ctx, key, s, condition{o.IfAbsent, o.IfMatch})
	if err != nil {
		return object.Info{}, opError("put", key, err)
	}
	o.Progress.Report(info.Size, info.Size)
	return info, nil
}

// Copy implements [object.Copier].
func (b *Bucket) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o, err := object.CheckCopy(source, destination, opts)
	if err != nil {
		return object.Info{}, opError("copy", source, err)
	}
	s, err := b.load(ctx, source, object.GetOptions{IfMatch: o.SourceIfMatch})
	if err != nil {
		return object.Info{}, opError("copy", source, store.MarkNotApplied(err))
	}
	if o.Metadata != nil {
		s.info.Metadata, s.info.Headers = maps.Clone(o.Metadata), o.Headers
		s.info.ContentType = cmp.Or(o.ContentType, "application/octet-stream")
	}
	// States are immutable: the copy is of the state that was read, also if the source has
	// changed meanwhile.
	info, err := b.write(ctx, destination, s, condition{o.IfAbsent, o.IfMatch})
	if err != nil {
		return object.Info{}, opError("copy", destination, err)
	}
	o.Progress.Report(info.Size, info.Size)
	return info, nil
}

// Delete implements [object.Bucket].
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err != nil {
		return opError("delete", key, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.objects[key].info.Version
	if o.IfMatch != "" && current != o.IfMatch && !(o.OrAbsent && current == "") {
		return opError("delete", key, &object.ConflictError{Key: key, HasCurrent: true, Version: current})
	}
	delete(b.objects, key)
	return nil
}

// List implements [object.Bucket]. It lists the objects that exist at the time of the call.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	after := cmp.Or(opts, &object.ListOptions{}).After
	return func(yield func(object.Info, error) bool) {
		for _, info := range b.matching(prefix, after) {
			if ctx.Err() != nil {
				yield(object.Info{}, opError("list", prefix, store.Cause(ctx)))
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (b *Bucket) matching(prefix, after string) []object.Info {
	b.mu.Lock()
	defer b.mu.Unlock()
	var infos []object.Info
	for key, s := range b.objects {
		if strings.HasPrefix(key, prefix) && (after == "" || key > after) {
			info := s.answer()
			info.ContentType, info.Headers, info.Metadata = "", object.Headers{}, nil
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(x, y object.Info) int { return cmp.Compare(x.Key, y.Key) })
	return infos
}

// load returns the state of an object under the conditions of a read.
func (b *Bucket) load(ctx context.Context, key string, o object.GetOptions) (stored, error) {
	if err := store.CheckContext(ctx); err != nil {
		return stored{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, ok := b.objects[key]
	switch {
	case o.IfMatch != "" && s.info.Version != o.IfMatch:
		return stored{}, &object.ConflictError{Key: key, HasCurrent: true, Version: s.info.Version}
	case !ok:
		return stored{}, store.ErrNotFound
	case o.IfChanged != "" && s.info.Version == o.IfChanged:
		return stored{}, object.ErrNotChanged
	case o.Offset > 0 && o.Offset >= int64(len(s.body)):
		return stored{}, object.ErrRange
	}
	return s, nil
}

type condition struct {
	ifAbsent bool
	ifMatch  object.Version
}

func (b *Bucket) write(ctx context.Context, key string, s stored, c condition) (object.Info, error) {
	if err := store.CheckContext(ctx); err != nil {
		return object.Info{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.objects[key].info.Version
	if c.ifAbsent && current != "" || c.ifMatch != "" && current != c.ifMatch {
		return object.Info{}, &object.ConflictError{Key: key, HasCurrent: true, Version: current}
	}
	b.writes++
	s.info.Key = key
	s.info.Version = object.Version(fmt.Sprintf("%d-%016x", b.writes, b.identify()))
	if b.Hashed {
		s.info.Version = object.Version(fmt.Sprintf("%x", sha256.Sum256(s.body)))
	}
	s.info.Size = int64(len(s.body))
	s.info.Modified = time.Now()
	if b.objects == nil {
		b.objects = make(map[string]stored)
	}
	b.objects[key] = s
	return s.answer(), nil
}

// answer is the description of a state that a caller gets, and may keep.
func (s stored) answer() object.Info {
	info := s.info
	info.Now = time.Now()
	info.Metadata = maps.Clone(info.Metadata)
	return info
}

func opError(op store.Kind, key string, err error) error {
	return &store.OpError{Op: op, Key: key, Store: name, Err: err}
}

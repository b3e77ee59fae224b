package largeitem

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Item is an item of the table that a call has read or written.
type Item struct {
	Key Key

	// Attributes are the attributes that are not references.
	Attributes Attributes

	// Refs are the references of the large attributes, by name.
	Refs map[string]Reference

	// Foreign are the references that the store does not follow; see [ReferenceError].
	Foreign map[string]*ReferenceError

	schema Schema
	bodies map[string]*Body
}

// newItem separates the references of an item from its other attributes.
func (s *Store) newItem(schema Schema, key Key, all Attributes) *Item {
	i := &Item{Key: key, Attributes: make(Attributes), Refs: make(map[string]Reference), Foreign: make(map[string]*ReferenceError), schema: schema}
	for attr, value := range all {
		r, is, foreign := s.refer(schema, key, attr, value)
		switch {
		case foreign != nil:
			i.Foreign[attr] = foreign
		case is:
			i.Refs[attr] = r
		default:
			i.Attributes[attr] = value
		}
	}
	return i
}

// all returns the attributes as the table has them.
func (i *Item) all() Attributes {
	all := Attributes(maps.Collect(maps.All(i.Attributes))) // never nil
	for attr, r := range i.Refs {
		all[attr] = r.URI
	}
	for attr, e := range i.Foreign {
		all[attr] = e.URI
	}
	return all
}

// ReadOptions are the options of [Store.Get].
type ReadOptions struct {
	// Attributes are the names of the large attributes to open; nil means all. Get ignores names
	// that the item does not have.
	Attributes []string
}

// getTries is how often Get reads an item at most whose objects are removed while it opens
// them.
const getTries = 5

// Get reads an item and opens its large attributes, and [Item].Body returns each of them. The
// caller must close the item. If there is no item, the error matches [store.ErrNotFound].
//
// Get sends one request for the item, and one for each large attribute. If an object does not exist
// because another writer has changed the item meanwhile, Get reads the item again. If the object
// does not exist although the item refers to it, the error matches [ErrMissing].
//
// The context also bounds the reads of the bodies. If the bucket is remote, each open body uses a
// connection.
func (s *Store) Get(ctx context.Context, key Key, opts *ReadOptions) (*Item, error) {
	return perform(ctx, s, opGet, key, func(ctx context.Context, schema Schema, key Key) (*Item, error) {
		return s.get(ctx, schema, key, *cmp.Or(opts, &ReadOptions{}))
	})
}

func (s *Store) get(ctx context.Context, schema Schema, key Key, o ReadOptions) (*Item, error) {
	var before *Item
	var missing error
	for range getTries {
		item, err := s.getMeta(ctx, schema, key)
		if err != nil {
			return nil, err
		}
		if before != nil && sameRefs(before, item, o.Attributes) {
			break
		}
		err = s.open(ctx, item, o.Attributes)
		if err == nil {
			return item, nil
		}
		if !errors.Is(err, ErrMissing) {
			return nil, err
		}
		before, missing = item, err
	}
	return nil, missing
}

func sameRefs(a, b *Item, attrs []string) bool {
	for attr := range a.Refs {
		if (attrs == nil || slices.Contains(attrs, attr)) && a.Refs[attr].URI != b.Refs[attr].URI {
			return false
		}
	}
	return true
}

// GetMeta reads an item without its large attributes, by one request. [Store.Open] opens a large
// attribute.
func (s *Store) GetMeta(ctx context.Context, key Key) (*Item, error) {
	return perform(ctx, s, opGet, key, s.getMeta)
}

func (s *Store) getMeta(ctx context.Context, schema Schema, key Key) (*Item, error) {
	all, err := s.table.Get(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	return s.newItem(schema, key, all), nil
}

// open opens the large attributes of an item, some at a time.
func (s *Store) open(ctx context.Context, item *Item, attrs []string) error {
	want := func(attr string) bool { return attrs == nil || slices.Contains(attrs, attr) }
	for _, attr := range slices.Sorted(maps.Keys(item.Foreign)) {
		if want(attr) {
			return item.Foreign[attr]
		}
	}
	item.bodies = make(map[string]*Body)
	var mu sync.Mutex
	wanted := slices.DeleteFunc(slices.Sorted(maps.Keys(item.Refs)), func(attr string) bool { return !want(attr) })
	errs := workerpool.Each(len(wanted), s.o.Parallel, func(i int) error {
		b, err := s.body(ctx, item, wanted[i])
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			item.bodies[wanted[i]] = b
		}
		return err
	})
	var first error
	for _, err := range errs {
		if err != nil && (first == nil || !errors.Is(first, ErrMissing)) {
			first = err
		}
	}
	if first != nil {
		_ = item.Close()
	}
	return first
}

// Open opens one large attribute of an item that GetMeta or a write has returned. If the object
// does not exist, the error matches [ErrMissing]. Then read the item again, because another writer
// may have changed it. If the item has no such large attribute, the error matches [ErrInvalid]. The
// caller must close the body.
func (s *Store) Open(ctx context.Context, item *Item, attr string) (*Body, error) {
	if e := item.Foreign[attr]; e != nil {
		return nil, failed(opGet, item.schema, item.Key, e)
	}
	if _, ok := item.Refs[attr]; !ok {
		return nil, failed(opGet, item.schema, item.Key, fmt.Errorf("%w: the item has no large attribute %q", ErrInvalid, attr))
	}
	b, err := s.body(ctx, item, attr)
	return b, failed(opGet, item.schema, item.Key, err)
}

func (s *Store) body(ctx context.Context, item *Item, attr string) (*Body, error) {
	ref := item.Refs[attr]
	r, err := s.bucket.Get(ctx, ref.Object, nil)
	if isNotFound(err) {
		return nil, fmt.Errorf("%w: the object of the attribute %q does not exist: %q", ErrMissing, attr, ref.URI)
	}
	if err != nil {
		return nil, fmt.Errorf("the attribute %q: %w", attr, err)
	}
	b := &Body{Attr: attr, Reference: ref, Info: r.Info, r: r, sums: newSums(ctx, r, ref.MD5 != nil)}
	if ref.SHA256 == nil {
		b.Reference.SHA256, _ = lowerHex(r.Info.Metadata[metaSHA256], len(b.sums.sha()))
	}
	if ref.Size < 0 {
		b.Reference.Size = r.Info.Size
	}
	if r.Info.Size != b.Reference.Size {
		_ = r.Close()
		return nil, b.corrupt("has %d bytes, but must have %d", r.Info.Size, b.Reference.Size)
	}
	return b, nil
}

// Body returns a large attribute that Get has opened. For all other names, Body returns nil. A body
// can be read only once.
func (i *Item) Body(attr string) *Body { return i.bodies[attr] }

// Close closes all bodies that Get has opened.
func (i *Item) Close() error {
	var errs []error
	for _, b := range i.bodies {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// Body is the content of a large attribute. Only one goroutine at a time may use it.
type Body struct {
	Attr      string
	Reference Reference
	Info      object.Info // properties of the object

	r    io.ReadCloser
	sums *sums
	err  error
}

// Read implements [io.Reader]. At the end of the body, Read checks the size and the hash. If the
// size or the hash is wrong, the error matches [store.ErrCorrupt], and is not [io.EOF].
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.sums.Read(p)
	switch want := b.Reference; {
	case b.sums.size > want.Size:
		n, err = 0, b.corrupt("has more than the expected %d bytes", want.Size)
	case err != io.EOF:
	case b.sums.size < want.Size:
		err = b.corrupt("ends after %d of %d bytes", b.sums.size, want.Size)
	case want.SHA256 != nil && !bytes.Equal(want.SHA256, b.sums.sha()):
		err = b.corrupt("has the SHA-256 %x, but must have %x", b.sums.sha(), want.SHA256)
	case want.MD5 != nil && !bytes.Equal(want.MD5, b.sums.md5Sum()):
		err = b.corrupt("has the MD5 %x, but must have %x", b.sums.md5Sum(), want.MD5)
	}
	b.err = err
	return n, err
}

func (b *Body) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: the object %q of the attribute %q %s", store.ErrCorrupt, b.Reference.Object, b.Attr, fmt.Sprintf(format, args...))
}

// Close closes the body. If the caller has not read the body to its end, Close does not check the
// size and the hash.
func (b *Body) Close() error { return b.r.Close() }

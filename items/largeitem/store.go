package largeitem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultOrphanAge is the orphan age of a table if its first writer does not set
	// [Options].OrphanAge. MinOrphanAge and MaxOrphanAge are the bounds of the option.
	DefaultOrphanAge = 24 * time.Hour
	MinOrphanAge     = time.Hour
	MaxOrphanAge     = 100 * 365 * 24 * time.Hour

	// defaultParallel is how many objects of one item are uploaded or opened at a time, and
	// MaxParallel the most.
	defaultParallel = 4
	MaxParallel     = 64

	// spoolMemory is the size up to which a stream that must be hashed before its
	// upload is kept in memory, in bytes; a larger one goes into a temporary file.
	spoolMemory = 1 << 20
)

// Options are the options of a [Store].
type Options struct {
	// Prefix is the beginning of the keys of all objects, at most 256 bytes. If Prefix has no slash
	// at the end, New adds a slash. Several tables can share a prefix, unless the layout forbids
	// that.
	Prefix string

	// BaseURI is the URI of the bucket at the beginning of references, for example s3://BUCKET. All
	// programs that use the table must have the same BaseURI. Empty means the Name in the
	// [object.Traits] of the bucket.
	BaseURI string

	// Layout decides the names of objects; nil means [DefaultLayout].
	Layout Layout

	// Attributes are the names of the large attributes. If Attributes is nil, an attribute is large
	// if its value looks like a reference. Set Attributes if users choose the values of other
	// attributes. If Attributes is nil, the store does not write a small attribute that looks like
	// a reference. If another program has written such a text, a Get of the attribute returns a
	// [ReferenceError].
	Attributes []string

	// OrphanAge is the time for which the sweep keeps an object without a reference, from
	// [MinOrphanAge] to [MaxOrphanAge]. A write that takes more than half of the orphan age fails.
	// 0 means the orphan age of the table.
	//
	// The first program that writes to a table sets the orphan age of the table; for that program,
	// 0 means [DefaultOrphanAge]. [Store.ChangeOrphanAge] changes the orphan age of the table. If
	// this option is longer than the orphan age of the table, a write returns an [OrphanAgeError].
	// If this option is shorter, a sweep returns an OrphanAgeError.
	OrphanAge time.Duration

	// With RemoveSuperseded, a successful write removes the objects to which the item no longer
	// refers, if they are older than the orphan age. The sweep removes the younger objects. If a
	// removal fails, the write logs the failure, and succeeds.
	RemoveSuperseded bool

	// With RemoveYoung and RemoveSuperseded, a write removes such objects whatever their age. It is
	// safe only if no proxy repeats requests. If a proxy repeats the request of a create, the
	// server can apply the repeated request after the item was changed and deleted. Then the item
	// refers to removed objects.
	RemoveYoung bool

	// With RemoveFailed, a write whose condition failed removes its uploads at once, even if the
	// condition can hold later. It is safe only if no proxy repeats requests. If RemoveFailed is
	// false, the sweep removes such objects. A write always removes uploads at once if no item can
	// ever refer to them.
	RemoveFailed bool

	// Parallel is the number of objects of one item that are uploaded or opened at the same time,
	// 1 to 64; 0 means 4.
	Parallel int

	// SpoolDir is the directory for temporary files; empty means [os.TempDir]. The store writes a
	// temporary file for a body of more than 1 MiB that cannot seek, if the layout needs the hash
	// before the upload.
	SpoolDir string

	// With AdoptPrefix, this store claims a prefix even if it belongs to another table, or to an
	// earlier table with the same name. The sweep then removes objects of the other table to which
	// no item of this table refers.
	AdoptPrefix bool

	// Trace, if not nil, is called at the beginning of each call that reads or writes items. For
	// example, Trace begins a span. The op is "create item", "update item", "sweep items" and so
	// on; the key is that of the item, or the prefix of the objects. The call continues with the
	// context that Trace returns, which must come from ctx. So the requests of the call have the
	// values of this context. At its end the call passes its error to done. Module otel has such
	// a function.
	Trace func(ctx context.Context, op store.Kind, key string) (_ context.Context, done func(error))

	// Logger receives a message for each object that a write could not remove. The sweep must
	// remove such an object later. Nil means no log.
	Logger *slog.Logger
}

// Store reads and writes items whose large attributes are objects. Any number of goroutines and
// processes may use it. When a call returns, its goroutines have ended. A Store needs no Close.
type Store struct {
	table  Table
	bucket object.Bucket
	layout Layout
	prefix string
	base   string
	o      Options
	pause  time.Duration // of the first of several tries

	marked chan orphanAges // one slot: the last look at the marker; zero before
}

// New returns a store for the items of a table, with their large attributes in a bucket. It sends
// no request. Nil options mean all defaults. If an option is not valid, the error matches
// [ErrInvalid].
func New(t Table, b object.Bucket, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.Attributes = slices.Clone(o.Attributes)
	if t == nil || b == nil {
		return nil, fmt.Errorf("%w: New needs a table and a bucket, and one of them is nil", ErrInvalid)
	}
	o.Layout = cmp.Or(o.Layout, DefaultLayout())
	o.BaseURI = cmp.Or(o.BaseURI, object.TraitsOf(b).Name)
	o.Parallel = cmp.Or(o.Parallel, defaultParallel)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if err := o.check(); err != nil {
		return nil, err
	}
	prefix, err := o.Layout.prefix(o.Prefix)
	if err != nil {
		return nil, err
	}
	s := &Store{table: t, bucket: b, layout: o.Layout, prefix: prefix, base: o.BaseURI, o: o, pause: 10 * time.Millisecond, marked: make(chan orphanAges, 1)}
	s.marked <- orphanAges{}
	return s, nil
}

func (o Options) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: Options."+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case o.BaseURI == "":
		return bad("BaseURI is empty, and the bucket has no name; set BaseURI to the URI of the bucket")
	case !utf8.ValidString(o.BaseURI) || strings.HasSuffix(o.BaseURI, "/") || strings.ContainsFunc(o.BaseURI, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("BaseURI is %q; it must be a URI that does not end with a slash", o.BaseURI)
	case o.OrphanAge != 0 && !validOrphanAge(o.OrphanAge):
		return bad("OrphanAge is %v; it can be from %v to %v, or 0 for the orphan age of the table", o.OrphanAge, MinOrphanAge, MaxOrphanAge)
	case o.RemoveYoung && !o.RemoveSuperseded:
		return bad("RemoveYoung is set without RemoveSuperseded; set both or none")
	case o.Parallel < 1 || o.Parallel > MaxParallel:
		return bad("Parallel is %d, 1 to %d are allowed", o.Parallel, MaxParallel)
	case o.Attributes != nil && len(o.Attributes) == 0:
		return bad("Attributes is empty; nil selects the attributes that look like references")
	}
	if l, ok := o.Layout.(pynamoDBMateLayout); ok && l.names != nil && o.Attributes == nil {
		return bad("Attributes is nil, but with PynamoDBMateCustomLayout the store cannot recognise references; name the large attributes in Attributes")
	}
	for i, attr := range o.Attributes {
		if err := checkAttr(attr); err != nil {
			return bad("Attributes: %w", err)
		}
		if slices.Contains(o.Attributes[:i], attr) {
			return bad("Attributes names %q twice", attr)
		}
	}
	return o.Layout.base(o.BaseURI)
}

// checkAttr reports why an attribute cannot be a large one.
func checkAttr(attr string) error {
	switch {
	case attr == "":
		return fmt.Errorf("%w: a large attribute has an empty name", ErrInvalid)
	case !utf8.ValidString(attr):
		return fmt.Errorf("%w: the name %q of a large attribute is not valid UTF-8", ErrInvalid, attr)
	case len(escape(attr)) > maxAttr:
		return fmt.Errorf("%w: the name of the large attribute %.300q takes %d bytes in the name of an object; at most %d are allowed", ErrInvalid, attr, len(escape(attr)), maxAttr)
	}
	return nil
}

// item returns the schema of the table, and the key in its canonical form.
func (s *Store) item(ctx context.Context, key Key) (Schema, Key, error) {
	schema, err := s.table.Schema(ctx)
	if err != nil {
		return schema, key, store.MarkNotApplied(err)
	}
	if err := schema.CheckKey(key); err != nil {
		return schema, key, err
	}
	key, err = key.canonical()
	return schema, key, err
}

// perform runs call for one item. An error of call gets the names of the operation and of the item.
func perform[T any](ctx context.Context, s *Store, op store.Kind, key Key, call func(context.Context, Schema, Key) (T, error)) (T, error) {
	return traced(ctx, s, op, key.String(), func(ctx context.Context) (result T, _ error) {
		schema, key, err := s.item(ctx, key)
		if err == nil {
			result, err = call(ctx, schema, key)
		}
		return result, failed(op, schema, key, err)
	})
}

// traced runs a call of the store under Options.Trace.
func traced[T any](ctx context.Context, s *Store, op store.Kind, key string, call func(context.Context) (T, error)) (result T, err error) {
	if s.o.Trace != nil {
		var done func(error)
		ctx, done = s.o.Trace(ctx, op, key)
		err = errNotReturned
		defer func() { done(err) }()
	}
	return call(ctx)
}

// errNotReturned is what Options.Trace gets if a function of the caller ends its goroutine.
var errNotReturned = errors.New("the call did not return, because it panicked or its goroutine ended")

// failed names the operation and the item of a failure, once. If err is nil, the result is nil.
func failed(op store.Kind, schema Schema, key Key, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key.String(), Store: schema.Name, Err: bare(key, err)}
}

// bare returns the error of a request without the name of the item.
func bare(key Key, err error) error {
	if e, ok := err.(*store.OpError); ok && e.Key == key.String() {
		return e.Err
	}
	return err
}

// isLarge reports whether an attribute can be a large one, whatever its value.
func (s *Store) isLarge(attr string) bool {
	return s.o.Attributes == nil || slices.Contains(s.o.Attributes, attr)
}

// ReferenceError says that an attribute of an item has a reference that the store does not
// follow. It matches [ErrForeign] and [store.ErrPermanent].
type ReferenceError struct {
	Key    Key
	Attr   string
	URI    string
	Reason string
}

func (e *ReferenceError) Error() string {
	return fmt.Sprintf("attribute %q of item %v refers to %q, %s", e.Attr, e.Key, e.URI, e.Reason)
}

// Is makes a ReferenceError match ErrForeign.
func (e *ReferenceError) Is(target error) bool { return errors.Is(ErrForeign, target) }

// Outcome returns NotApplied.
func (e *ReferenceError) Outcome() store.Outcome { return store.NotApplied }

// refer reads an attribute of an item. It returns false for a value that is no reference, and
// an error for a reference that is not this item's.
func (s *Store) refer(schema Schema, key Key, attr string, value any) (Reference, bool, *ReferenceError) {
	text, ok := value.(string)
	if !ok || !s.isLarge(attr) {
		return Reference{}, false, nil
	}
	r, err := s.layout.parse(s.base, text)
	if errors.Is(err, errElsewhere) {
		return Reference{}, true, &ReferenceError{key, attr, text, fmt.Sprintf("which is not in the bucket %s; use the store of the other bucket, or write the attribute again", s.base)}
	}
	if err != nil {
		return Reference{}, false, nil
	}
	name, ok := strings.CutPrefix(r.Object, s.prefix)
	if !ok || !s.layout.owns(schema, key, attr, name) {
		return Reference{}, true, &ReferenceError{key, attr, text, fmt.Sprintf("which is not an object of this attribute in the table %q under the prefix %q. Use the table and the prefix with which the attribute was written. If the reference was copied from another item or attribute, write the attribute again", schema.Table, s.prefix)}
	}
	return r, true, nil
}

// unique reports whether no second write can ever refer to the object of this reference. Then
// an item that has lost the reference never gets it again.
func (s *Store) unique(schema Schema, r Reference) bool {
	if l, ok := s.layout.(pynamoDBMateLayout); ok {
		_, id := l.cutID(r.Object)
		return id != ""
	}
	return true
}

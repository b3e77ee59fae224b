package largeitem

import (
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
	// DefaultOrphanAge is how long an object without a reference is kept, MinOrphanAge the least
	// time, and MaxGrace the longest.
	DefaultOrphanAge = 24 * time.Hour
	MinOrphanAge     = time.Hour
	MaxOrphanAge     = 100 * 365 * 24 * time.Hour

	// DefaultParallel is how many objects of one item are uploaded or opened at a time, and
	// MaxParallel the most.
	DefaultParallel = 4
	MaxParallel     = 64

	// DefaultSpoolMemory is the size up to which a stream that must be hashed before its
	// upload is kept in memory, in bytes; a larger one goes into a temporary file.
	DefaultSpoolMemory = 1 << 20
)

// Options are the options of a [Store].
type Options struct {
	// Prefix is what the keys of all objects begin with, at most [MaxPrefix] bytes. A slash
	// is added where it does not end with one. Several tables can share a prefix, unless
	// the layout says otherwise.
	Prefix string

	// BaseURI is the URI of the bucket, s3://BUCKET for example, that references begin with.
	// It is the same for all programs that use the table. Empty means the name of the
	// bucket ([object.Traits]).
	BaseURI string

	// Layout says how objects are called; nil means [DefaultLayout].
	Layout Layout

	// Attributes are the large attributes. Nil means that an attribute is large if it
	// looks like a reference. Name them where users choose the values of other attributes:
	// a text that looks like a reference is refused when it is written, and an error when
	// another program wrote it.
	Attributes []string

	// OrphanAge is how long an object without a reference is kept, from [MinOrphanAge] to [MaxOrphanAge];
	// a write fails that needs more than half of it. 0 means the grace of the table: that of
	// the first program that wrote to it, or what [Store.ChangeOrphanAge] has made of it. A
	// table that has none yet gets this one; there 0 means [DefaultOrphanAge]. Elsewhere a write
	// is refused with a [OrphanAgeError] where this grace is longer than that of the table, and a
	// sweep where it is shorter.
	OrphanAge time.Duration

	// RemoveSuperseded removes objects at once that an item no longer refers to after a
	// write has succeeded, if they are older than the grace. The sweep removes the others. A
	// failure is logged, and left to the sweep.
	RemoveSuperseded bool

	// RemoveYoung lets RemoveSuperseded remove objects of any age. It is safe where no proxy
	// repeats requests: a second copy of the write that created an item, after the item was
	// changed and deleted, would make it anew, with references to what was removed.
	RemoveYoung bool

	// RemoveFailed removes what a write has uploaded at once, also where a condition was
	// refused that can still come true. It is safe where no proxy repeats requests.
	// Otherwise such objects are left to the sweep. What no item can refer to any more is
	// always removed at once.
	RemoveFailed bool

	// Parallel is how many objects of one item are uploaded or opened at a time, 1 to
	// [MaxParallel]; 0 means [DefaultParallel].
	Parallel int

	// SpoolMemory is the size up to which a stream that must be hashed before its upload is
	// kept in memory, in bytes; 0 means [DefaultSpoolMemory]. A larger one goes into a
	// temporary file in SpoolDir; empty means [os.TempDir]. Only layouts that name objects
	// by their content need it, and no body that can seek.
	SpoolMemory int64
	SpoolDir    string

	// AdoptPrefix lets this store take over a prefix that belongs to another table, or to an
	// earlier one of the same name. The sweep then removes the other table's objects.
	AdoptPrefix bool

	// Logger is told what is left to the sweep; nil discards.
	Logger *slog.Logger
}

// Store keeps items whose large attributes are objects. Its methods may be called from any
// number of goroutines, and in any number of processes. It starts no goroutine that
// outlives a call, and has nothing to close.
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

// New returns a store of the items of t with their large attributes in b. It sends
// nothing. Nil options are the defaults. The error matches [ErrInvalid].
func New(t Table, b object.Bucket, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
		o.Attributes = slices.Clone(o.Attributes)
	}
	if t == nil || b == nil {
		return nil, fmt.Errorf("%w: a store needs a table and a bucket", ErrInvalid)
	}
	if o.Layout == nil {
		o.Layout = DefaultLayout()
	}
	if o.BaseURI == "" {
		o.BaseURI = object.TraitsOf(b).Name
	}
	setDefault(&o.Parallel, DefaultParallel)
	setDefault(&o.SpoolMemory, DefaultSpoolMemory)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
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

func setDefault[T comparable](option *T, value T) {
	var zero T
	if *option == zero {
		*option = value
	}
}

func (o Options) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: Options."+format, append([]any{ErrInvalid}, args...)...)
	}
	switch {
	case o.BaseURI == "":
		return bad("Base is needed: the bucket has no name that a reference could begin with")
	case !utf8.ValidString(o.BaseURI) || strings.HasSuffix(o.BaseURI, "/") || strings.ContainsFunc(o.BaseURI, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("Base %q: it must be a URI that does not end with a slash", o.BaseURI)
	case o.OrphanAge != 0 && !validOrphanAge(o.OrphanAge):
		return bad("Grace is %v; %v to %v are allowed, and 0 for that of the table", o.OrphanAge, MinOrphanAge, MaxOrphanAge)
	case o.RemoveYoung && !o.RemoveSuperseded:
		return bad("RemoveYoung is for RemoveSuperseded")
	case o.Parallel < 1 || o.Parallel > MaxParallel:
		return bad("Parallel is %d, 1 to %d are allowed", o.Parallel, MaxParallel)
	case o.SpoolMemory < 0:
		return bad("SpoolMemory is %d bytes", o.SpoolMemory)
	case o.Attributes != nil && len(o.Attributes) == 0:
		return bad("Attributes is empty; nil means those that look like references")
	}
	if l, ok := o.Layout.(pynamoDBMateLayout); ok && l.names != nil && o.Attributes == nil {
		return bad("Attributes is needed with PynamoDBMateCustomLayout, whose references do not look like references")
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
		return fmt.Errorf("%w: a large attribute with an empty name", ErrInvalid)
	case !utf8.ValidString(attr):
		return fmt.Errorf("%w: the name %q of a large attribute is not valid UTF-8", ErrInvalid, attr)
	case len(escape(attr)) > MaxAttr:
		return fmt.Errorf("%w: the name of the large attribute %.300q has %d bytes in the name of an object, at most %d are allowed", ErrInvalid, attr, len(escape(attr)), MaxAttr)
	}
	return nil
}

// item finds out what the key is of, and returns it in its canonical form.
func (s *Store) item(ctx context.Context, key Key) (Schema, Key, error) {
	schema, err := s.table.Schema(ctx)
	if err != nil {
		return schema, key, store.MarkNotApplied(err)
	}
	if err := schema.CheckKey(key); err != nil {
		return schema, key, err
	}
	if key.HasSort() {
		key, err = NewKey(key.Partition, key.Sort)
	} else {
		key, err = NewKey(key.Partition)
	}
	return schema, key, err
}

// failed names the operation and the item of a failure, once.
func failed(op store.Kind, schema Schema, key Key, err error) error {
	return &store.OpError{Op: op, Key: key.String(), Store: schema.Name, Err: bare(key, err)}
}

// bare returns the error of a request without the name of the item.
func bare(key Key, err error) error {
	if e, ok := err.(*store.OpError); ok && e.Key == key.String() {
		return e.Err
	}
	return err
}

// isLarge reports whether the value of an attribute can be a reference, apart from its
// form.
func (s *Store) isLarge(attr string) bool {
	return s.o.Attributes == nil || slices.Contains(s.o.Attributes, attr)
}

// ReferenceError says that an attribute of an item has a reference which the store does
// not follow. It matches [ErrForeign], and [store.ErrPermanent].
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

// Outcome is NotApplied.
func (e *ReferenceError) Outcome() store.Outcome { return store.NotApplied }

// refer reads what an item has as an attribute. It returns false for a value that is no
// reference, and an error for a reference that is not this item's.
func (s *Store) refer(schema Schema, key Key, attr string, value any) (Reference, bool, *ReferenceError) {
	text, ok := value.(string)
	if !ok || !s.isLarge(attr) {
		return Reference{}, false, nil
	}
	r, err := s.layout.parse(s.base, text)
	if errors.Is(err, errElsewhere) {
		return Reference{}, true, &ReferenceError{key, attr, text, fmt.Sprintf("which is in another bucket than %s: use the store of that bucket, or write the attribute again", s.base)}
	}
	if err != nil {
		return Reference{}, false, nil
	}
	name, ok := strings.CutPrefix(r.Object, s.prefix)
	if !ok || !s.layout.owns(schema, key, attr, name) {
		return Reference{}, true, &ReferenceError{key, attr, text, fmt.Sprintf("which is not an object of this attribute in the table %q under the prefix %q: name the table and the prefix with which it was written, or, if the reference was copied from another item, write the attribute again", schema.Table, s.prefix)}
	}
	return r, true, nil
}

// unique reports whether no second write can ever refer to the object of a reference that
// is this item's: it comes back to no item that has lost it.
func (s *Store) unique(schema Schema, r Reference) bool {
	if l, ok := s.layout.(pynamoDBMateLayout); ok {
		_, id := l.cutID(r.Object)
		return id != ""
	}
	return true
}

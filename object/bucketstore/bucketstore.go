package bucketstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// MaxPrefix is the longest prefix, in bytes. A prefix of this length and any valid key of a
// register fit into the key of an object.
const MaxPrefix = 256

// Options are the options of [New].
type Options struct {
	// Trusted says that the bucket is known to honour conditions, so New does not probe it.
	// The [object.Traits] of the bucket can say so too.
	Trusted bool

	// Unsafe lists the conditions that the user allows the server to ignore:
	// [object.PutIfAbsent], [object.PutIfMatch]. If the server ignores one of them, two
	// programs can hold the same lock.
	Unsafe []object.Ability

	// EscapeFinalDots is for a bucket that removes a dot at the end of a segment of a key. The names of
	// objects then have !2E in place of such a dot. All programs that use the same registers must set it
	// alike.
	EscapeFinalDots bool

	// MinTTL is the shortest lease that makes sense; see [store.Traits].
	MinTTL time.Duration

	// Pause bounds the random pause before a request is sent again; see [engine.Options].
	Pause time.Duration

	// Logger receives the outcomes of writes whose reply was lost, and the keys that the
	// probe could not remove. Nil means no log.
	Logger *slog.Logger
}

// Store is a space of registers in a bucket. It may be used by any number of goroutines, starts
// none, and needs no closing. Package engine contains its methods, and decides the outcome of each
// write.
type Store struct {
	*engine.Store
	d driver
}

// New returns a store whose registers are the objects of b below a prefix. The prefix is empty, or
// a valid key of a register of at most [MaxPrefix] bytes. New sends no request.
func New(b object.Bucket, prefix string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
		if len(prefix) > MaxPrefix {
			return nil, fmt.Errorf("prefix: %w: the prefix has %d bytes, at most %d are allowed", store.ErrKey, len(prefix), MaxPrefix)
		}
		prefix += "/"
	}
	for _, a := range o.Unsafe {
		if a != object.PutIfAbsent && a != object.PutIfMatch {
			return nil, fmt.Errorf("bucketstore: Options.Unsafe: %q is not a condition that this store uses; allowed are put-if-absent and put-if-match", a)
		}
	}
	of := object.TraitsOf(b)
	name := ""
	if of.Name != "" {
		name = strings.TrimSuffix(of.Name+"/"+prefix, "/")
	}
	trusted := of.Trusted || o.Trusted
	d := driver{b, prefix, o.EscapeFinalDots}
	traits := store.Traits{Name: name, Local: of.Local, Trusted: trusted, MinTTL: o.MinTTL}
	if of.ID != "" {
		traits.ID, traits.Prefix = "bucketstore:"+of.ID, prefix
	}
	registers, err := engine.New(d, &engine.Options{
		Traits:              traits,
		Trusted:             trusted,
		Tags:                true,
		Pause:               o.Pause,
		OnConditionsIgnored: func(found engine.ConditionsIgnoredError) error { return o.refuse(name, found) },
		Logger:              o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("bucketstore: %w", err)
	}
	return &Store{registers, d}, nil
}

// Bucket returns the bucket of the registers.
func (s *Store) Bucket() object.Bucket { return s.d.bucket }

// ObjectKey returns the key of the object in which the store writes a register.
func (s *Store) ObjectKey(key string) string { return s.d.objectKey(key) }

// driver carries out single requests for the engine.
type driver struct {
	bucket object.Bucket
	prefix string // ends with a slash unless it is empty

	escapeFinalDots bool
}

// Read implements [engine.Driver].
func (d driver) Read(ctx context.Context, key string, seen engine.Tag) (engine.Stored, error) {
	name := d.objectKey(key)
	var opts *object.GetOptions
	if seen != "" {
		opts = &object.GetOptions{IfChanged: object.Version(seen)}
	}
	body, info, err := object.ReadAll(ctx, d.bucket, name, engine.MaxText, opts)
	err = bare(err)
	switch {
	case errors.Is(err, object.ErrNotChanged):
		err = engine.ErrUnchanged
	case errors.Is(err, store.ErrTooLarge):
		err = fmt.Errorf("%w: the object has %d bytes, more than a register can have, so another program wrote the object", store.ErrCorrupt, info.Size)
	}
	if err != nil {
		return engine.Stored{}, err
	}
	e, err := engine.Decode(body)
	if err != nil {
		return engine.Stored{}, fmt.Errorf("object %q: %w", name, err)
	}
	return engine.Stored{Envelope: e, Tag: engine.Tag(info.Version), Written: info.Modified, Now: info.Now}, nil
}

// ReadRaw implements [engine.RawReader].
func (d driver) ReadRaw(ctx context.Context, key string) (body []byte, on engine.Stored, err error) {
	body, info, err := object.ReadAll(ctx, d.bucket, d.objectKey(key), engine.MaxText, nil)
	if errors.Is(err, store.ErrTooLarge) {
		err = fmt.Errorf("%w: the object has %d bytes, more than a register can have, so another program wrote the object. Move the object to another key with the tools of the storage service", store.ErrTooLarge, info.Size)
	}
	// The tag is the condition. The nonce only says that the object exists.
	return body, engine.Stored{Envelope: engine.Envelope{Nonce: "damaged"}, Tag: engine.Tag(info.Version)}, bare(err)
}

// Write implements [engine.Driver].
func (d driver) Write(ctx context.Context, key string, on engine.Stored, e engine.Envelope) (engine.Tag, error) {
	opts := &object.PutOptions{ContentType: "application/json", IfAbsent: on.Absent(), IfMatch: object.Version(on.Tag)}
	info, err := d.bucket.Put(ctx, d.objectKey(key), bytes.NewReader(e.Encode()), opts)
	err = bare(err)
	if errors.Is(err, object.ErrBusy) && !store.InDoubt(err) {
		err = fmt.Errorf("%w: %w", engine.ErrBusy, err)
	}
	return engine.Tag(info.Version), err
}

// bare returns the error of a bucket without the operation and the key of the object, since
// the engine adds those of the register.
func bare(err error) error {
	if of, ok := err.(*store.OpError); ok {
		return of.Err
	}
	return err
}

// Remove implements [engine.Remover].
func (d driver) Remove(ctx context.Context, key string) error {
	return d.bucket.Delete(ctx, d.objectKey(key), nil)
}

// List implements [engine.Driver]. It reads no bodies: a listing costs one request for
// each page of the bucket's listing, and one more below a prefix. It skips objects whose
// names are not those of registers.
func (d driver) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	dirs := []string{d.dir(prefix)}
	if prefix != "" {
		dirs = append(dirs, d.prefix+longDir)
	}
	return registers(ctx, d, prefix, dirs, func(key string, info object.Info) (string, bool) {
		return key, info.Size != engine.TombstoneSize
	})
}

// ListTags has the contract of [store.TagLister]. The tag of a register is the version of its
// object: every write of a register makes a different object. ListTags sends one request for each
// page of the bucket's listing. It also yields deleted registers. It leaves out registers with very
// long keys, because their objects are in a separate directory.
//
// A Store alone is not a [store.TagLister], because it has no method ListCost. A
// backend adds ListCost if a listing of its bucket shows each write that the server
// acknowledged before the listing began.
func (s *Store) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return engine.Listing(ctx, s.Store, store.OpListTags, prefix, func(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
		return registers(ctx, s.d, prefix, []string{s.d.dir(prefix)}, func(key string, info object.Info) (store.Tagged, bool) {
			return store.Tagged{Key: key, Tag: string(info.Version)}, info.Version != ""
		})
	})
}

// dir returns the directory of the registers below prefix whose names are not too long.
func (d driver) dir(prefix string) string {
	if prefix == "" {
		return d.prefix
	}
	return d.prefix + d.encodeDirs(prefix) + "/"
}

// registers calls show for each register below prefix in these directories, and yields the
// results. It skips those for which show returns false.
func registers[T any](ctx context.Context, d driver, prefix string, dirs []string, show func(key string, info object.Info) (T, bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		below := ""
		if prefix != "" {
			below = prefix + "/"
		}
		for _, dir := range dirs {
			for info, err := range d.bucket.List(ctx, dir, nil) {
				if err != nil {
					var none T
					yield(none, bare(err))
					return
				}
				key, ok := d.decodeKey(strings.TrimPrefix(info.Key, d.prefix))
				if !ok || !strings.HasPrefix(key, below) {
					continue
				}
				if t, ok := show(key, info); ok && !yield(t, nil) {
					return
				}
			}
		}
	}
}

// UnsafeError says that a bucket ignores conditions. It matches [store.ErrUnsafe]. Nothing
// was written except the objects of the probe, and the probe removed these objects.
type UnsafeError struct {
	Name    string // name of the store
	Missing []*object.UnsupportedError
}

func (e *UnsafeError) Error() string {
	var found, names []string
	for _, m := range e.Missing {
		found = append(found, m.Found)
		names = append(names, string(m.Ability))
	}
	return fmt.Sprintf("%s ignores conditions, so two programs could hold one lock: %s (holdfast doctor reports the details; unsafe=%s in the URL accepts the risk)",
		e.Name, strings.Join(found, "; "), strings.Join(names, ","))
}

// StoreName returns Name, because the text of the error contains it; see [store.OpError].
func (e *UnsafeError) StoreName() string { return e.Name }

// Is makes an UnsafeError match store.ErrUnsafe.
func (e *UnsafeError) Is(target error) bool { return target == store.ErrUnsafe }

// Outcome returns NotApplied.
func (e *UnsafeError) Outcome() store.Outcome { return store.NotApplied }

// refuse returns the error for what a probe of the store of this name has found, or nil if the
// user accepts that.
func (o *Options) refuse(name string, found engine.ConditionsIgnoredError) error {
	e := &UnsafeError{Name: name}
	for ability, text := range map[object.Ability]string{object.PutIfAbsent: found.Create, object.PutIfMatch: found.Swap} {
		switch {
		case text == "":
		case !slices.Contains(o.Unsafe, ability):
			e.Missing = append(e.Missing, &object.UnsupportedError{Ability: ability, Found: text})
		case o.Logger != nil:
			o.Logger.Warn("this store ignores conditions; the option Unsafe accepts the risk", "store", name, "found", text)
		}
	}
	if len(e.Missing) == 0 {
		return nil
	}
	slices.SortFunc(e.Missing, func(a, b *object.UnsupportedError) int { return strings.Compare(string(a.Ability), string(b.Ability)) })
	return e
}

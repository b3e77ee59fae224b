package bucketstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultTries is how often a write is sent at most; see [Options].
	DefaultTries = 5

	// MaxPrefix is the longest prefix, in bytes. It leaves room for every key.
	MaxPrefix = 256
)

// Options are the options of [New].
type Options struct {
	// Name names the store for people, usually as a URL without secrets. Empty
	// means the name of the bucket with the prefix.
	Name string

	// Trusted says that the bucket is known to honour conditions: it is not probed.
	// It is also taken from the [object.Traits] of the bucket.
	Trusted bool

	// Unsafe names conditions that the user insists on doing without:
	// [object.PutIfAbsent], [object.PutIfMatch]. Without them two programs can hold
	// the same lock.
	Unsafe []object.Ability

	// Tries is how often a write is sent at most while the store answers that
	// another write is in flight, or not at all, and the register is seen to be
	// unchanged. 1 to 100; 0 means [DefaultTries]. Between two tries lies a random
	// pause that grows to 2 s.
	Tries int

	// MinTTL is told in the traits: the shortest lease that makes sense.
	MinTTL time.Duration

	// OnVerified is called when the probe has passed, so that the user can remember it
	// and set Trusted the next time. Nil calls nothing.
	OnVerified func()

	// Log is told of what was settled and of what the probe found. Nil discards.
	Log *slog.Logger
}

// Store is a space of registers in a bucket. It may be used by any number of
// goroutines, starts none, and needs no closing.
type Store struct {
	bucket object.Bucket
	prefix string // ends with a slash unless it is empty
	traits store.Traits
	unsafe []object.Ability
	tries  int
	log    *slog.Logger
	passed func()
	probe  probe
}

var (
	_ store.Store             = (*Store)(nil)
	_ store.Lister            = (*Store)(nil)
	_ store.ConditionalGetter = (*Store)(nil)
	_ store.Describer         = (*Store)(nil)
)

// New returns the registers below prefix in b. The prefix is empty or a valid key
// of a register of at most [MaxPrefix] bytes; it is used as it is. New sends
// nothing.
func New(b object.Bucket, prefix string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			return nil, fmt.Errorf("prefix: %w", err)
		}
		if len(prefix) > MaxPrefix {
			return nil, fmt.Errorf("prefix: %w: %d bytes, at most %d are allowed", store.ErrKey, len(prefix), MaxPrefix)
		}
		prefix += "/"
	}
	if o.Tries == 0 {
		o.Tries = DefaultTries
	}
	if o.Tries < 1 || o.Tries > 100 {
		return nil, fmt.Errorf("bucketstore: Options.Tries is %d, not within 1 and 100", o.Tries)
	}
	for _, a := range o.Unsafe {
		if a != object.PutIfAbsent && a != object.PutIfMatch {
			return nil, fmt.Errorf("bucketstore: Options.Unsafe: a register does not need %q", a)
		}
	}
	of := object.TraitsOf(b)
	name := o.Name
	if name == "" && of.Name != "" {
		name = strings.TrimSuffix(of.Name+"/"+prefix, "/")
	}
	s := &Store{
		bucket: b,
		prefix: prefix,
		unsafe: o.Unsafe,
		tries:  o.Tries,
		log:    cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		passed: o.OnVerified,
		traits: store.Traits{
			Name:    name,
			Local:   of.Local,
			Trusted: of.Trusted || o.Trusted,
			MinTTL:  o.MinTTL,
		},
	}
	if of.ID != "" {
		s.traits.ID, s.traits.Prefix = "bucketstore:"+of.ID, prefix
	}
	s.probe.slot = make(chan struct{}, 1)
	return s, nil
}

// Traits implements [store.Describer].
func (s *Store) Traits() store.Traits { return s.traits }

// Bucket returns the bucket that the registers lie in.
func (s *Store) Bucket() object.Bucket { return s.bucket }

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	value, v, _, err := s.GetInfo(ctx, key)
	return value, v, err
}

// GetInfo is Get, and what the bucket said of the object that it read.
func (s *Store) GetInfo(ctx context.Context, key string) ([]byte, store.Version, object.Info, error) {
	state, info, err := s.get(ctx, key, nil)
	if err == nil && state.record.deleted {
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, "", object.Info{}, opError("get", key, err)
	}
	return state.record.value, state.version(), info, nil
}

// GetIfChanged implements [store.ConditionalGetter]. An unchanged register costs a
// request without a body.
func (s *Store) GetIfChanged(ctx context.Context, key string, seen store.Version) ([]byte, store.Version, bool, error) {
	var opts *object.GetOptions
	if v, err := parseVersion(seen); err == nil {
		opts = &object.GetOptions{IfChanged: v.object}
	}
	state, _, err := s.get(ctx, key, opts)
	switch {
	case errors.Is(err, object.ErrNotChanged):
		return nil, seen, false, nil
	case err == nil && state.record.deleted:
		err = store.ErrNotFound
	}
	if err != nil {
		return nil, "", true, opError("get", key, err)
	}
	if v := state.version(); v != seen {
		return state.record.value, v, true, nil
	}
	return nil, seen, false, nil
}

// get reads the state of a register, tombstones too.
func (s *Store) get(ctx context.Context, key string, opts *object.GetOptions) (state, object.Info, error) {
	if err := store.CheckKey(key); err != nil {
		return state{}, object.Info{}, err
	}
	body, info, err := object.ReadAll(ctx, s.bucket, s.ObjectKey(key), maxBody, opts)
	if errors.Is(err, store.ErrTooLarge) {
		err = fmt.Errorf("%w: an object of %d bytes lies where a register belongs", store.ErrCorrupt, info.Size)
	}
	if err != nil {
		return state{}, info, err
	}
	r, err := decodeRecord(body)
	if err != nil {
		return state{}, info, fmt.Errorf("%w: object %q: %w", store.ErrCorrupt, s.ObjectKey(key), err)
	}
	return state{r, info.Version}, info, nil
}

// Put implements [store.Store]. Its conflicts are [*store.ConflictError]; they
// carry the state that was read to settle the conflict.
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	err := store.CheckPut(key, value)
	var v store.Version
	if err == nil {
		v, err = s.write(ctx, key, prev, record{value: value})
	}
	if err != nil {
		return "", opError("put", key, err)
	}
	return v, nil
}

// Delete implements [store.Store]. It writes a tombstone.
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	err := store.CheckDelete(key, prev)
	if err == nil {
		_, err = s.write(ctx, key, prev, record{deleted: true})
	}
	if err != nil {
		return opError("delete", key, err)
	}
	return nil
}

// List implements [store.Lister]. It reads no bodies: a listing costs one request
// for each page of the bucket's listing, and one more below a prefix. Objects that
// are not named as registers are passed over.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		dirs := []string{s.prefix}
		below := ""
		if prefix != "" {
			if err := store.CheckKey(prefix); err != nil {
				yield("", opError("list", prefix, err))
				return
			}
			below = prefix + "/"
			dirs = []string{s.prefix + encodeDirs(prefix) + "/", s.prefix + longDir}
		}
		for _, dir := range dirs {
			for info, err := range s.bucket.List(ctx, dir, nil) {
				if err != nil {
					yield("", opError("list", prefix, err))
					return
				}
				key, ok := decodeKey(strings.TrimPrefix(info.Key, s.prefix))
				if !ok || info.Size == TombstoneSize || !strings.HasPrefix(key, below) {
					continue
				}
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

func opError(op, key string, err error) error {
	return &store.OpError{Op: op, Key: key, Err: err}
}

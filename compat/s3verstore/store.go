package s3verstore

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/store"
)

// Scheme is the scheme of the URLs of this store.
const Scheme = "s3+versioned"

// maxPrefix is the longest prefix, in bytes.
const maxPrefix = 256

// Store contains the registers below one prefix in a bucket with versioning. Any number of
// goroutines may use it. When a call returns, its goroutines have ended. A Store needs no Close.
type Store struct {
	bucket      *s3bucket.Bucket
	versions    s3bucket.Versions
	prefix      string // with a slash at its end, or empty
	where       string // for people
	id          string // the bucket, for programs
	o           Options
	bucketState bucketState
	cache       cache
}

var (
	_ store.Store             = (*Store)(nil)
	_ store.UncommittedReader = (*Store)(nil)
	_ store.Lister            = (*Store)(nil)
	_ store.Resolver          = (*Store)(nil)
	_ store.UnsyncedPutter    = (*Store)(nil)
	_ store.Describer         = (*Store)(nil)
)

// New returns a Store for the registers below a prefix. The bucket must have versioning enabled.
// The prefix is a valid key of at most 256 bytes, or empty. New sends no request. The first call of
// the Store checks the bucket.
func New(bucket *s3bucket.Bucket, prefix string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	if bucket == nil {
		return nil, fmt.Errorf("s3verstore: %w: the bucket is nil", store.ErrMisconfigured)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" && (store.CheckKey(prefix) != nil || len(prefix) > maxPrefix) {
		return nil, fmt.Errorf("s3verstore: %w: the prefix %.80q is not a valid key of at most %d bytes", store.ErrMisconfigured, prefix, maxPrefix)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Store{bucket: bucket, versions: bucket.Versions(), where: Scheme + "://" + bucket.Name(), o: o}
	s.id = Scheme + strings.TrimPrefix(bucket.Traits().ID, "s3")
	if prefix != "" {
		s.prefix = prefix + "/"
		s.where += "/" + prefix
	}
	s.bucketState.slot = make(chan struct{}, 1)
	s.cache.registers = map[string]*register{}
	return s, nil
}

// Traits implements [store.Describer].
func (s *Store) Traits() store.Traits {
	return store.Traits{
		Name:   s.where,
		ID:     s.id,
		Prefix: s.prefix,
		// The store uses no conditional requests, so nothing has to be probed.
		Trusted:      true,
		MinTTL:       4*s.o.SettleDelay + ttlBeyondSettles,
		MinWriteTime: s.o.SettleDelay,
	}
}

// SettleDelay returns [Options].SettleDelay: the wait between a PUT and the listing that shows the
// outcome of the write. A write takes at least this time.
func (s *Store) SettleDelay() time.Duration { return s.o.SettleDelay }

// PutLifetime returns [Options].PutLifetime.
func (s *Store) PutLifetime() time.Duration { return s.o.PutLifetime }

func (s *Store) opError(op store.Kind, key string, err error) error {
	if err == nil {
		return nil
	}
	return &store.OpError{Op: op, Key: key, Store: s.where, Err: err}
}

// begin makes the checks that every call needs first.
func (s *Store) begin(ctx context.Context, key string) (*register, error) {
	if err := store.CheckKey(key); err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.register(key), nil
}

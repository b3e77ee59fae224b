// Package s3store stores registers in Amazon S3, or on another server that speaks the S3 protocol
// and checks conditional writes. It uses package bucketstore on a bucket of package s3bucket. The
// comments of these two packages describe the objects, the outcomes, the probe and the rights.
// Package s3store adds the age of a register by the store's own clock.
//
//	s, err := s3store.Open(ctx, "s3://my-bucket/app?region=eu-central-1", nil)
//
// # Requests
//
//   - A write is one PUT. A refused write costs one more GET, which reads the present state.
//   - A read is one GET, without a body if the register has not changed.
//   - Before the first write to a server that is not known to honour conditions, the Store sends
//     the six requests of the probe.
//   - Before the first write of a Store without [Options].Trusted, the Store searches the bucket
//     for other locks, as the next section describes: one LIST; or two LISTs if the Store has a
//     prefix and the bucket has more than a thousand objects. Such locks exist only in a bucket
//     with versioning. So if the probe shows that the bucket has no versions, the Store does not
//     search.
//
// # Other stores and other programs
//
// If a store of package s3verstore (s3+versioned://) had the same prefix, two programs could get
// the same lock. So this Store searches for registers of package s3verstore before its first write.
// A Store of s3verstore searches for registers of this package before it creates a register. If a
// Store finds such registers, it refuses all writes with [store.ErrUnsafe]. The check is only about
// the same prefix: under a longer prefix, either package may store its registers.
//
// An older program stores a lock as the versions of an object. That program ignores the locks of
// this package, and this package ignores the locks of that program; see package s3verstore. The
// Store refuses to create a register with the name of such a lock, with [store.ErrUnsafe].
// [Store.ForeignLocks] repeats the search when the program calls it.
//
// The search covers the first thousand objects of the root of the bucket and of the prefix, if the
// rights allow it. The search does not see objects that another program creates later or at the
// same moment. The command "holdfast doctor" searches again and reports such objects.
//
// # Age
//
// An answer of the server contains the headers Date and Last-Modified, both by the server's clock.
// Their difference is the age of the register. The Store subtracts one second for the granularity
// of Last-Modified, and [Options].MaxClockSkew. It reports the age only if the answer came from no
// cache, and if Date differs by at most MaxClockSkew from this machine's clock. So a renewed lease
// does not look old if one of many servers has a wrong clock.
package s3store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/foreignlocks"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultMaxClockSkew is the default of [Options].MaxClockSkew.
	DefaultMaxClockSkew = bucketstore.DefaultMaxClockSkew

	// MinTTL is the shortest useful TTL of a lease. Most requests take tens of milliseconds, but a
	// few requests take a second.
	MinTTL = 2 * time.Second
)

// Options are the options of [New].
type Options struct {
	// Trusted says that the server is known to check conditions, and that an earlier run found no
	// locks of another program and no registers of package s3verstore. Amazon S3 needs no probe,
	// even if Trusted is false.
	Trusted bool

	// Unsafe lists the conditions that the server may ignore: the user accepts this risk.
	Unsafe []object.Ability

	// MaxClockSkew is the largest accepted difference between the store's clock and this machine's
	// clock. The Store also subtracts MaxClockSkew from every age. It is at least 1 s; 0 means
	// [DefaultMaxClockSkew].
	MaxClockSkew time.Duration

	// OnVerified, if not nil, is called after a successful probe, if the search has found no locks
	// of another program and no registers of package s3verstore. The program can store this result
	// and set Trusted in a later run.
	OnVerified func()

	// Logger receives the outcomes of writes whose reply was lost, and the results of the checks.
	// Nil means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix of a bucket. Any number of goroutines may use it.
// It starts no goroutine, and needs no Close.
type Store struct {
	*bucketstore.Aged
	bucket *s3bucket.Bucket
	prefix string // ends with a slash unless it is empty

	trusted      bool
	onVerified   func()
	checking     chan struct{}                      // held by the goroutine that looks
	foreignLocks atomic.Pointer[foreignlocks.Found] // what was found before the first write
}

var (
	_ store.AgeReader = (*Store)(nil)
	_ store.TagLister = (*Store)(nil)
)

// New returns a Store for the registers below a prefix in a bucket. It sends no request.
func New(bucket *s3bucket.Bucket, prefix string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" && bucket.ProbePrefix() == s3bucket.DefaultProbePrefix {
		// Below the prefix there are rights to write.
		bucket = bucket.WithProbePrefix(prefix + "/" + s3bucket.DefaultProbePrefix)
	}
	if len(o.Unsafe) > 0 {
		bucket = bucket.WithAbilities(o.Unsafe...)
	}
	if o.Trusted {
		bucket = bucket.WithAbilities(object.PutIfAbsent, object.PutIfMatch)
	}
	// The registers probe the server by themselves, with fewer requests.
	registers := bucket.WithAbilities(object.PutIfAbsent, object.PutIfMatch)
	s := &Store{bucket: bucket, trusted: o.Trusted, onVerified: o.OnVerified, checking: make(chan struct{}, 1)}
	if prefix != "" {
		s.prefix = prefix + "/"
	}
	var err error
	s.Aged, err = bucketstore.NewAged(registers, prefix, o.MaxClockSkew, &bucketstore.Options{
		Trusted: o.Trusted,
		Unsafe:  o.Unsafe,
		MinTTL:  MinTTL,
		Logger:  o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Verify tests whether the server checks conditions, and searches for other locks in the bucket. If
// the result is already known, Verify sends no request. The first write calls Verify; see
// [engine.Store.Verify].
func (s *Store) Verify(ctx context.Context) error {
	if err := s.Store.Verify(ctx); err != nil || s.trusted || s.foreignLocks.Load() != nil {
		return err
	}
	select {
	case s.checking <- struct{}{}:
		defer func() { <-s.checking }()
	case <-ctx.Done():
		return store.CheckContext(ctx)
	}
	if s.foreignLocks.Load() != nil {
		return nil
	}
	found := &foreignlocks.Found{}
	if !s.bucket.Unversioned() {
		all, err := s.findForeignLocks(ctx)
		if err != nil && !errors.Is(err, store.ErrDenied) {
			return store.MarkNotApplied(fmt.Errorf("cannot search the bucket for other locks: %w", err))
		}
		if all != nil {
			found = all
		}
	}
	s.foreignLocks.Store(found)
	if found.Empty() && s.onVerified != nil {
		s.onVerified()
	}
	return nil
}

// ForeignLocks contains the keys of locks of other programs in the bucket. A [Store] ignores these
// locks, and the other programs ignore the locks of the Store; see the package comment.
type ForeignLocks struct {
	// Legacy lists the locks of the older program below the prefix. LegacyAtRoot lists its locks at
	// the root of the bucket, without those below the prefix.
	Legacy, LegacyAtRoot []string

	// Other lists the registers of package s3verstore below the prefix. Shared lists those of them
	// whose Store has exactly this prefix. SharedText explains Shared and says what to do. It is
	// empty if Shared is empty.
	Other, Shared []string
	SharedText    string

	// Objects lists objects of other programs among the locks, sessions and checkpoints, at most ten. A
	// program that writes objects there can overwrite a lock.
	Objects []string
}

// ForeignLocks searches the bucket for locks of other programs. The type ForeignLocks describes the
// result.
func (s *Store) ForeignLocks(ctx context.Context) (*ForeignLocks, error) {
	found, err := s.findForeignLocks(ctx)
	if err != nil {
		return nil, err
	}
	locks := &ForeignLocks{Legacy: found.Legacy, LegacyAtRoot: found.LegacyAtRoot, Other: found.Other, Shared: found.Shared(""), Objects: found.Objects}
	if len(locks.Shared) > 0 {
		locks.SharedText = found.SharedText(locks.Shared)
	}
	return locks, nil
}

func (s *Store) findForeignLocks(ctx context.Context) (*foreignlocks.Found, error) {
	return foreignlocks.Find(ctx, s.bucket.Versions(), s.prefix, foreignlocks.Versioned, func(ctx context.Context, prefix string) (objects []foreignlocks.Object, all bool, err error) {
		const most = 1000
		for info, err := range s.bucket.List(ctx, prefix, nil) {
			if err != nil {
				return nil, false, err
			}
			objects = append(objects, foreignlocks.Object{Key: info.Key, Size: info.Size})
			if len(objects) == most {
				return objects, false, nil // without a request for the next page
			}
		}
		return objects, true, nil
	})
}

// Put implements [store.Store]; see package bucketstore. It refuses to create a register with the
// name of a lock of another program. It also refuses to write if package s3verstore has registers
// with this prefix.
func (s *Store) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	if store.CheckPut(key, value) == nil {
		if err := s.mayWrite(ctx, store.OpPut, key, prev); err != nil {
			return "", err
		}
	}
	return s.Store.Put(ctx, key, prev, value)
}

// Delete implements [store.Store]; see package bucketstore.
func (s *Store) Delete(ctx context.Context, key string, prev store.Version) error {
	if store.CheckDelete(key, prev) == nil {
		if err := s.mayWrite(ctx, store.OpDelete, key, prev); err != nil {
			return err
		}
	}
	return s.Store.Delete(ctx, key, prev)
}

func (s *Store) mayWrite(ctx context.Context, op store.Kind, key string, prev store.Version) error {
	err := store.CheckContext(ctx)
	if err == nil {
		err = s.Verify(ctx)
	}
	if found := s.foreignLocks.Load(); err == nil && found != nil {
		err = store.MarkNotApplied(found.Refuse(key, prev == ""))
	}
	if err != nil {
		err = &store.OpError{Op: op, Key: key, Store: store.TraitsOf(s).Name, Err: err}
	}
	return err
}

// Open returns a [Store] for the registers that a URL names; see [s3bucket.Config]. It sends no
// request.
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	c, err := s3bucket.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o := *cmp.Or(opts, &Options{})
	b, err := c.Open(ctx, &s3bucket.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	o.Unsafe = slices.Concat(o.Unsafe, c.Unsafe())
	return New(b, c.Prefix, &o)
}

// List implements [store.Lister]; see package bucketstore. If the names need more than 32 MiB (the
// length and 16 bytes for each name), List ends with an error.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return awscall.BoundNames(s.Store.List(ctx, prefix))
}

// ListCost implements [store.TagLister]. On Amazon S3 a LIST costs as much as 12.5 GETs.
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 13, Keys: 1000} }

// Bucket returns the same bucket as S3Bucket, as an [object.Bucket].
func (s *Store) Bucket() object.Bucket { return s.bucket }

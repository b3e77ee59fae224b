// Package azblobstore stores registers in Azure Blob Storage. It uses package bucketstore on a bucket of
// package azblobbucket. The comments of these two packages describe the blobs, the outcomes and the probe.
//
//	s, err := azblobstore.Open(ctx, "azblob://ACCOUNT/CONTAINER/app", nil)
//
// A write is one Put Blob. A refused write costs one more Get Blob, which reads the present state. A read is one
// Get Blob, without a body if the register has not changed.
//
// # Names
//
// A register is the blob of its key below the prefix, with the suffix .json. Azure removes a dot at the end
// of a segment of a name, so the Store writes !2E for such a dot.
//
// # Age
//
// An answer of the service contains the headers Date and Last-Modified, both by the service's clock. Their
// difference is the age of the register. The Store subtracts one second for the granularity, and
// [Options].MaxClockSkew. It reports the age only if Date differs by at most MaxClockSkew from this machine's
// clock. So a renewed lease does not look old if one of many servers has a wrong clock.
package azblobstore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultMaxClockSkew is the default of [Options].MaxClockSkew.
	DefaultMaxClockSkew = 60 * time.Second

	// MinTTL is the shortest useful TTL of a lease. Most requests take tens of milliseconds, but a
	// few requests take a second.
	MinTTL = 2 * time.Second

	granularity = time.Second // of Last-Modified and Date
)

// Options are the options of [New].
type Options struct {
	// Trusted says that an earlier run has found that the server checks conditions. Azure needs no probe.
	Trusted bool

	// Unsafe lists the conditions that the server may ignore: the user accepts this risk.
	Unsafe []object.Ability

	// MaxClockSkew is the largest accepted difference between the store's clock and this machine's
	// clock. The Store also subtracts MaxClockSkew from every age. It is at least 1 s; 0 means
	// [DefaultMaxClockSkew].
	MaxClockSkew time.Duration

	// Logger receives the outcomes of writes whose reply was lost, and the results of the probe.
	// Nil means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix of a container. Any number of goroutines may use it. It
// starts no goroutine, and needs no Close.
type Store struct {
	*bucketstore.Store
	safety time.Duration
}

var (
	_ store.Store             = (*Store)(nil)
	_ store.AgeReader         = (*Store)(nil)
	_ store.Lister            = (*Store)(nil)
	_ store.ConditionalGetter = (*Store)(nil)
	_ store.Describer         = (*Store)(nil)
	_ store.TagLister         = (*Store)(nil)
)

// New returns a Store for the registers below a prefix in a bucket. It sends no request.
func New(bucket *azblobbucket.Bucket, prefix string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	o.MaxClockSkew = cmp.Or(o.MaxClockSkew, DefaultMaxClockSkew)
	if o.MaxClockSkew < time.Second {
		return nil, fmt.Errorf("azblobstore: Options.MaxClockSkew is %v; it must be at least 1s", o.MaxClockSkew)
	}
	// The registers probe the server by themselves, with fewer requests.
	registers, err := bucketstore.New(bucket.WithAbilities(object.PutIfAbsent, object.PutIfMatch), prefix, &bucketstore.Options{
		Trusted: o.Trusted, Unsafe: o.Unsafe, MinTTL: MinTTL, EscapeFinalDots: true, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Store{registers, o.MaxClockSkew}, nil
}

// Open returns a [Store] for the registers that a URL names; see [azblobbucket.Config]. It sends no request.
func Open(_ context.Context, rawURL string, opts *Options) (*Store, error) {
	c, err := azblobbucket.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o := *cmp.Or(opts, &Options{})
	b, err := c.Open(&azblobbucket.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	o.Unsafe = slices.Concat(o.Unsafe, c.Unsafe())
	return New(b, c.Prefix, &o)
}

// ListCost implements [store.TagLister]. A List Blobs costs as much as 13 Get Blobs, and has up to 5,000 names.
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 13, Keys: 5000} }

// GetAge implements [store.AgeReader].
func (s *Store) GetAge(ctx context.Context, key string) ([]byte, store.Version, time.Duration, error) {
	current, err := s.GetStored(ctx, key)
	if err != nil {
		return nil, "", -1, err
	}
	age := time.Duration(-1)
	// Clocks that disagree by more than is subtracted prove nothing.
	if known := !current.Now.IsZero() && !current.Written.IsZero(); known && time.Since(current.Now).Abs() <= s.safety {
		age = max(current.Now.Sub(current.Written)-granularity-s.safety, -1)
	}
	return current.Value, current.Version(), age, nil
}

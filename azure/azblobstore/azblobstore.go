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
// The answer to a read contains the headers Date and Last-Modified, both by the service's clock. Package
// bucketstore explains how the Store calculates the age of a register.
package azblobstore

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/azure/azblobbucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/store"
)

// MinTTL is the shortest useful TTL of a lease. Most requests take tens of milliseconds, but a
// few requests take a second.
const MinTTL = 2 * time.Second

// Options are the options of [New].
type Options struct {
	// Trusted says that an earlier run has found that the server checks conditions. Azure needs no probe.
	Trusted bool

	// Unsafe lists the conditions that the server may ignore: the user accepts this risk.
	Unsafe []object.Ability

	// MaxClockSkew is the largest accepted difference between the store's clock and this machine's
	// clock; see [bucketstore.AgeOf]. It is at least 1 s; 0 means [bucketstore.DefaultMaxClockSkew].
	MaxClockSkew time.Duration

	// Logger receives the outcomes of writes whose reply was lost, and the results of the probe.
	// Nil means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix of a container. Any number of goroutines may use it. It
// starts no goroutine, and needs no Close.
type Store struct{ *bucketstore.Aged }

var (
	_ store.AgeReader = (*Store)(nil)
	_ store.TagLister = (*Store)(nil)
)

// New returns a Store for the registers below a prefix in a bucket. It sends no request.
func New(bucket *azblobbucket.Bucket, prefix string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	// The registers probe the server by themselves, with fewer requests.
	registers, err := bucketstore.NewAged(bucket.WithAbilities(object.PutIfAbsent, object.PutIfMatch), prefix, o.MaxClockSkew, &bucketstore.Options{
		Trusted: o.Trusted, Unsafe: o.Unsafe, MinTTL: MinTTL, EscapeFinalDots: true, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Store{registers}, nil
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

// Package gcsstore stores registers in Google Cloud Storage. It uses package bucketstore on a bucket of
// package gcsbucket. The comments of these two packages describe the objects, the outcomes, the probe and
// the credentials.
//
//	s, err := gcsstore.Open(ctx, "gs://my-bucket/app", nil)
//
// # Requests
//
//   - A write is one request. A refused write costs one more, which reads the present state.
//   - A read is one request. A repeated read of a register that has not changed is a request for its
//     metadata. If the register has changed, it is two requests.
//   - Before the first write to a server that is not Google's, the Store sends the six requests of the
//     probe.
//
// # One write a second
//
// The service accepts about one write a second for each object, and refuses further writes (status 429).
// The Store waits and tries again, up to three seconds. Then the error matches [engine.ErrBusy], and
// nothing was written. The shortest TTL of a lease is [MinTTL]. A lock that changes hands twice a second,
// or a checkpoint that advances ten times a second, is too fast for this store.
//
// # Caches
//
// The service caches objects that everybody may read, for an hour by default. A cached register would
// show an old holder. So the Store writes registers with the header "Cache-Control: no-store".
//
// # Age
//
// The answer to a read contains the headers Date and Last-Modified, both by the server's clock. Package
// bucketstore explains how the Store calculates the age of a register.
package gcsstore

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/gcp/gcsbucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/store"
)

// MinTTL is the shortest useful TTL of a lease. A holder whose lock many programs want renews it several
// times while the service refuses early writes.
const MinTTL = 10 * time.Second

// pause bounds the random pause after the first refusal because of too many writes. The fifth try comes
// after at most three seconds. The time counts against the lease: with 500 ms and a TTL of 4 s,
// TestOneWriteASecond lost leases.
const pause = 200 * time.Millisecond

// Options are the options of [New].
type Options struct {
	// Trusted says that the server is known to check conditions. The service of Google needs no probe,
	// even if Trusted is false.
	Trusted bool

	// Unsafe lists the conditions that the server may ignore: the user accepts this risk.
	Unsafe []object.Ability

	// MaxClockSkew is the largest accepted difference between the store's clock and this machine's
	// clock; see [bucketstore.AgeOf]. It is at least 1 s; 0 means [bucketstore.DefaultMaxClockSkew].
	MaxClockSkew time.Duration

	// Logger receives the outcomes of writes whose reply was lost, and the results of the probe. Nil
	// means no log.
	Logger *slog.Logger
}

// Store contains the registers below one prefix of a bucket. Any number of goroutines may use it. It
// needs no Close.
type Store struct{ *bucketstore.Aged }

var (
	_ store.AgeReader = (*Store)(nil)
	_ store.TagLister = (*Store)(nil)
)

// New returns a Store for the registers below a prefix in a bucket. It sends no request.
func New(bucket *gcsbucket.Bucket, prefix string, opts *Options) (*Store, error) {
	o := *cmp.Or(opts, &Options{})
	probe := bucket.ProbePrefix()
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" && probe == gcsbucket.DefaultProbePrefix {
		probe = prefix + "/" + probe // there are rights to write
	}
	// The registers probe the server by themselves, with fewer requests.
	registers := bucket.WithAbilities(probe, object.PutIfAbsent, object.PutIfMatch)
	s, err := bucketstore.NewAged(uncached{registers}, prefix, o.MaxClockSkew, &bucketstore.Options{
		Trusted: o.Trusted,
		Unsafe:  o.Unsafe,
		MinTTL:  MinTTL,
		Pause:   pause,
		Logger:  o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// Open returns a [Store] for the registers that a URL names; see [gcsbucket.Config].
func Open(ctx context.Context, rawURL string, opts *Options) (*Store, error) {
	c, err := gcsbucket.ParseURL(rawURL)
	if err != nil {
		return nil, err
	}
	o := *cmp.Or(opts, &Options{})
	b, err := c.Open(ctx, &gcsbucket.Options{Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	o.Unsafe = slices.Concat(o.Unsafe, c.Unsafe())
	return New(b, c.Prefix, &o)
}

// uncached is a bucket whose objects no cache keeps.
type uncached struct{ *gcsbucket.Bucket }

// Unwrap implements [object.As].
func (b uncached) Unwrap() object.Bucket { return b.Bucket }

// Put implements [object.Bucket].
func (b uncached) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o := *cmp.Or(opts, &object.PutOptions{})
	o.Headers.CacheControl = "no-store"
	return b.Bucket.Put(ctx, key, body, &o)
}

// ListCost implements [store.TagLister]. A listing costs as much as 12.5 reads.
func (s *Store) ListCost() store.ListCost { return store.ListCost{Gets: 13, Keys: 1000} }

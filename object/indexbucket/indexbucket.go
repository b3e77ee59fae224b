// Package indexbucket gives objects unique versions and every condition, on any bucket. The
// bucket below may ignore all conditions. It may also give equal bodies equal versions, as S3
// does.
//
// # Use
//
//	bucket, err := indexbucket.New(index, bodies, &indexbucket.Options{Prefix: "bodies/"})
//	client, err := object.New(bucket, nil) // see package object
//
// The first argument is any [store.Store], for example in the same bucket (package bucketstore), in
// a DynamoDB table, or in a database. The second argument is the bucket below. Call Sweep once a
// day: it removes bodies that crashed processes have left.
//
// Only programs with the same index see the objects. Other programs see bodies under random names
// in the bucket.
//
// # How it works
//
// A body is an object with a unique name. It is written once and never changed. The index has a
// register for each key, which names the body. A put writes the body, then changes the register by
// one write. So a put has the outcome of this one write. Readers see whole bodies, and no version
// is used twice. So [object.Client.RaiseFence] works: the bucket refuses a write of an earlier
// holder, even if the object has the same bytes as before.
//
// If a process is killed during a put, its body can remain although no register names it. Sweep
// removes such bodies after a day.
//
// # What it costs
//
// A stat takes one request to the index. A get takes two requests: it reads the index and the body.
// A put takes four requests: it reads the index, writes the body, changes the register, and removes
// the old body. A listing reads the register of each key.
package indexbucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/internal/indexed"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// DefaultOrphanAge is the default of [Options].OrphanAge.
	DefaultOrphanAge = 24 * time.Hour

	// MinOrphanAge is the shortest [Options].OrphanAge.
	MinOrphanAge = time.Hour
)

// Options are the options of [New].
type Options struct {
	// Prefix is the beginning of the keys of the bodies: empty, or a text that ends with a slash.
	// No other objects may have keys with this prefix, and each index needs a different prefix.
	Prefix string

	// OrphanAge is the age, by the store's clock, at which Sweep removes a body that no register
	// names. If a put has not changed the register after half of OrphanAge, the put fails. The
	// index must not apply a write later than half of OrphanAge after the write was sent. OrphanAge
	// is at least [MinOrphanAge]; 0 means 24 hours. All users of an index must use the same
	// OrphanAge.
	OrphanAge time.Duration
}

// Bucket contains objects; their registers are in an index, and their bodies are in another bucket.
// Any number of goroutines may use it. It starts no goroutine, and needs no Close. It implements
// [object.Bucket] and [object.Copier] with all their conditions. If a copy has the same source and
// destination, it changes only the metadata and writes no body.
//
// The method Sweep removes bodies that no register names and that are older than
// [Options].OrphanAge. It returns the number of removed bodies. Sweep may run while the bucket is
// in use. Its memory does not depend on the number of objects. It may leave a few bodies for the
// next sweep.
type Bucket struct {
	*objects
	traits object.Traits
}

type objects = indexed.Bucket

var (
	_ object.Bucket    = (*Bucket)(nil)
	_ object.Copier    = (*Bucket)(nil)
	_ object.Describer = (*Bucket)(nil)
)

// New returns a bucket whose registers are in the store passed as index, and whose bodies are in
// the other bucket. No other program may write registers into the index. To share a store, pass a
// prefix of it; see [store.Prefix]. New sends no request.
func New(index store.Store, bodies object.Bucket, opts *Options) (*Bucket, error) {
	o := *cmp.Or(opts, &Options{})
	o.OrphanAge = cmp.Or(o.OrphanAge, DefaultOrphanAge)
	switch {
	case index == nil || bodies == nil:
		return nil, fmt.Errorf("indexbucket: %w: the index or the bucket is nil", object.ErrInvalid)
	case o.OrphanAge < MinOrphanAge:
		return nil, fmt.Errorf("indexbucket: %w: Options.OrphanAge is %v; it must be at least %v", object.ErrInvalid, o.OrphanAge, MinOrphanAge)
	case o.Prefix != "" && (!strings.HasSuffix(o.Prefix, "/") || object.CheckKey(o.Prefix+"x") != nil || len(o.Prefix) > object.MaxKey-nameSize):
		return nil, fmt.Errorf("indexbucket: %w: Options.Prefix is %q; it must be empty, or a valid key that ends with a slash", object.ErrInvalid, o.Prefix)
	}
	of, in := store.TraitsOf(index), object.TraitsOf(bodies)
	t := object.Traits{Name: in.Name, Local: of.Local && in.Local, Trusted: true, UniqueVersions: true}
	if of.Name != "" {
		t.Name += " by " + of.Name + "/" + of.Prefix
	}
	if of.ID != "" {
		t.ID = "index:" + of.ID + "#" + of.Prefix // the index decides which objects exist
	}
	return &Bucket{indexed.New(t.Name, index, &inBucket{bodies, o.Prefix}, o.OrphanAge, false), t}, nil
}

// Traits implements [object.Describer]: the bucket is trusted, and versions are unique.
func (b *Bucket) Traits() object.Traits { return b.traits }

// nameSize is the length of the name of a body.
const nameSize = 26

// inBucket are bodies in a bucket.
type inBucket struct {
	bucket object.Bucket
	prefix string
}

func (b *inBucket) Write(ctx context.Context, name string, body io.Reader, o object.PutOptions) (int64, error) {
	// The metadata is in the index. An upload that is not completed could not be resumed:
	// its name would be lost.
	o.IfAbsent, o.IfMatch, o.Metadata, o.Parts, o.OnUpload = false, "", nil, false, nil
	info, err := b.bucket.Put(ctx, b.prefix+name, body, &o)
	return info.Size, indexed.Bare(err)
}

func (b *inBucket) Copy(ctx context.Context, from, name string, size int64, progress object.Progress) error {
	info, err := object.Copy(ctx, b.bucket, b.prefix+from, b.prefix+name, &object.CopyOptions{Progress: progress})
	if err == nil && info.Size != 0 && info.Size != size { // not every store returns the size
		b.Remove(ctx, name)
		return fmt.Errorf("%w: the body of the object has %d bytes, but must have %d", store.ErrCorrupt, info.Size, size)
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		return indexed.Bare(err)
	}
	r, err := b.Open(ctx, from, size, 0, 0)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = b.Write(ctx, name, r, object.PutOptions{Length: size, Progress: progress})
	return err
}

func (b *inBucket) Open(ctx context.Context, name string, size, offset, length int64) (io.ReadCloser, error) {
	r, err := b.bucket.Get(ctx, b.prefix+name, &object.GetOptions{Offset: offset, Length: length})
	if errors.Is(err, object.ErrRange) {
		err = fmt.Errorf("%w: the body of the object is shorter than %d bytes", store.ErrCorrupt, size)
	}
	if err != nil {
		return nil, indexed.Bare(err)
	}
	if r.Info.Size != size {
		r.Close()
		return nil, fmt.Errorf("%w: the body of the object has %d bytes, but must have %d", store.ErrCorrupt, r.Info.Size, size)
	}
	return r, nil
}

func (b *inBucket) Exists(ctx context.Context, name string) (bool, error) {
	_, err := b.bucket.Stat(ctx, b.prefix+name)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// removal is how long the removal of a replaced body may take. A sweep removes what it leaves.
const removal = 10 * time.Second

func (b *inBucket) Remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	_ = b.bucket.Delete(ctx, b.prefix+name, nil)
}

func (b *inBucket) Sweep(ctx context.Context, name string) error {
	return b.bucket.Delete(ctx, b.prefix+name, nil)
}

func (b *inBucket) OlderThan(ctx context.Context, age func() time.Duration) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		local := object.TraitsOf(b.bucket).Local
		for info, err := range b.bucket.List(ctx, b.prefix, nil) {
			if err != nil {
				yield("", err)
				return
			}
			now := info.Now
			if now.IsZero() && local {
				now = time.Now()
			}
			if info.Modified.IsZero() || now.IsZero() || now.Sub(info.Modified) <= age() {
				continue
			}
			if !yield(strings.TrimPrefix(info.Key, b.prefix), nil) {
				return
			}
		}
	}
}

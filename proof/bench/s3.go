package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/benbjohnson/litestream"
	litestreams3 "github.com/benbjohnson/litestream/s3"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/aws/s3store"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// s3 compares leases on one S3 server.
func s3(ctx context.Context, w io.Writer, server servers.S3, r *run) error {
	bucket := servers.Unique("peers")
	if err := server.CreateBucket(ctx, bucket, false); err != nil {
		return err
	}
	// Known to honour conditions, as AWS is, or a server that doctor passed.
	trusted := &s3store.Options{Trusted: true}
	normal, err := s3Subject(server, "holdfast", bucket, trusted, false)
	if err != nil {
		return err
	}
	fresh, err := s3Subject(server, "holdfast, `AssumeNew`", bucket, trusted, true)
	if err != nil {
		return err
	}
	// How long a waiter pauses is as on DynamoDB, where it is measured.
	on := on{title: "S3: " + server.Name, unit: "requests", raw: rawS3(server.Client(), bucket, "raw", func(in *awss3.PutObjectInput) {
		in.ContentType = aws.String("application/json")
		in.Body = strings.NewReader(fmt.Sprintf("{%q:%q}", "pad", strings.Repeat(rand.Text(), 19))) // as long as a record
	})}
	if err := remote(ctx, w, on, []*subject{normal, fresh, litestreamOn(server, bucket)}, r); err != nil {
		return err
	}
	if err := firstRuns(ctx, w, server); err != nil {
		return err
	}
	r.later(func(w io.Writer) error { return deadOnS3(ctx, w, server, bucket) })
	return nil
}

// openS3 opens registers in a bucket.
func openS3(c *awss3.Client, bucket, prefix string, o *s3store.Options) (*s3store.Store, error) {
	b, err := s3bucket.New(c, bucket, nil)
	if err != nil {
		return nil, err
	}
	return s3store.New(b, prefix, o)
}

// countS3 is an option of a client whose requests the counter counts.
func (c *counter) countS3(o *awss3.Options) { o.HTTPClient = c }

// s3Subject is holdfast on a bucket. With fresh, it takes each lock for a new one.
func s3Subject(server servers.S3, name, bucket string, o *s3store.Options, fresh bool) (*subject, error) {
	n := &counter{}
	st, err := openS3(server.Client(n.countS3), bucket, "", o)
	return &subject{name: name, claimant: newHoldfast(st, &lease.Options{ManualRenewal: true, AssumeNew: fresh}), requests: n}, err
}

// firstRuns counts the requests of a first run, with a new lock on a server that was not tested
// before: the test of the server, an acquire and a release.
func firstRuns(ctx context.Context, w io.Writer, server servers.S3) error {
	for _, versioned := range []bool{false, true} {
		bucket := servers.Unique("first")
		if err := server.CreateBucket(ctx, bucket, versioned); err != nil {
			return err
		}
		s, err := s3Subject(server, "first", bucket, nil, true)
		if err != nil {
			return err
		}
		peer := litestreamOn(server, bucket)
		for _, s := range []*subject{s, peer} {
			c, err := s.claimant.take(ctx, "first")
			if err == nil {
				err = c.release(ctx)
			}
			if err != nil {
				return fmt.Errorf("a first run: %w", err)
			}
		}
		fmt.Fprintf(w, "On %s, in a bucket with versions: %v, a first run of holdfast takes %d requests, and one of litestream, which does not test the server, %d.\n\n", server.Name, versioned, s.requests.n.Load(), peer.requests.n.Load())
	}
	return nil
}

// deadOnS3 measures the first look of a new client at locks whose
// holder died long ago. By default "long ago" is more than a minute besides the
// TTL, for clocks that are wrong; here it is three seconds, since a server may show a
// Date that is up to two seconds old.
func deadOnS3(ctx context.Context, w io.Writer, server servers.S3, bucket string) error {
	const ttl, locks = 2 * time.Second, 20
	n := &counter{}
	st, err := openS3(server.Client(n.countS3), bucket, "dead", &s3store.Options{Trusted: true, MaxClockSkew: 3 * time.Second})
	if err != nil {
		return err
	}
	open := claimants(newHoldfast(st, &lease.Options{ManualRenewal: true, TTL: ttl, Grace: -1, Tuning: lease.Tuning{Margin: ttl / 10}}))
	for i := range locks {
		if _, err := open.take(ctx, fmt.Sprint("dead", i)); err != nil {
			return err
		}
	}
	time.Sleep(ttl + 7*time.Second)
	var took samples
	before := n.n.Load()
	for i := range locks {
		c, err := open(fmt.Sprint("dead", i))
		if err != nil {
			return err
		}
		d, err := timed(func() error { return must(c.try(ctx)) })
		if err != nil {
			return fmt.Errorf("a dead lock at the first look: %w", err)
		}
		took = append(took, d)
	}
	fmt.Fprintf(w, "On %s a lock whose holder died long ago is taken at the first look, by the store's own clock: %.3g requests, %s.\n\n", server.Name,
		float64(n.n.Load()-before)/locks, short(took.median()))
	return nil
}

// rawS3 returns a function that overwrites one object on the condition that it is
// still what it was. The function fill sets its body.
func rawS3(c *awss3.Client, bucket, key string, fill func(in *awss3.PutObjectInput)) func(context.Context) error {
	etag := ""
	return func(ctx context.Context) error {
		in := &awss3.PutObjectInput{Bucket: &bucket, Key: &key}
		fill(in)
		if etag == "" {
			in.IfNoneMatch = aws.String("*")
		} else {
			in.IfMatch = &etag
		}
		out, err := c.PutObject(ctx, in)
		if err == nil {
			etag = aws.ToString(out.ETag)
		}
		return err
	}
}

// litestreamOn is litestream on a bucket.
func litestreamOn(server servers.S3, bucket string) *subject {
	n := &counter{}
	c := server.Client(n.countS3)
	return &subject{name: "litestream", requests: n, claimant: func(lock string) (claimant, error) {
		l := litestreams3.NewLeaser()
		l.SetClient(c)
		l.Bucket, l.Path, l.Owner = bucket, lock, rand.Text()
		return &litestreamLease{leaser: l}, nil
	}}
}

// litestreamLease is the leaser of litestream. It does not wait.
type litestreamLease struct {
	leaser *litestreams3.Leaser
	lease  *litestream.Lease
}

func (c *litestreamLease) try(ctx context.Context) (bool, error) {
	l, err := c.leaser.AcquireLease(ctx)
	c.lease = l
	return unlessRefused(errors.As(err, new(*litestream.LeaseExistsError)), err)
}

func (c *litestreamLease) wait(context.Context) error { return errors.ErrUnsupported }

func (c *litestreamLease) renew(ctx context.Context) error {
	l, err := c.leaser.RenewLease(ctx, c.lease)
	if err == nil {
		c.lease = l
	}
	return err
}

func (c *litestreamLease) release(ctx context.Context) error {
	return c.leaser.ReleaseLease(ctx, c.lease)
}

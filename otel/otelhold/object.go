package otelhold

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"go.opentelemetry.io/otel/trace"
)

// TraceCall is a value for [object.Options].Trace and for Options.Trace of package largeitem: it records the spans of calls.
func (t *Telemetry) TraceCall(ctx context.Context, op store.Kind, key string) (context.Context, func(error)) {
	ctx, span := t.start(ctx, "holdfast "+string(op), trace.SpanKindInternal, attrKey(key))
	return ctx, func(err error) {
		set(span, Outcome(err), failure(err))
		t.ending.endAndWait(span)
	}
}

// Bucket returns a bucket on top of inner that records each request. It has the abilities of inner. It does not
// record the requests of [object.Verifier] and [object.VersionRemover]. A request that reads a body lasts until the
// body can be read.
func (t *Telemetry) Bucket(inner object.Bucket) object.Bucket {
	return &bucket{t: t, inner: inner, name: object.TraitsOf(inner).Name}
}

type bucket struct {
	t     *Telemetry
	inner object.Bucket
	name  string
}

// record records a request with a result.
func record[T any](ctx context.Context, b *bucket, op store.Kind, key string, send func(context.Context) (T, error)) (result T, err error) {
	err = b.t.request(ctx, "bucket", op, key, b.name, func(ctx context.Context) (err error) {
		result, err = send(ctx)
		return err
	})
	return result, err
}

// Unwrap gives access to the abilities of inner that send no requests, or few.
func (b *bucket) Unwrap() object.Bucket { return b.inner }

// As returns the abilities of inner that send the requests of a caller.
func (b *bucket) As(target any) bool {
	switch target := target.(type) {
	case *object.Copier:
		return wrap(b, target, func(inner object.Copier) object.Copier { return &copier{b, inner} })
	case *object.WholeReader:
		return wrap(b, target, func(inner object.WholeReader) object.WholeReader { return &wholeReader{b, inner} })
	case *object.DirLister:
		return wrap(b, target, func(inner object.DirLister) object.DirLister { return &dirLister{b, inner} })
	case *object.Uploader:
		return wrap(b, target, func(inner object.Uploader) object.Uploader { return &uploader{b, inner} })
	}
	return false
}

// wrap sets target to the wrapper of an ability, if the inner bucket has the ability.
func wrap[A any](b *bucket, target *A, wrapper func(inner A) A) bool {
	inner, ok := object.As[A](b.inner)
	if ok {
		*target = wrapper(inner)
	}
	return ok
}

// Get implements object.Bucket.
func (b *bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	return record(ctx, b, "get", key, func(ctx context.Context) (*object.Reader, error) { return b.inner.Get(ctx, key, opts) })
}

// Stat implements object.Bucket.
func (b *bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	return record(ctx, b, "stat", key, func(ctx context.Context) (object.Info, error) { return b.inner.Stat(ctx, key) })
}

// Put implements object.Bucket.
func (b *bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	return record(ctx, b, "put", key, func(ctx context.Context) (object.Info, error) { return b.inner.Put(ctx, key, body, opts) })
}

// Delete implements object.Bucket.
func (b *bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	return b.t.request(ctx, "bucket", "delete", key, b.name, func(ctx context.Context) error { return b.inner.Delete(ctx, key, opts) })
}

// List implements object.Bucket.
func (b *bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	return listing(b.t, ctx, "bucket", "list", prefix, b.name, b.inner.List(ctx, prefix, opts))
}

type copier struct {
	b     *bucket
	inner object.Copier
}

// Copy implements object.Copier.
func (c *copier) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	return record(ctx, c.b, "copy", destination, func(ctx context.Context) (object.Info, error) { return c.inner.Copy(ctx, source, destination, opts) })
}

type wholeReader struct {
	b     *bucket
	inner object.WholeReader
}

// ReadAll implements object.WholeReader.
func (r *wholeReader) ReadAll(ctx context.Context, key string, limit int64, opts *object.GetOptions) (body []byte, info object.Info, err error) {
	err = r.b.t.request(ctx, "bucket", "get", key, r.b.name, func(ctx context.Context) (err error) {
		body, info, err = r.inner.ReadAll(ctx, key, limit, opts)
		return err
	})
	return body, info, err
}

type dirLister struct {
	b     *bucket
	inner object.DirLister
}

// ListDir implements object.DirLister.
func (l *dirLister) ListDir(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return listing(l.b.t, ctx, "bucket", "list", prefix, l.b.name, l.inner.ListDir(ctx, prefix))
}

type uploader struct {
	b     *bucket
	inner object.Uploader
}

// Resume implements object.Uploader.
func (u *uploader) Resume(ctx context.Context, up object.Upload, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	return record(ctx, u.b, "put", up.Key, func(ctx context.Context) (object.Info, error) { return u.inner.Resume(ctx, up, body, opts) })
}

// Uploads implements object.Uploader.
func (u *uploader) Uploads(ctx context.Context, prefix string) iter.Seq2[object.Upload, error] {
	return listing(u.b.t, ctx, "bucket", "list uploads", prefix, u.b.name, u.inner.Uploads(ctx, prefix))
}

// LastPart implements object.Uploader.
func (u *uploader) LastPart(ctx context.Context, up object.Upload) (last, now time.Time, err error) {
	err = u.b.t.request(ctx, "bucket", "stat upload", up.Key, u.b.name, func(ctx context.Context) (err error) {
		last, now, err = u.inner.LastPart(ctx, up)
		return err
	})
	return last, now, err
}

// AbortUpload implements object.Uploader.
func (u *uploader) AbortUpload(ctx context.Context, up object.Upload) error {
	return u.b.t.request(ctx, "bucket", "abort upload", up.Key, u.b.name, func(ctx context.Context) error { return u.inner.AbortUpload(ctx, up) })
}

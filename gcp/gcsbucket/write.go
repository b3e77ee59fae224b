package gcsbucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"cloud.google.com/go/storage"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

const (
	// smallBody is the largest body that is read before the request begins, in bytes.
	smallBody = 8 << 20

	// minRate is how fast the body of an upload is expected to go at least, in bytes a second.
	minRate = 256 << 10

	// longTimeout bounds a copy.
	longTimeout = 5 * time.Minute

	// defaultType is the content type of an object without one.
	defaultType = "application/octet-stream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// conditions returns the conditions of a write, and the ability that they need.
func conditions(ifAbsent bool, ifMatch object.Version, absent, match object.Ability) (*storage.Conditions, object.Ability) {
	if ifAbsent {
		return &storage.Conditions{DoesNotExist: true}, absent
	}
	if n, ok := generation(ifMatch); ok {
		return &storage.Conditions{GenerationMatch: n}, match
	}
	return nil, ""
}

// handle returns the object of a key, with the condition of a write.
func (b *Bucket) handle(key string, cond *storage.Conditions) *storage.ObjectHandle {
	h := b.bucket.Object(key)
	if cond != nil {
		h = h.If(*cond)
	}
	return h
}

// Put implements [object.Bucket]. It sends a put with a condition only once. If it gets no answer, the
// outcome is unknown.
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts, object.StorageClass)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return object.Info{}, b.opError(store.OpPut, key, err)
	}
	info, err := b.put(ctx, key, body, o)
	return info, b.opError(store.OpPut, key, about(key, o.IfMatch, err))
}

func (b *Bucket) put(ctx context.Context, key string, body io.Reader, o object.PutOptions) (info object.Info, err error) {
	body = object.CheckedBody(body, o)
	first, err := io.ReadAll(io.LimitReader(body, smallBody+1))
	if err != nil {
		return info, store.MarkNotApplied(err)
	}
	cond, needed := conditions(o.IfAbsent, o.IfMatch, object.PutIfAbsent, object.PutIfMatch)
	if err := b.require(ctx, needed); err != nil {
		return info, err
	}
	u := &upload{b: b, key: key, first: first, cond: cond, o: o}
	switch {
	case len(first) > smallBody:
		u.rest = body
		return u.send(ctx)
	case cond != nil:
		return u.send(ctx)
	}
	err = b.repeat(ctx, func() (err error) {
		info, err = u.send(ctx)
		return err
	})
	return info, err
}

// upload is one put. Its body is first, followed by rest, which is nil for a small body.
type upload struct {
	b     *Bucket
	key   string
	first []byte
	rest  io.Reader
	cond  *storage.Conditions
	o     object.PutOptions
}

// send sends the upload once, in one request.
func (u *upload) send(ctx context.Context) (object.Info, error) {
	c := &call{ctx: ctx}
	if err := store.CheckContext(ctx); err != nil {
		return object.Info{}, err
	}
	limit := u.b.o.Timeout + time.Duration(len(u.first))*time.Second/minRate
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, callKey{}, c))
	defer cancel(nil)
	c.upload = ctx
	timer := time.AfterFunc(engine.Share(ctx, limit), func() { cancel(errTimeout) })
	defer timer.Stop()

	w := u.b.handle(u.key, u.cond).NewWriter(ctx)
	w.ChunkSize = 0 // one request, which has the condition and makes the object
	w.DisableAutoChecksum = true
	w.ContentType = cmp.Or(u.o.ContentType, defaultType)
	w.CacheControl, w.ContentDisposition = u.o.Headers.CacheControl, u.o.Headers.ContentDisposition
	w.ContentEncoding, w.ContentLanguage = u.o.Headers.ContentEncoding, u.o.Headers.ContentLanguage
	w.Metadata, w.StorageClass = u.o.Metadata, u.o.StorageClass
	sum := crc32.Checksum(u.first, castagnoli)
	w.CRC32C, w.SendCRC32C = sum, u.rest == nil

	size := int64(len(u.first))
	_, err := w.Write(u.first)
	if u.rest != nil {
		buf := make([]byte, 256<<10)
		for err == nil {
			timer.Stop() // the time of the caller's Read does not count
			n, failed := u.rest.Read(buf)
			if failed != nil && failed != io.EOF {
				// The request ends before its body does (see whole), so the server makes no object.
				cancel(failed)
				_ = w.Close()
				return object.Info{}, store.MarkNotApplied(failed)
			}
			timer.Reset(limit)
			_, err = w.Write(buf[:n])
			size += int64(n)
			sum = crc32.Update(sum, castagnoli, buf[:n])
			u.o.Progress.Report(size, u.o.Length)
			if failed == io.EOF {
				break
			}
		}
	}
	if err != nil {
		cancel(err) // otherwise Close could complete a body that is not whole
	}
	if closed := w.Close(); closed != nil {
		return object.Info{}, noBucket(c.classify(closed))
	}
	attrs := w.Attrs()
	info, err := infoOf(u.key, attrs, c)
	if err == nil && (attrs.CRC32C != sum || attrs.Size != size) {
		if u.b.trying || u.b.require(ctx, object.DeleteIfMatch) == nil {
			_ = u.b.deleteOnce(ctx, u.key, &storage.Conditions{GenerationMatch: attrs.Generation})
		}
		err = store.MarkUnknown(fmt.Errorf("%w: the server stored a body with the CRC32C %08x and %d bytes, but Holdfast sent %08x and %d", store.ErrUnavailable, attrs.CRC32C, attrs.Size, sum, size))
	}
	if err != nil {
		return object.Info{}, err
	}
	u.o.Progress.Report(size, size)
	return info, nil
}

// Delete implements [object.Bucket]. In a bucket with versioning, the server keeps the old state as a
// noncurrent version.
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return b.opError(store.OpDelete, key, err)
	}
	ability := object.DeleteIfMatch
	if o.OrAbsent {
		ability = object.DeleteOrAbsent
	}
	cond, needed := conditions(false, o.IfMatch, "", ability)
	if err = b.require(ctx, needed); err == nil && cond != nil {
		err = b.deleteOnce(ctx, key, cond)
	} else if err == nil {
		err = b.repeat(ctx, func() error { return b.deleteOnce(ctx, key, nil) })
	}
	if errors.Is(err, store.ErrNotFound) && (cond == nil || o.OrAbsent) {
		err = nil
	}
	return b.opError(store.OpDelete, key, about(key, o.IfMatch, err))
}

func (b *Bucket) deleteOnce(ctx context.Context, key string, cond *storage.Conditions) error {
	_, _, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.handle(key, cond).Delete(ctx) })
	return err
}

// Copy implements [object.Copier]. A large copy needs several requests; each has all conditions.
func (b *Bucket) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o, err := object.CheckCopy(source, destination, opts)
	err = checkCall(ctx, err, source, o.SourceIfMatch)
	if err = checkCall(ctx, err, destination, o.IfMatch); err != nil {
		return object.Info{}, b.opError("copy", source, err)
	}
	info, err := b.copy(ctx, source, destination, o)
	return info, b.opError("copy", source, about(source, o.SourceIfMatch, err))
}

func (b *Bucket) copy(ctx context.Context, source, destination string, o object.CopyOptions) (info object.Info, err error) {
	from, neededFrom := conditions(false, o.SourceIfMatch, "", object.CopySource)
	to, neededTo := conditions(o.IfAbsent, o.IfMatch, object.CopyIfAbsent, object.CopyIfMatch)
	if err := cmp.Or(b.require(ctx, neededFrom), b.require(ctx, neededTo)); err != nil {
		return info, err
	}
	send := func() error {
		attrs, c, err := do(ctx, b, longTimeout, func(ctx context.Context) (*storage.ObjectAttrs, error) {
			copier := b.handle(destination, to).CopierFrom(b.handle(source, from))
			copier.ProgressFunc = func(n, total uint64) { o.Progress.Report(int64(n), int64(total)) }
			if o.Metadata != nil {
				copier.Metadata, copier.ContentType = o.Metadata, cmp.Or(o.ContentType, defaultType)
				copier.CacheControl, copier.ContentDisposition = o.Headers.CacheControl, o.Headers.ContentDisposition
				copier.ContentEncoding, copier.ContentLanguage = o.Headers.ContentEncoding, o.Headers.ContentLanguage
			}
			return copier.Run(ctx)
		})
		if err == nil {
			info, err = infoOf(destination, attrs, c)
		}
		return err
	}
	if from != nil || to != nil {
		err = send()
	} else {
		err = b.repeat(ctx, send)
	}
	return info, err
}

package gcsbucket

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/storage/v1"

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

// sumText returns a CRC32C as the service writes it.
func sumText(sum uint32) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, sum))
}

// condition returns the generation that an object must have, or nil, and the ability that this needs. The
// generation 0 means "no object".
func condition(ifAbsent bool, ifMatch object.Version, absent, match object.Ability) (*int64, object.Ability) {
	if ifAbsent {
		return new(int64), absent
	}
	if n, ok := generation(ifMatch); ok {
		return &n, match
	}
	return nil, ""
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
	cond, needed := condition(o.IfAbsent, o.IfMatch, object.PutIfAbsent, object.PutIfMatch)
	if err := b.require(ctx, needed); err != nil {
		return info, err
	}
	u := &upload{b: b, key: key, first: first, cond: cond, o: o}
	if len(first) > smallBody {
		u.rest = body
	}
	err = b.write(ctx, cond != nil || u.rest != nil, func() (err error) {
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
	cond  *int64
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

	attrs := described(u.o.ContentType, u.o.Headers, u.o.Metadata)
	attrs.Bucket, attrs.Name, attrs.StorageClass = u.b.name, u.key, u.o.StorageClass
	sum := crc32.Checksum(u.first, castagnoli)
	if u.rest == nil {
		attrs.Crc32c = sumText(sum)
	}
	r, w := io.Pipe()
	// One request, which has the condition and makes the object.
	insert := u.b.service.Objects.Insert(u.b.name, attrs).Name(u.key).Projection("full").Context(ctx).
		Media(r, googleapi.ChunkSize(0), googleapi.ContentType(attrs.ContentType))
	if u.cond != nil {
		insert.IfGenerationMatch(*u.cond)
	}
	var refused error
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		attrs, refused = insert.Do(u.b.options...)
		r.CloseWithError(cmp.Or(refused, io.ErrClosedPipe))
	}()

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
				w.CloseWithError(failed)
				<-sent
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
		cancel(err) // otherwise a body that is not whole could be complete
	}
	w.CloseWithError(err)
	<-sent
	if err = cmp.Or(refused, err); err != nil {
		return object.Info{}, noBucket(c.classify(err))
	}
	info, err := infoOf(u.key, attrs, c)
	if err == nil && (attrs.Crc32c != sumText(sum) || info.Size != size) {
		if u.b.trying || u.b.require(ctx, object.DeleteIfMatch) == nil {
			_ = u.b.deleteOnce(ctx, u.key, &attrs.Generation)
		}
		err = store.MarkUnknown(fmt.Errorf("%w: the server stored a body with the CRC32C %s and %d bytes, but Holdfast sent %s and %d", store.ErrUnavailable, attrs.Crc32c, info.Size, sumText(sum), size))
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
	cond, needed := condition(false, o.IfMatch, "", ability)
	if err = b.require(ctx, needed); err == nil {
		err = b.write(ctx, cond != nil, func() error { return b.deleteOnce(ctx, key, cond) })
	}
	if errors.Is(err, store.ErrNotFound) && (cond == nil || o.OrAbsent) {
		err = nil
	}
	return b.opError(store.OpDelete, key, about(key, o.IfMatch, err))
}

func (b *Bucket) deleteOnce(ctx context.Context, key string, cond *int64) error {
	_, _, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (struct{}, error) {
		del := b.service.Objects.Delete(b.name, key).Context(ctx)
		if cond != nil {
			del.IfGenerationMatch(*cond)
		}
		return struct{}{}, del.Do(b.options...)
	})
	return err
}

// described returns an object with these headers, and with the default content type if it has none.
func described(contentType string, h object.Headers, metadata map[string]string) *storage.Object {
	return &storage.Object{
		ContentType: cmp.Or(contentType, defaultType), CacheControl: h.CacheControl, ContentDisposition: h.ContentDisposition,
		ContentEncoding: h.ContentEncoding, ContentLanguage: h.ContentLanguage, Metadata: metadata,
	}
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
	from, neededFrom := condition(false, o.SourceIfMatch, "", object.CopySource)
	to, neededTo := condition(o.IfAbsent, o.IfMatch, object.CopyIfAbsent, object.CopyIfMatch)
	if err := cmp.Or(b.require(ctx, neededFrom), b.require(ctx, neededTo)); err != nil {
		return info, err
	}
	err = b.write(ctx, from != nil || to != nil, func() error {
		attrs, c, err := do(ctx, b, longTimeout, func(ctx context.Context) (*storage.Object, error) {
			attrs := &storage.Object{} // those of the source
			if o.Metadata != nil {
				attrs = described(o.ContentType, o.Headers, o.Metadata)
			}
			rewrite := b.service.Objects.Rewrite(b.name, source, b.name, destination, attrs).Projection("full").Context(ctx)
			if from != nil {
				rewrite.IfSourceGenerationMatch(*from)
			}
			if to != nil {
				rewrite.IfGenerationMatch(*to)
			}
			for {
				r, err := rewrite.Do(b.options...)
				if err != nil {
					return nil, err
				}
				o.Progress.Report(r.TotalBytesRewritten, r.ObjectSize)
				if r.Done {
					return r.Resource, nil
				}
				rewrite.RewriteToken(r.RewriteToken)
			}
		})
		if err == nil {
			info, err = infoOf(destination, attrs, c)
		}
		return err
	})
	return info, err
}

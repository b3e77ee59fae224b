package azblobbucket

import (
	"bytes"
	"context"
	"crypto/md5"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/engine"
)

// Get implements [object.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	o, err := object.CheckGet(key, opts)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return nil, b.opError("get", key, err)
	}
	if !validETag.MatchString(string(o.IfChanged)) {
		o.IfChanged = "" // no state has this version
	}
	var r *object.Reader
	get := func() (err error) {
		r, err = b.get(ctx, key, o)
		return err
	}
	err = b.repeat(ctx, get)
	if errors.Is(err, object.ErrRange) && o.Offset == 0 {
		o.Length = 0 // of an empty body, the service returns no range
		err = b.repeat(ctx, get)
	}
	if err != nil {
		return nil, b.opError("get", key, about(key, condition{ifMatch: o.IfMatch}, err))
	}
	return r, nil
}

func (b *Bucket) get(ctx context.Context, key string, o object.GetOptions) (*object.Reader, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	in := &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: o.Offset, Count: o.Length},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{
			IfMatch: etag(o.IfMatch), IfNoneMatch: etag(o.IfChanged),
		}},
	}
	moving, cancel := context.WithCancelCause(ctx)
	stall := time.AfterFunc(engine.Share(ctx, b.o.Timeout), func() { cancel(errTimeout) })
	end := func() {
		stall.Stop()
		cancel(nil)
	}
	var answer *http.Response
	out, err := b.client.NewBlobClient(key).DownloadStream(once(expectBlob(moving), &answer), in)
	if err != nil {
		end()
		return nil, b.classify(ctx, err)
	}
	stall.Stop()
	if answer.StatusCode == http.StatusNotModified { // no error for the SDK
		end()
		answer.Body.Close()
		return nil, object.ErrNotChanged
	}
	whole := o.Offset == 0 && o.Length == 0
	ranged := strings.HasPrefix(str(out.ContentRange), "bytes ")
	if version := versionOf(out.ETag); version == "" || out.ContentLength == nil || !whole && !ranged {
		end()
		out.Body.Close()
		return nil, b.fail(store.ErrUnavailable, store.Unknown, "the answer has no ETag or no Content-Length, or the server ignores ranges")
	}
	info := object.Info{
		Key: key, Version: versionOf(out.ETag), Size: num(out.ContentLength), Now: now(answer),
		ContentType: str(out.ContentType), Metadata: decodeMetadata(out.Metadata),
		Headers: headersOf(out.CacheControl, out.ContentDisposition, out.ContentEncoding, out.ContentLanguage),
	}
	if out.LastModified != nil {
		info.Modified = *out.LastModified
	}
	if _, total, found := strings.Cut(str(out.ContentRange), "/"); found {
		info.Size, _ = strconv.ParseInt(total, 10, 64)
	}
	if o.Offset > 0 && o.Offset >= info.Size { // Azurite answers with an empty body
		end()
		out.Body.Close()
		return nil, object.ErrRange
	}
	r := &body{ReadCloser: out.Body, b: b, caller: ctx, moving: moving, stall: stall, end: end}
	if whole && len(out.ContentMD5) == md5.Size {
		r.sum, r.want = md5.New(), out.ContentMD5
	}
	return &object.Reader{ReadCloser: r, Info: info}, nil
}

func headersOf(cache, disposition, encoding, language *string) object.Headers {
	return object.Headers{
		CacheControl: str(cache), ContentDisposition: str(disposition), ContentEncoding: str(encoding), ContentLanguage: str(language),
	}
}

// body is the body of an answer. The time between two reads does not count as a stall.
type body struct {
	io.ReadCloser
	b              *Bucket
	caller, moving context.Context
	stall          *time.Timer
	end            func()
	sum            hash.Hash // nil: there is none to compare
	want           []byte
}

func (r *body) Read(p []byte) (int, error) {
	r.stall.Reset(r.b.o.Timeout)
	n, err := r.ReadCloser.Read(p)
	r.stall.Stop()
	if r.sum != nil {
		r.sum.Write(p[:n])
	}
	switch {
	case err == io.EOF && r.sum != nil && !bytes.Equal(r.sum.Sum(nil), r.want):
		err = r.b.fail(store.ErrUnavailable, store.Unknown, "the body does not have the MD5 that the blob has; it was damaged, or a program has set a wrong MD5")
	case err == nil || err == io.EOF:
	case r.caller.Err() == nil && r.moving.Err() != nil:
		err = r.b.fail(store.ErrUnavailable, store.Unknown, "no more bytes of the body arrived")
	default:
		err = r.b.unanswered(r.caller, err)
	}
	return n, err
}

func (r *body) Close() error {
	r.end()
	return r.ReadCloser.Close()
}

// Stat implements [object.Bucket].
func (b *Bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	info, _, err := b.stat(ctx, key)
	return info, b.opError("stat", key, err)
}

// stat also returns the MD5 of the body, if the blob has one.
func (b *Bucket) stat(ctx context.Context, key string) (info object.Info, sum []byte, err error) {
	if err := checkCall(ctx, object.CheckKey(key), key); err != nil {
		return object.Info{}, nil, err
	}
	err = b.repeat(ctx, func() error {
		var out blob.GetPropertiesResponse
		answer, err := b.request(ctx, b.o.Timeout, func(ctx context.Context) (err error) {
			out, err = b.client.NewBlobClient(key).GetProperties(ctx, nil)
			return err
		})
		if err == nil && versionOf(out.ETag) == "" {
			err = b.fail(store.ErrUnavailable, store.Unknown, "the answer has no ETag")
		}
		if err != nil {
			return err
		}
		sum = out.ContentMD5
		info = object.Info{
			Key: key, Version: versionOf(out.ETag), Size: num(out.ContentLength), Now: now(answer),
			ContentType: str(out.ContentType), Metadata: decodeMetadata(out.Metadata),
			Headers: headersOf(out.CacheControl, out.ContentDisposition, out.ContentEncoding, out.ContentLanguage),
		}
		if out.LastModified != nil {
			info.Modified = *out.LastModified
		}
		return nil
	})
	return info, sum, err
}

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

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"

	"github.com/holdfast-go/holdfast/internal/drivers/slowbody"
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
	if !validETag().MatchString(string(o.IfChanged)) {
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
	return r, b.opError("get", key, about(key, condition{ifMatch: o.IfMatch}, err))
}

func (b *Bucket) get(ctx context.Context, key string, o object.GetOptions) (_ *object.Reader, err error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	in := &blob.DownloadStreamOptions{
		Range: blob.HTTPRange{Offset: o.Offset, Count: o.Length},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{
			IfMatch: etag(o.IfMatch), IfNoneMatch: etag(o.IfChanged),
		}},
	}
	body := slowbody.New(ctx, b.o.Timeout, engine.Share(ctx, b.o.Timeout), errTimeout, func(moving context.Context, err error) error {
		switch failed := (*Error)(nil); {
		case errors.As(err, &failed):
			return err
		case ctx.Err() == nil && moving.Err() != nil:
			return b.fail(store.ErrUnavailable, store.Unknown, "no more bytes of the body arrived")
		}
		return b.unanswered(ctx, err)
	})
	defer func() {
		if err != nil {
			body.Close()
		}
	}()
	var answer *http.Response
	out, err := b.client.NewBlobClient(key).DownloadStream(once(expectBlob(body.Context), &answer), in)
	if err != nil {
		return nil, b.classify(ctx, err)
	}
	whole := o.Offset == 0 && o.Length == 0
	if whole && len(out.ContentMD5) == md5.Size {
		out.Body = &checked{out.Body, b, md5.New(), out.ContentMD5}
	}
	body.Begin(out.Body)
	if answer.StatusCode == http.StatusNotModified { // no error for the SDK
		return nil, object.ErrNotChanged
	}
	ranged := strings.HasPrefix(str(out.ContentRange), "bytes ")
	if versionOf(out.ETag) == "" || out.ContentLength == nil || !whole && !ranged {
		return nil, b.fail(store.ErrUnavailable, store.Unknown, "the answer has no ETag or no Content-Length, or the server ignores ranges")
	}
	info := object.Info{
		Key: key, Version: versionOf(out.ETag), Size: value(out.ContentLength), Modified: value(out.LastModified), Now: now(answer),
		ContentType: str(out.ContentType), Metadata: decodeMetadata(out.Metadata),
		Headers: headersOf(out.CacheControl, out.ContentDisposition, out.ContentEncoding, out.ContentLanguage),
	}
	if _, total, found := strings.Cut(str(out.ContentRange), "/"); found {
		info.Size, _ = strconv.ParseInt(total, 10, 64)
	}
	if o.Offset > 0 && o.Offset >= info.Size { // Azurite answers with an empty body
		return nil, object.ErrRange
	}
	return &object.Reader{ReadCloser: body, Info: info}, nil
}

func headersOf(cache, disposition, encoding, language *string) object.Headers {
	return object.Headers{
		CacheControl: str(cache), ContentDisposition: str(disposition), ContentEncoding: str(encoding), ContentLanguage: str(language),
	}
}

// checked is a body whose bytes must have an MD5.
type checked struct {
	io.ReadCloser
	b    *Bucket
	sum  hash.Hash
	want []byte
}

func (r *checked) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.sum.Write(p[:n])
	if err == io.EOF && !bytes.Equal(r.sum.Sum(nil), r.want) {
		err = r.b.fail(store.ErrUnavailable, store.Unknown, "the body does not have the MD5 that the blob has; it was damaged, or a program has set a wrong MD5")
	}
	return n, err
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
		out, answer, err := do(ctx, b, b.o.Timeout, func(ctx context.Context) (blob.GetPropertiesResponse, error) {
			return b.client.NewBlobClient(key).GetProperties(ctx, nil)
		})
		if err == nil && versionOf(out.ETag) == "" {
			err = b.fail(store.ErrUnavailable, store.Unknown, "the answer has no ETag")
		}
		if err != nil {
			return err
		}
		sum = out.ContentMD5
		info = object.Info{
			Key: key, Version: versionOf(out.ETag), Size: value(out.ContentLength), Modified: value(out.LastModified), Now: now(answer),
			ContentType: str(out.ContentType), Metadata: decodeMetadata(out.Metadata),
			Headers: headersOf(out.CacheControl, out.ContentDisposition, out.ContentEncoding, out.ContentLanguage),
		}
		return nil
	})
	return info, sum, err
}

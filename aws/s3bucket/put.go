package s3bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// condition is that of a write, and the abilities that it needs.
type condition struct {
	ifAbsent bool
	ifMatch  object.Version
}

func (c condition) any() bool { return c.ifAbsent || c.ifMatch != "" }

// of returns the ability that the condition needs; empty if there is none.
func (c condition) of(absent, match object.Ability) object.Ability {
	switch {
	case c.ifAbsent:
		return absent
	case c.ifMatch != "":
		return match
	}
	return ""
}

// headers returns If-Match and If-None-Match.
func (c condition) headers() (match, noneMatch *string) {
	if c.ifAbsent {
		return nil, aws.String("*")
	}
	return strOrNil(string(c.ifMatch)), nil
}

// isETag reports whether an ETag is well formed. Some servers compare only what
// remains when they have taken quotes off, so that a damaged one must not be sent.
func isETag(tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	return len(tag) > 2 && tag[0] == '"' && strings.IndexByte(tag[1:], '"') == len(tag)-2
}

// checkCall returns the error of an earlier check, a conflict if one of the versions cannot be a version of
// S3, or the error of the context.
func checkCall(ctx context.Context, err error, key string, versions ...object.Version) error {
	for _, v := range versions {
		if err == nil && v != "" && !isETag(string(v)) {
			err = fmt.Errorf("%w: %q is not a version of S3; a version of S3 has double quotes", &object.ConflictError{Key: key}, v)
		}
	}
	return cmp.Or(err, store.CheckContext(ctx))
}

// Put implements [object.Bucket]. It sends a put with a condition only once. If it gets no answer,
// the outcome is unknown.
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts, object.StorageClass, object.Tags)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return object.Info{}, b.opError("put", key, err)
	}
	info, err := b.put(ctx, key, body, o)
	return info, b.opError("put", key, err)
}

func (b *Bucket) put(ctx context.Context, key string, body io.Reader, o object.PutOptions) (object.Info, error) {
	body = object.CheckedBody(body, o)
	length := cmp.Or(o.Length, lengthOf(body))
	size := b.partSize(length)
	if size > maxPartSize {
		return object.Info{}, fmt.Errorf("%w: %d bytes do not fit into %d parts of 5 GiB", store.ErrTooLarge, length, maxParts)
	}
	first, rest, err := b.readFirst(body, length, size)
	if err != nil {
		return object.Info{}, store.MarkNotApplied(err)
	}
	c := condition{o.IfAbsent, o.IfMatch}
	large := b.parts || o.Parts || rest != nil
	needed := c.of(object.PutIfAbsent, object.PutIfMatch)
	if large {
		needed = c.of(object.PartsIfAbsent, object.PartsIfMatch)
	}
	if err := b.require(ctx, needed); err != nil {
		return object.Info{}, err
	}
	var info object.Info
	switch {
	case large:
		info, err = b.putParts(ctx, key, first, rest, length, o)
	case c.any():
		info, err = b.putOnce(ctx, key, first, o)
	default:
		err = b.repeat(ctx, func() (err error) {
			info, err = b.putOnce(ctx, key, first, o)
			return err
		})
	}
	if err == nil && !large {
		o.Progress.Report(info.Size, info.Size)
	}
	return info, about(key, o.IfMatch, needed, err)
}

// lengthOf is the length of a body that knows its own; 0 if it does not.
func lengthOf(body io.Reader) int64 {
	if l, ok := body.(interface{ Len() int }); ok {
		return int64(l.Len())
	}
	return 0
}

// readFirst reads the first part, of up to size bytes, of a body whose length is expected
// to be this, if it is not 0. It returns the rest; nil: there is none.
func (b *Bucket) readFirst(body io.Reader, length, size int64) (first []byte, rest io.Reader, err error) {
	const least = 4 << 10
	// One byte more than expected finds the end without another buffer.
	var buf []byte
	if length > size {
		buf = b.buffer(size)
	} else {
		buf = make([]byte, min(size, max(length+1, least)))
	}
	n := 0
	for {
		m, err := fill(body, buf[n:])
		n += m
		switch {
		case err == io.EOF:
			return buf[:n], nil, nil
		case err != nil:
			return nil, nil, err
		case int64(n) == size:
			var next [1]byte
			if _, err := fill(body, next[:]); err == io.EOF {
				return buf, nil, nil
			} else if err != nil {
				return nil, nil, err
			}
			return buf, io.MultiReader(bytes.NewReader(next[:]), body), nil
		}
		buf = append(buf, make([]byte, min(int64(n), size-int64(n)))...)
	}
}

func (b *Bucket) putOnce(ctx context.Context, key string, body []byte, o object.PutOptions) (object.Info, error) {
	in := &s3.PutObjectInput{
		Bucket:               &b.name,
		Key:                  &key,
		Body:                 bytes.NewReader(body),
		ContentLength:        aws.Int64(int64(len(body))),
		ContentType:          aws.String(cmp.Or(o.ContentType, defaultType)),
		CacheControl:         strOrNil(o.Headers.CacheControl),
		ContentDisposition:   strOrNil(o.Headers.ContentDisposition),
		ContentEncoding:      strOrNil(o.Headers.ContentEncoding),
		ContentLanguage:      strOrNil(o.Headers.ContentLanguage),
		Metadata:             o.Metadata,
		StorageClass:         types.StorageClass(o.StorageClass),
		Tagging:              tagging(o.Tags),
		ExpectedBucketOwner:  strOrNil(b.o.Owner),
		ServerSideEncryption: b.o.Encryption,
		SSEKMSKeyId:          strOrNil(b.o.KMSKey),
		ACL:                  b.o.ACL,
	}
	in.IfMatch, in.IfNoneMatch = condition{o.IfAbsent, o.IfMatch}.headers()
	out, c, err := request(ctx, b, b.timeoutFor(len(body)), b.client.PutObject, in)
	if err == nil && !c.Empty() {
		err = c.Fail(errYes, store.ErrUnavailable, store.Unknown, "%v", errYes)
	}
	if err = withVersion(c, err, out.ETag); err != nil {
		return object.Info{}, err
	}
	if out.VersionId == nil {
		b.plain.Store(true)
	} else {
		b.versioned.Store(true)
	}
	return object.Info{Key: key, Version: versionOf(out.ETag), Size: int64(len(body)), Now: c.Now()}, nil
}

// tagging returns tags as a header has them; nil for none.
func tagging(tags map[string]string) *string {
	if len(tags) == 0 {
		return nil
	}
	query := make(url.Values)
	for name, value := range tags {
		query.Set(name, value)
	}
	return aws.String(strings.ReplaceAll(query.Encode(), "+", "%20"))
}

// defaultType is the content type of an object without one.
const defaultType = "application/octet-stream"

var (
	errNoVersion = errors.New("the answer of the server has no version ID")
	errYes       = errors.New("the reply has a body, which S3 never sends here; check the endpoint, and whether a proxy answers in its place")
)

// withVersion returns the error of a request, or another one if the answer has no ETag.
func withVersion(c *awscall.Call, err error, etag *string) error {
	if err == nil && aws.ToString(etag) == "" {
		err = c.Fail(errNoVersion, store.ErrUnavailable, store.Unknown, "%v", errNoVersion)
	}
	return err
}

func (b *Bucket) timeoutFor(size int) time.Duration {
	return b.o.Timeout + time.Duration(size)*time.Second/minRate
}

// Delete implements [object.Bucket]. In a bucket with versioning, Delete adds a delete marker, and
// the server keeps the versions.
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err = checkCall(ctx, err, key, o.IfMatch); err != nil {
		return b.opError("delete", key, err)
	}
	if o.IfMatch == "" {
		err = b.repeat(ctx, func() error { return b.deleteOnce(ctx, key, o) })
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return b.opError("delete", key, err)
	}
	ability := object.DeleteIfMatch
	if o.OrAbsent {
		ability = object.DeleteOrAbsent
	}
	if err = b.require(ctx, ability); err == nil {
		err = b.deleteOnce(ctx, key, o)
	}
	if o.OrAbsent && errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return b.opError("delete", key, about(key, o.IfMatch, ability, err))
}

func (b *Bucket) deleteOnce(ctx context.Context, key string, o object.DeleteOptions) error {
	_, c, err := request(ctx, b, b.o.Timeout, b.client.DeleteObject, &s3.DeleteObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		IfMatch:             strOrNil(string(o.IfMatch)),
		ExpectedBucketOwner: strOrNil(b.o.Owner),
	})
	if err == nil && !c.Empty() {
		err = c.Fail(errYes, store.ErrUnavailable, store.Unknown, "%v", errYes)
	}
	return err
}

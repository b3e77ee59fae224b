package s3bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

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

// Put implements [object.Bucket]. A put with a condition is sent once; its outcome
// is unknown if no answer came.
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts)
	if err == nil {
		err = checkVersions(key, o.IfMatch)
	}
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err != nil {
		return object.Info{}, opError("put", key, err)
	}
	info, err := b.put(ctx, key, body, o)
	return info, opError("put", key, err)
}

func (b *Bucket) put(ctx context.Context, key string, body io.Reader, o object.PutOptions) (object.Info, error) {
	first, more, err := readPart(body, b.o.PartSize)
	if err != nil {
		return object.Info{}, store.MarkNotApplied(err)
	}
	c := condition{o.IfAbsent, o.IfMatch}
	large := b.parts || more
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
		info, err = b.putParts(ctx, key, io.MultiReader(bytes.NewReader(first), body), o)
	case c.any():
		info, err = b.putOnce(ctx, key, first, o)
	default:
		err = b.repeat(ctx, func() (err error) {
			info, err = b.putOnce(ctx, key, first, o)
			return err
		})
	}
	return info, about(key, o.IfMatch, needed, err)
}

// readPart reads up to size bytes, and tells whether there are more.
func readPart(body io.Reader, size int64) (part []byte, more bool, err error) {
	var buf bytes.Buffer
	// One byte more tells whether this is the end.
	if _, err := io.CopyN(&buf, body, size+1); err != nil && err != io.EOF {
		return nil, false, err
	}
	return buf.Bytes(), int64(buf.Len()) > size, nil
}

func (b *Bucket) putOnce(ctx context.Context, key string, body []byte, o object.PutOptions) (object.Info, error) {
	in := &s3.PutObjectInput{
		Bucket:               &b.name,
		Key:                  &key,
		Body:                 bytes.NewReader(body),
		ContentLength:        aws.Int64(int64(len(body))),
		ContentType:          aws.String(cmp.Or(o.ContentType, "application/octet-stream")),
		Metadata:             o.Metadata,
		ExpectedBucketOwner:  strOrNil(b.o.Owner),
		ServerSideEncryption: b.o.Encryption,
		SSEKMSKeyId:          strOrNil(b.o.KMSKey),
		ACL:                  b.o.ACL,
	}
	in.IfMatch, in.IfNoneMatch = condition{o.IfAbsent, o.IfMatch}.headers()
	var out *s3.PutObjectOutput
	c, err := b.call(ctx, b.timeoutFor(len(body)), func(ctx context.Context, opt func(*s3.Options)) (err error) {
		out, err = b.client.PutObject(ctx, in, opt)
		return err
	})
	switch {
	case err != nil:
	case !c.Empty():
		err = c.Fail(errYes, store.ErrUnavailable, store.Unknown, "%v", errYes)
	case aws.ToString(out.ETag) == "":
		err = c.Fail(errNoVersion, store.ErrUnavailable, store.Unknown, "%v", errNoVersion)
	}
	if err != nil {
		return object.Info{}, err
	}
	return object.Info{Key: key, Version: versionOf(out.ETag), Size: int64(len(body)), Now: c.Now()}, nil
}

var (
	errNoVersion = errors.New("the answer names no version")
	errYes       = errors.New("the answer has a body where S3 sends none; is the endpoint right, or does a proxy answer in its place?")
)

func (b *Bucket) timeoutFor(size int) time.Duration {
	return b.o.Timeout + time.Duration(size)*time.Second/minRate
}

// Delete implements [object.Bucket]. On a versioned bucket it leaves a delete
// marker, and the versions stay.
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err == nil {
		err = checkVersions(key, o.IfMatch)
	}
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err != nil {
		return opError("delete", key, err)
	}
	if o.IfMatch == "" {
		err = b.repeat(ctx, func() error { return b.deleteOnce(ctx, key, o) })
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return opError("delete", key, err)
	}
	if err = b.require(ctx, object.DeleteIfMatch); err == nil {
		err = b.deleteOnce(ctx, key, o)
	}
	return opError("delete", key, about(key, o.IfMatch, object.DeleteIfMatch, err))
}

func (b *Bucket) deleteOnce(ctx context.Context, key string, o object.DeleteOptions) error {
	c, err := b.call(ctx, b.o.Timeout, func(ctx context.Context, opt func(*s3.Options)) error {
		_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
			Bucket:              &b.name,
			Key:                 &key,
			IfMatch:             strOrNil(string(o.IfMatch)),
			ExpectedBucketOwner: strOrNil(b.o.Owner),
		}, opt)
		return err
	})
	if err == nil && !c.Empty() {
		err = c.Fail(errYes, store.ErrUnavailable, store.Unknown, "%v", errYes)
	}
	return err
}

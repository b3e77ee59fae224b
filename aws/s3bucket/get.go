package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const firstPause = 100 * time.Millisecond

// repeat sends f until it succeeds, fails for good, or has been sent as often as
// allowed. f must be something that may be sent again. What comes after a try whose
// outcome is unknown leaves it unknown.
func (b *Bucket) repeat(ctx context.Context, f func() error) error {
	lost := false
	for try := 1; ; try++ {
		err := f()
		if err != nil && lost {
			err = afterUnknown(err)
		}
		again := errors.Is(err, store.ErrUnavailable) || errors.Is(err, object.ErrBusy)
		if !again || try >= b.tries || !awscall.Pause(ctx, firstPause, try) {
			return err
		}
		lost = store.OutcomeOf(err) == store.Unknown
	}
}

// afterUnknown is the error of a last try after one whose outcome is unknown. A
// conflict may be one with that one.
func afterUnknown(err error) error {
	if errors.Is(err, store.ErrConflict) {
		err = errors.New("an earlier attempt got no answer; the last error is: " + err.Error())
	}
	return store.MarkUnknown(err)
}

// Get implements [object.Bucket].
func (b *Bucket) Get(ctx context.Context, key string, opts *object.GetOptions) (*object.Reader, error) {
	o, err := object.CheckGet(key, opts)
	err = checkCall(ctx, err, key, o.IfMatch)
	if o.IfChanged != "" && !isETag(string(o.IfChanged)) {
		o.IfChanged = "" // no state has this version
	}
	if err != nil {
		return nil, b.opError("get", key, err)
	}
	var r *object.Reader
	err = b.repeat(ctx, func() (err error) {
		r, err = b.get(ctx, key, o)
		return err
	})
	if errors.Is(err, object.ErrRange) && o.Offset == 0 && o.Length > 0 {
		// Of an empty body not even the beginning can be asked for.
		o.Length = 0
		r, err = b.get(ctx, key, o)
	}
	return r, b.opError("get", key, about(key, o.IfMatch, "", err))
}

func (b *Bucket) get(ctx context.Context, key string, o object.GetOptions) (_ *object.Reader, err error) {
	in := &s3.GetObjectInput{
		Bucket:              &b.name,
		Key:                 &key,
		IfMatch:             strOrNil(string(o.IfMatch)),
		IfNoneMatch:         strOrNil(string(o.IfChanged)),
		ExpectedBucketOwner: strOrNil(b.o.Owner),
	}
	switch {
	case o.Length > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", o.Offset, o.Offset+o.Length-1))
	case o.Offset > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", o.Offset))
	}
	c := awscall.New(ctx, b.where)
	if ctx.Err() != nil {
		return nil, c.Classify(ctx.Err())
	}
	// The limit of the request becomes one for each pause in its body.
	body := c.Body(b.o.Timeout)
	defer func() {
		if err != nil {
			body.Close()
		}
	}()
	out, err := b.client.GetObject(transport.ExpectStream(body.Context), in, b.once(c))
	if err != nil {
		return nil, b.classify(c, err)
	}
	body.Begin(out.Body)
	size, err := wholeSize(out)
	if aws.ToString(out.ETag) == "" {
		err = errNoVersion // a write on this state would have no condition
	}
	if err != nil {
		return nil, c.Fail(err, store.ErrUnavailable, store.Unknown, "%v", err)
	}
	info := object.Info{
		Key:         key,
		Version:     versionOf(out.ETag),
		Size:        size,
		Modified:    aws.ToTime(out.LastModified),
		Now:         c.Now(),
		ContentType: aws.ToString(out.ContentType),
		Headers:     headers(out.CacheControl, out.ContentDisposition, out.ContentEncoding, out.ContentLanguage),
		Metadata:    maps.Clone(out.Metadata),
	}
	if in.Range != nil && out.ContentRange == nil {
		return nil, c.Fail(errors.ErrUnsupported, errors.ErrUnsupported, store.NotApplied, "the server ignores ranges")
	}
	return &object.Reader{ReadCloser: body, Info: info}, nil
}

// headers returns the headers of an answer.
func headers(cache, disposition, encoding, language *string) object.Headers {
	return object.Headers{
		CacheControl: aws.ToString(cache), ContentDisposition: aws.ToString(disposition),
		ContentEncoding: aws.ToString(encoding), ContentLanguage: aws.ToString(language),
	}
}

// errNoLength: without the length, the end of a connection looks like the end of the body.
var errNoLength = errors.New("the answer does not say how long the object is: look at the proxy in front of the server")

// wholeSize is the size of the object, of which out may be a part.
func wholeSize(out *s3.GetObjectOutput) (int64, error) {
	_, total, part := strings.Cut(aws.ToString(out.ContentRange), "/")
	size, err := strconv.ParseInt(total, 10, 64)
	switch {
	case out.ContentLength == nil || part && err != nil:
		return 0, errNoLength
	case part:
		return size, nil
	}
	return *out.ContentLength, nil
}

// Stat implements [object.Bucket].
func (b *Bucket) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := object.CheckKey(key); err != nil {
		return object.Info{}, b.opError("stat", key, err)
	}
	var info object.Info
	err := b.repeat(ctx, func() (err error) {
		info, _, err = b.stat(ctx, key)
		return err
	})
	return info, b.opError("stat", key, err)
}

// stat describes an object, and returns the id of its newest version where versions are
// kept.
func (b *Bucket) stat(ctx context.Context, key string) (info object.Info, id string, err error) {
	out, c, err := request(ctx, b, b.o.Timeout, b.client.HeadObject, &s3.HeadObjectInput{
		Bucket: &b.name, Key: &key, ExpectedBucketOwner: strOrNil(b.o.Owner),
	})
	if c.Status() == http.StatusNotFound && awscall.Code(err) == "NotFound" {
		err = store.ErrNotFound // the answer to a HEAD has no body that could tell more
	}
	if err = withVersion(c, err, out.ETag); err == nil && out.ContentLength == nil {
		err = c.Fail(errNoLength, store.ErrUnavailable, store.Unknown, "%v", errNoLength)
	}
	if err != nil {
		return object.Info{}, "", err
	}
	return object.Info{
		Key:         key,
		Version:     versionOf(out.ETag),
		Size:        aws.ToInt64(out.ContentLength),
		Modified:    aws.ToTime(out.LastModified),
		Now:         c.Now(),
		ContentType: aws.ToString(out.ContentType),
		Headers:     headers(out.CacheControl, out.ContentDisposition, out.ContentEncoding, out.ContentLanguage),
		Metadata:    maps.Clone(out.Metadata),
	}, aws.ToString(out.VersionId), nil
}

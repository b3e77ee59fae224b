package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	if err != nil {
		return nil, b.opError("get", key, about(key, o.IfMatch, "", err))
	}
	return r, nil
}

func (b *Bucket) get(ctx context.Context, key string, o object.GetOptions) (*object.Reader, error) {
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
	stall := newStall(ctx, b.o.Timeout, c.Share(b.o.Timeout))
	out, err := b.client.GetObject(transport.ExpectStream(stall.ctx), in, b.once(c))
	if err != nil {
		stall.end()
		return nil, b.classify(c, err)
	}
	stall.timer.Stop()
	size, err := wholeSize(out)
	if aws.ToString(out.ETag) == "" {
		err = errNoVersion // a write on this state would have no condition
	}
	if err != nil {
		stall.end()
		out.Body.Close()
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
		stall.end()
		out.Body.Close()
		return nil, c.Fail(errors.ErrUnsupported, errors.ErrUnsupported, store.NotApplied, "the server ignores ranges")
	}
	return &object.Reader{ReadCloser: &body{out.Body, stall, c}, Info: info}, nil
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

// stall ends a context when nothing has happened for a while.
type stall struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	spent  time.Duration // in reading
	size   int64         // that was read
}

var (
	errStalled = errors.New("no more bytes of the answer arrived")
	errTrickle = fmt.Errorf("the answer was too slow: less than %d bytes a second arrived", minReadRate)
)

// newStall returns a stall of this limit, and of first until the answer begins.
func newStall(ctx context.Context, limit, first time.Duration) *stall {
	s := &stall{limit: limit}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	s.timer = time.AfterFunc(first, func() { s.cancel(errStalled) })
	return s
}

func (s *stall) moves() { s.timer.Reset(s.limit) }

// read notes a read of n bytes, and returns an error when all came too slowly.
func (s *stall) read(n int, took time.Duration) error {
	s.timer.Stop()
	s.spent += took
	s.size += int64(n)
	if s.spent > s.limit+time.Duration(float64(s.size)/minReadRate*float64(time.Second)) {
		return errTrickle
	}
	return nil
}

func (s *stall) end() {
	s.timer.Stop()
	s.cancel(nil)
}

// body is the body of an answer. The time that its reader spends between two reads
// does not count as a stall.
type body struct {
	io.ReadCloser
	stall *stall
	call  *awscall.Call
}

func (b *body) Read(p []byte) (int, error) {
	b.stall.moves()
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	if slow := b.stall.read(n, time.Since(start)); err == nil {
		err = slow
	}
	if err != nil && err != io.EOF {
		if cause := store.Cause(b.stall.ctx); cause != nil {
			err = cause
		}
		err = b.call.Fail(err, store.ErrUnavailable, store.Unknown, "cannot read the body of the answer: %s", b.call.Text(err))
	}
	return n, err
}

func (b *body) Close() error {
	b.stall.end()
	return b.ReadCloser.Close()
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
	if err == nil && aws.ToString(out.ETag) == "" {
		err = c.Fail(errNoVersion, store.ErrUnavailable, store.Unknown, "%v", errNoVersion)
	} else if err == nil && out.ContentLength == nil {
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

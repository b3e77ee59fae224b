package s3bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/aws/transport"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// Versions sends requests for single versions of objects, without conditions. Package s3verstore
// uses it.
//
// If a request fails, Versions sends it again, except a Put. If a version does not exist, the error
// matches [store.ErrNotFound]. Each request has the whole [Options].Timeout, even if the deadline
// of its context is near.
type Versions struct{ b *Bucket }

// Versions returns a value that sends the requests for single versions.
func (b *Bucket) Versions() Versions { return Versions{b} }

// ErrDeleteMarker: an object does not exist, because its newest version is a delete marker. The error
// matches [store.ErrNotFound].
var ErrDeleteMarker = fmt.Errorf("%w: the newest version is a delete marker", store.ErrNotFound)

// NullVersion is the id of a version that was written while versioning was not enabled.
const NullVersion = "null"

// ObjectVersion is one version of an object.
type ObjectVersion struct {
	Key      string
	ID       string // empty if the server sent no id
	ETag     string // without quotes
	Size     int64  // in bytes
	Modified time.Time
}

// VersionPage is one page of a listing of versions.
type VersionPage struct {
	Versions []ObjectVersion // newest version of each key first; without delete markers
	NextKey  string          // first key of the next page; empty for the last page
}

// names says whether a request names an object, so that it may be answered that there is
// none.
type names bool

const (
	noObject  names = false
	oneObject names = true
)

// call sends one request.
func (v Versions) call(ctx context.Context, timeout time.Duration, n names, f func(ctx context.Context, opt func(*s3.Options)) error) (*awscall.Call, error) {
	c := awscall.New(ctx, v.b.where)
	err := v.b.send(ctx, c, timeout, f)
	if c.Status() == http.StatusNotFound && awscall.Code(err) == "NotFound" {
		err = store.ErrNotFound // the answer to a HEAD has no body that could tell more
		if c.Header("X-Amz-Delete-Marker") == "true" {
			err = ErrDeleteMarker
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound) && n == noObject:
		err = c.Fail(errNoBucket, store.ErrMisconfigured, store.NotApplied, "%v", errNoBucket)
	case errors.Is(err, store.ErrConflict), errors.Is(err, object.ErrNotChanged), errors.Is(err, object.ErrRange):
		err = c.Fail(err, nil, store.NotApplied, "an unexpected reply to a request without a condition: status %d", c.Status())
	case errors.Is(err, object.ErrBusy):
		err = c.Fail(err, store.ErrUnavailable, store.Unknown, "%s", c.Text(err))
	}
	return c, err
}

// repeat is call for a request that may be sent again.
func (v Versions) repeat(ctx context.Context, n names, f func(ctx context.Context, opt func(*s3.Options)) error) error {
	return v.b.repeat(ctx, func() error {
		_, err := v.call(ctx, v.b.o.Timeout, n, f)
		return err
	})
}

// repeatRequest is repeat for a method of the client of the SDK. The answer is never nil.
func repeatRequest[In, Out any](ctx context.Context, v Versions, n names, method method[In, Out], in *In) (out *Out, err error) {
	err = v.repeat(ctx, n, func(ctx context.Context, opt func(*s3.Options)) (err error) {
		out, err = method(ctx, in, opt)
		return err
	})
	return cmp.Or(out, new(Out)), err
}

// Put writes a version, in one request. The last argument is the time limit of the request.
func (v Versions) Put(ctx context.Context, key string, body []byte, contentType string, within time.Duration) (ObjectVersion, error) {
	put := ObjectVersion{Key: key, Size: int64(len(body))}
	c, err := v.call(ctx, within, noObject, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := v.b.client.PutObject(ctx, &s3.PutObjectInput{
			Bucket:               &v.b.name,
			Key:                  &key,
			Body:                 bytes.NewReader(body),
			ContentLength:        aws.Int64(int64(len(body))),
			ContentType:          &contentType,
			ExpectedBucketOwner:  strOrNil(v.b.o.Owner),
			ServerSideEncryption: v.b.o.Encryption,
			SSEKMSKeyId:          strOrNil(v.b.o.KMSKey),
			ACL:                  v.b.o.ACL,
		}, opt)
		if err == nil {
			put.ID, put.ETag = aws.ToString(out.VersionId), unquoted(out.ETag)
		}
		return err
	})
	if err == nil && !c.Empty() {
		err = c.Fail(errYes, store.ErrUnavailable, store.Unknown, "%v", errYes)
	}
	return put, err
}

// Get returns the body of a version. If the body has more bytes than the limit, Get returns one
// byte more than the limit. An empty id names the newest version.
func (v Versions) Get(ctx context.Context, key, id string, limit int64) (body []byte, err error) {
	err = v.repeat(ctx, oneObject, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := v.b.client.GetObject(transport.ExpectStream(ctx), &s3.GetObjectInput{
			Bucket: &v.b.name, Key: &key, VersionId: strOrNil(id), ExpectedBucketOwner: strOrNil(v.b.o.Owner),
		}, opt)
		if err != nil {
			return err
		}
		defer out.Body.Close()
		body, err = io.ReadAll(io.LimitReader(out.Body, limit+1))
		return err
	})
	return body, err
}

// Metadata returns the metadata of a version. An empty id names the newest version. If this is a
// delete marker, and the server says so, the error matches [ErrDeleteMarker].
func (v Versions) Metadata(ctx context.Context, key, id string) (metadata map[string]string, err error) {
	out, err := repeatRequest(ctx, v, oneObject, v.b.client.HeadObject, &s3.HeadObjectInput{
		Bucket: &v.b.name, Key: &key, VersionId: strOrNil(id), ExpectedBucketOwner: strOrNil(v.b.o.Owner),
	})
	return out.Metadata, err
}

// List yields pages with the versions of all objects whose keys begin with prefix, in the order of
// the keys. It requests a page only when the loop needs it. An error ends the listing.
func (v Versions) List(ctx context.Context, prefix string) iter.Seq2[VersionPage, error] {
	return func(yield func(VersionPage, error) bool) {
		in := &s3.ListObjectVersionsInput{Bucket: &v.b.name, Prefix: &prefix, ExpectedBucketOwner: strOrNil(v.b.o.Owner)}
		var pages awscall.Pages
		for {
			out, err := repeatRequest(ctx, v, noObject, v.b.client.ListObjectVersions, in)
			more := err == nil && aws.ToBool(out.IsTruncated)
			if more {
				in.KeyMarker, in.VersionIdMarker = out.NextKeyMarker, strOrNil(aws.ToString(out.NextVersionIdMarker))
				token := ""
				if key := aws.ToString(in.KeyMarker); key != "" {
					token = key + "\x00" + aws.ToString(in.VersionIdMarker)
				}
				err = pages.Next(token, len(out.Versions)+len(out.DeleteMarkers))
			}
			if err != nil {
				yield(VersionPage{}, err)
				return
			}
			var page VersionPage
			for _, w := range out.Versions {
				page.Versions = append(page.Versions, ObjectVersion{aws.ToString(w.Key), aws.ToString(w.VersionId), unquoted(w.ETag), aws.ToInt64(w.Size), aws.ToTime(w.LastModified)})
			}
			if more {
				page.NextKey = aws.ToString(in.KeyMarker)
			}
			if !yield(page, nil) || !more {
				return
			}
		}
	}
}

// removeAtOnce is how many versions one request removes at most.
const removeAtOnce = 1000

// Remove removes versions of an object, and returns the number of versions that it could not
// remove. A version that no longer exists counts as removed. If the server does not accept many
// versions in one request, Remove sends one request for each.
func (v Versions) Remove(ctx context.Context, key string, ids []string) (failed int, err error) {
	for len(ids) > 1 && !v.b.oneByOne.Load() {
		some := ids[:min(len(ids), removeAtOnce)]
		refused, err := v.removeMany(ctx, key, some)
		if takesNoMany(err) {
			v.b.oneByOne.Store(true)
			break
		}
		if err != nil {
			return refused + len(ids) - len(some), err
		}
		ids = ids[len(some):]
	}
	for i, id := range ids {
		_, err := repeatRequest(ctx, v, oneObject, v.b.client.DeleteObject, &s3.DeleteObjectInput{
			Bucket: &v.b.name, Key: &key, VersionId: &id, ExpectedBucketOwner: strOrNil(v.b.o.Owner),
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return len(ids) - i, err
		}
	}
	return 0, nil
}

// takesNoMany reports whether a server does not take the deletion of several versions in
// one request, or not as the SDK sends it.
func takesNoMany(err error) bool {
	codes := []string{"MissingContentMD5", "InvalidDigest", "MalformedXML", "MethodNotAllowed", "InvalidRequest"}
	return slices.Contains(codes, awscall.Code(err)) || errors.Is(err, errors.ErrUnsupported)
}

func (v Versions) removeMany(ctx context.Context, key string, ids []string) (failed int, err error) {
	var all []types.ObjectIdentifier
	for _, id := range ids {
		all = append(all, types.ObjectIdentifier{Key: &key, VersionId: &id})
	}
	out, err := repeatRequest(ctx, v, noObject, v.b.client.DeleteObjects, &s3.DeleteObjectsInput{
		Bucket: &v.b.name, Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}, ExpectedBucketOwner: strOrNil(v.b.o.Owner),
	})
	if err != nil {
		return len(ids), err
	}
	refused := slices.DeleteFunc(out.Errors, func(e types.Error) bool {
		code := aws.ToString(e.Code)
		return code == "NoSuchVersion" || code == "NoSuchKey"
	})
	if len(refused) == 0 {
		return 0, nil
	}
	return len(refused), fmt.Errorf("%d of %d versions were not deleted; the first error is %s: %s",
		len(refused), len(ids), aws.ToString(refused[0].Code), aws.ToString(refused[0].Message))
}

package s3verstore

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/aws/internal/awscall"
	"github.com/holdfast-go/holdfast/aws/internal/transport"
	"github.com/holdfast-go/holdfast/store"
)

const firstPause = 50 * time.Millisecond

// errGone says that a version was removed since it was listed.
var errGone = errors.New("the version is gone")

// errName says that the server takes no object of this name.
var errName = errors.New("no object can have this name here")

// once sends one request through f, with the SDK's retries off.
func (s *Store) once(ctx context.Context, timeout time.Duration, f func(ctx context.Context, opt func(*s3.Options)) error) error {
	c := awscall.New(ctx, s.where)
	if ctx.Err() != nil {
		return c.Classify(ctx.Err())
	}
	ctx, cancel := c.WithTimeout(timeout)
	defer cancel()
	err := f(ctx, func(o *s3.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = c.Watch(s.http)
	})
	if damaged := c.Damaged(); damaged != nil {
		return damaged
	}
	if err == nil {
		return nil
	}
	text := c.Text(err)
	switch code := awscall.Code(err); {
	case code == "NoSuchBucket":
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "there is no such bucket here; is the name right, and the region or the endpoint?")
	case code == "NoSuchVersion" || code == "NoSuchKey" || c.Status() == http.StatusNotFound:
		return c.Fail(err, errGone, store.NotApplied, "%s", text)
	case c.Status() == http.StatusBadRequest && (code == "KeyTooLongError" || strings.Contains(code, "Invalid") && strings.HasSuffix(code, "Name")):
		return c.Fail(err, errName, store.NotApplied, "%s", text)
	case code == "RequestTimeout" || code == "SlowDown" || code == "InternalError" || code == "ServiceUnavailable" || code == "OperationAborted":
		return c.Fail(err, store.ErrUnavailable, store.Unknown, "%s", text)
	case code == "RequestTimeTooSkewed":
		return c.Fail(err, store.ErrMisconfigured, store.NotApplied, "the clock of this machine is wrong: %s", text)
	case code == "NotImplemented" || c.Status() == http.StatusNotImplemented:
		return c.Fail(err, errors.ErrUnsupported, store.NotApplied, "%s", text)
	}
	return c.Classify(err)
}

// read is once, and again where the server could not be reached, for requests that
// may be sent twice.
func (s *Store) read(ctx context.Context, f func(ctx context.Context, opt func(*s3.Options)) error) error {
	for try := 1; ; try++ {
		err := s.once(ctx, s.o.Timeout, f)
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil || try >= s.o.Tries || !awscall.Pause(ctx, firstPause, try) {
			return err
		}
	}
}

func (s *Store) owner() *string {
	if s.o.Owner == "" {
		return nil
	}
	return &s.o.Owner
}

// version is one version of an object, as a listing shows it.
type version struct {
	id, etag string
	modified time.Time
}

// null is the id of a version that was put while versioning was off or suspended.
const null = "null"

// put sends the PUT of an entry, once.
func (s *Store) put(ctx context.Context, object string, body []byte) (version, error) {
	var v version
	err := s.once(ctx, s.o.Life, func(ctx context.Context, opt func(*s3.Options)) error {
		in := &s3.PutObjectInput{
			Bucket: &s.bucket, Key: &object, Body: bytes.NewReader(body), ExpectedBucketOwner: s.owner(),
			ContentType: aws.String("text/plain; charset=utf-8"), ContentLength: aws.Int64(int64(len(body))),
			ServerSideEncryption: s.o.Encryption, ACL: s.o.ACL,
		}
		if s.o.KMSKey != "" {
			in.SSEKMSKeyId = &s.o.KMSKey
		}
		out, err := s.client.PutObject(ctx, in, opt)
		if err == nil {
			v = version{id: aws.ToString(out.VersionId), etag: tag(out.ETag)}
			if v.etag != etagOf(body) {
				s.fit.opaque.Store(true)
			}
		}
		return err
	})
	return v, err
}

// listing is what a LIST showed of one object.
type listing struct {
	watch    stopwatch // since before the first request
	pages    int
	versions []version // oldest first, each once, without null
	null     *version
	size     int // of the versions, in memory
}

// list lists the versions of one object.
func (s *Store) list(ctx context.Context, object string) (*listing, error) {
	l := &listing{watch: startWatch()}
	var keyMarker, idMarker *string
	var pages awscall.Pages
	for {
		out, err := s.page(ctx, object, keyMarker, idMarker, 0)
		if err != nil {
			return nil, err
		}
		l.pages++
		for _, v := range out.Versions {
			// The whole key: a listing by prefix shows others too.
			if aws.ToString(v.Key) == object {
				l.add(v)
			}
		}
		more, err := next(&pages, out, &keyMarker, &idMarker)
		if err == nil {
			err = l.tooMany(object)
		}
		if err != nil {
			return nil, err
		}
		if !more || aws.ToString(keyMarker) > object {
			break
		}
	}
	l.order()
	return l, nil
}

// next sets the markers of the page that follows, if there is one.
func next(pages *awscall.Pages, out *s3.ListObjectVersionsOutput, key, id **string) (bool, error) {
	if !aws.ToBool(out.IsTruncated) {
		return false, nil
	}
	*key, *id = out.NextKeyMarker, out.NextVersionIdMarker
	token := ""
	if aws.ToString(*key) != "" {
		token = aws.ToString(*key) + "\x00" + aws.ToString(*id)
	}
	return true, pages.Next(token, len(out.Versions)+len(out.DeleteMarkers))
}

// page sends one LIST. limit 0 leaves the length of the page to the server.
func (s *Store) page(ctx context.Context, prefix string, keyMarker, idMarker *string, limit int32) (out *s3.ListObjectVersionsOutput, err error) {
	err = s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) (err error) {
		in := &s3.ListObjectVersionsInput{
			Bucket: &s.bucket, Prefix: &prefix, KeyMarker: keyMarker, VersionIdMarker: idMarker,
			ExpectedBucketOwner: s.owner(),
		}
		if aws.ToString(idMarker) == "" {
			in.VersionIdMarker = nil // some servers refuse an empty one
		}
		if limit > 0 {
			in.MaxKeys = &limit
		}
		out, err = s.client.ListObjectVersions(ctx, in, opt)
		return err
	})
	return out, err
}

// maxListing bounds what the versions of one object may take in memory: more than
// 200,000 versions.
const maxListing = 32 << 20

// versionCost is what a version takes beside its id and its ETag.
const versionCost = 64

func (l *listing) tooMany(object string) error {
	if l.size <= maxListing {
		return nil
	}
	return fmt.Errorf("%w: %s has more versions than can be read (%d and more); were they never removed?", store.ErrUnsafe, object, len(l.versions))
}

func (l *listing) add(v types.ObjectVersion) {
	w := version{aws.ToString(v.VersionId), tag(v.ETag), aws.ToTime(v.LastModified)}
	l.size += versionCost + len(w.id) + len(w.etag)
	if w.id == null || w.id == "" {
		l.null = &w
		return
	}
	l.versions = append(l.versions, w)
}

// order brings the versions, which came newest first, into their order, oldest
// first, each once.
//
// A listing that ran beside a write on versitygw shows the version that was current
// when it began at the newest place, and perhaps a second time. Its ids are ULIDs,
// which sort by the time at which they were made: their order is permanent, and so
// it is the one that counts wherever the ids are of this kind.
func (l *listing) order() {
	slices.Reverse(l.versions)
	sortable := true
	for _, v := range l.versions {
		sortable = sortable && isULID(v.id)
	}
	if sortable {
		slices.SortFunc(l.versions, func(a, b version) int { return strings.Compare(a.id, b.id) })
	}
	seen := map[string]bool{}
	l.versions = slices.DeleteFunc(l.versions, func(v version) bool {
		twice := seen[v.id]
		seen[v.id] = true
		return twice
	})
}

// ids returns the ids of the versions.
func (l *listing) ids() []string {
	ids := make([]string, len(l.versions))
	for i := range l.versions {
		ids[i] = l.versions[i].id
	}
	return ids
}

// movedText says what is wrong with a server whose order is not permanent.
const movedText = "the versions of an object changed their order"

// sameOrder reports whether what stands in both lists stands there in one order.
func sameOrder(a, b []string) bool {
	at := make(map[string]int, len(a))
	for i, id := range a {
		at[id] = i
	}
	last := -1
	for _, id := range b {
		if i, ok := at[id]; ok {
			if i < last {
				return false
			}
			last = i
		}
	}
	return true
}

// isULID reports whether a version id is a ULID: 48 bits of time and 80 random bits
// in Crockford's base 32.
func isULID(id string) bool {
	if len(id) != 26 || id[0] > '7' {
		return false
	}
	for i := range len(id) {
		if strings.IndexByte("0123456789ABCDEFGHJKMNPQRSTVWXYZ", id[i]) < 0 {
			return false
		}
	}
	return true
}

// fetch reads the body of a version.
//
// Some servers look up a version by its id and then open what is current by then. So
// the body must be what the listing said, by its MD5, or the same twice.
func (s *Store) fetch(ctx context.Context, object string, v version) ([]byte, error) {
	body, err := s.get(ctx, object, v.id)
	if err != nil || s.fit.opaque.Load() || etagOf(body) == v.etag {
		return body, err
	}
	for range 4 {
		again, err := s.get(ctx, object, v.id)
		if err != nil || etagOf(again) == v.etag || bytes.Equal(again, body) {
			return again, err
		}
		body = again
	}
	return nil, fmt.Errorf("%w: the body of version %s of %s is another each time", store.ErrUnsafe, v.id, object)
}

func (s *Store) get(ctx context.Context, object, id string) (body []byte, err error) {
	err = s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := s.client.GetObject(transport.ExpectStream(ctx), &s3.GetObjectInput{
			Bucket: &s.bucket, Key: &object, VersionId: &id, ExpectedBucketOwner: s.owner(),
		}, opt)
		if err != nil {
			return err
		}
		defer out.Body.Close()
		body, err = io.ReadAll(io.LimitReader(out.Body, maxBody+1))
		return err
	})
	return body, err
}

// etagOf is the ETag of a body on a server that makes it the MD5.
func etagOf(body []byte) string {
	sum := md5.Sum(body)
	return hex.EncodeToString(sum[:])
}

// tag is an ETag without the quotes that not every server sends.
func tag(etag *string) string { return strings.Trim(aws.ToString(etag), `"`) }

// current asks for the object without naming a version: whether it is there, and
// whether a delete marker stands in its place.
func (s *Store) current(ctx context.Context, object string) (there bool, err error) {
	err = s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		_, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{
			Bucket: &s.bucket, Key: &object, ExpectedBucketOwner: s.owner(),
		}, opt)
		return err
	})
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// batch is how many versions one request removes at most.
const batch = 1000

// remove deletes versions, and returns how many it could not. A version that is gone
// already is as good as deleted.
func (s *Store) remove(ctx context.Context, object string, ids []string) (failed int, err error) {
	for len(ids) > 1 && !s.fit.single.Load() {
		some := ids[:min(len(ids), batch)]
		refused, err := s.removeBatch(ctx, object, some)
		if badBatch(err) {
			s.fit.single.Store(true)
			break
		}
		if err != nil {
			return refused + len(ids) - len(some), err
		}
		ids = ids[len(some):]
	}
	for i, id := range ids {
		err = s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
			_, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{
				Bucket: &s.bucket, Key: &object, VersionId: &id, ExpectedBucketOwner: s.owner(),
			}, opt)
			return err
		})
		if err != nil && !errors.Is(err, errGone) {
			return len(ids) - i, err
		}
	}
	return 0, nil
}

// badBatch reports whether a server does not take the deletion of several versions
// in one request, or not as the SDK sends it.
func badBatch(err error) bool {
	if err == nil {
		return false
	}
	switch awscall.Code(err) {
	case "MissingContentMD5", "InvalidDigest", "MalformedXML", "MethodNotAllowed", "InvalidRequest":
		return true
	}
	return errors.Is(err, errors.ErrUnsupported)
}

func (s *Store) removeBatch(ctx context.Context, object string, ids []string) (failed int, err error) {
	var all []types.ObjectIdentifier
	for _, id := range ids {
		all = append(all, types.ObjectIdentifier{Key: &object, VersionId: &id})
	}
	var refused []types.Error
	err = s.read(ctx, func(ctx context.Context, opt func(*s3.Options)) error {
		out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
			Bucket: &s.bucket, Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}, ExpectedBucketOwner: s.owner(),
		}, opt)
		if err == nil {
			refused = out.Errors
		}
		return err
	})
	if err != nil {
		return len(ids), err
	}
	refused = slices.DeleteFunc(refused, func(e types.Error) bool {
		code := aws.ToString(e.Code)
		return code == "NoSuchVersion" || code == "NoSuchKey"
	})
	if len(refused) == 0 {
		return 0, nil
	}
	return len(refused), fmt.Errorf("%d of %d versions were not deleted, the first for %s: %s",
		len(refused), len(ids), aws.ToString(refused[0].Code), aws.ToString(refused[0].Message))
}

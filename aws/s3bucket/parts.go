package s3bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

const (
	// maxParts is how many parts an upload can have, and maxPartSize how large one can
	// be, in bytes, by the protocol.
	maxParts    = 10_000
	maxPartSize = 5 << 30

	// abortTimeout is how long the bucket tries to abort an upload that failed, also after
	// the caller's context has ended.
	abortTimeout = 10 * time.Second
)

// upload is an upload in parts on its way.
type upload struct {
	object.Upload
	b        *Bucket
	progress object.Progress
	total    int64 // of all parts, in bytes; -1: not known
	onUpload bool  // leave it to be resumed, if it can be

	had map[int32]bool // parts of a resumed upload that done counts from its beginning

	mu    sync.Mutex
	parts []types.CompletedPart // the part of number n at n-1
	size  int64                 // of parts
	done  int64                 // what progress has reported
	lost  bool                  // a part was sent and not answered, so that it may be stored later
}

// putParts uploads a large body, of which first was read already. Only its completion is
// conditional; the rest has no effect by itself and is repeated.
func (b *Bucket) putParts(ctx context.Context, key string, first []byte, rest io.Reader, length int64, o object.PutOptions) (object.Info, error) {
	u, err := b.begin(ctx, key, o, b.checksum)
	if err != nil {
		return object.Info{}, err
	}
	u.PartSize = b.partSize(length)
	u.progress, u.total, u.onUpload = o.Progress, cmp.Or(length, -1), o.OnUpload != nil
	if o.OnUpload != nil {
		o.OnUpload(u.Upload)
	}
	if err := u.send(ctx, first, rest, nil); err != nil {
		return object.Info{}, u.fail(ctx, store.MarkNotApplied(err))
	}
	return u.complete(ctx, condition{o.IfAbsent, o.IfMatch})
}

// Resume implements [object.Uploader].
func (b *Bucket) Resume(ctx context.Context, up object.Upload, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(up.Key, opts) // without storage class and tags: those of the upload stay
	if err == nil && (up.ID == "" || up.PartSize < 0 || up.PartSize > maxPartSize) {
		err = fmt.Errorf("%w: the upload has no id, or an impossible part size of %d bytes", object.ErrInvalid, up.PartSize)
	}
	if err = checkCall(ctx, err, up.Key, o.IfMatch); err != nil {
		return object.Info{}, b.opError("put", up.Key, err)
	}
	info, err := b.resume(ctx, up, object.CheckedBody(body, o), o)
	return info, b.opError("put", up.Key, err)
}

func (b *Bucket) resume(ctx context.Context, up object.Upload, body io.Reader, o object.PutOptions) (object.Info, error) {
	c := condition{o.IfAbsent, o.IfMatch}
	needed := c.of(object.PartsIfAbsent, object.PartsIfMatch)
	if err := b.require(ctx, needed); err != nil {
		return object.Info{}, err
	}
	length := cmp.Or(o.Length, lengthOf(body))
	up.PartSize = cmp.Or(up.PartSize, b.partSize(length))
	u := &upload{Upload: up, b: b, progress: o.Progress, total: cmp.Or(length, -1), onUpload: o.OnUpload != nil}
	have, err := b.listParts(ctx, up)
	if err == nil {
		u.resumeAt(have)
		err = u.send(ctx, nil, body, have)
	}
	if err != nil {
		if !errors.Is(err, errNoUpload) { // or an earlier completion may have been applied
			err = store.MarkNotApplied(err)
		}
		return object.Info{}, u.fail(ctx, err)
	}
	info, err := u.complete(ctx, c)
	return info, about(up.Key, o.IfMatch, needed, err)
}

// begin begins an upload whose parts have this checksum; empty: none. Of o it takes what
// describes the object.
func (b *Bucket) begin(ctx context.Context, key string, o object.PutOptions, checksum types.ChecksumAlgorithm) (*upload, error) {
	var out *s3.CreateMultipartUploadOutput
	var now time.Time
	err := b.repeat(ctx, func() (err error) {
		var c *awscall.Call
		out, c, err = request(ctx, b, b.o.Timeout, b.client.CreateMultipartUpload, &s3.CreateMultipartUploadInput{
			Bucket:               &b.name,
			Key:                  &key,
			ContentType:          aws.String(cmp.Or(o.ContentType, defaultType)),
			CacheControl:         strOrNil(o.Headers.CacheControl),
			ContentDisposition:   strOrNil(o.Headers.ContentDisposition),
			ContentEncoding:      strOrNil(o.Headers.ContentEncoding),
			ContentLanguage:      strOrNil(o.Headers.ContentLanguage),
			ChecksumAlgorithm:    checksum,
			Metadata:             o.Metadata,
			StorageClass:         types.StorageClass(o.StorageClass),
			Tagging:              tagging(o.Tags),
			ExpectedBucketOwner:  strOrNil(b.o.Owner),
			ServerSideEncryption: b.o.Encryption,
			SSEKMSKeyId:          strOrNil(b.o.KMSKey),
			ACL:                  b.o.ACL,
		})
		if err == nil && aws.ToString(out.UploadId) == "" {
			err = c.Fail(errNoVersion, store.ErrUnavailable, store.Unknown, "the answer of the server has no upload ID")
		}
		now = c.Now()
		return err
	})
	if err != nil {
		return nil, store.MarkNotApplied(err)
	}
	up := object.Upload{Key: key, ID: *out.UploadId, Started: now, Now: now, Metadata: o.Metadata}
	return &upload{Upload: up, b: b, total: -1}, nil
}

// partSize is the size of the parts of a body of this length, in bytes; a length of 0 is
// not known.
func (b *Bucket) partSize(length int64) int64 {
	const unit = 1 << 20
	least := (length/maxParts + unit) / unit * unit
	if length <= b.o.PartSize*maxParts {
		least = 0
	}
	return max(b.o.PartSize, least)
}

// sizeOf is the size of the part of this number. Where the length of the body is not
// known, parts grow, so that 5 TiB fit into 10,000 of them: from 8 MiB in the first 5 GiB
// to 25 MiB after 14 GiB, 120 MiB after 110 GiB, and 1.6 GiB at the end of 5 TiB.
func (u *upload) sizeOf(number int) int64 {
	if u.total > 0 {
		return u.PartSize
	}
	return max(u.PartSize, 17*int64(number)*int64(number))
}

// send uploads all parts of a body. The bytes of first were read already; a nil body has no more
// bytes. If the store has a part with the same bytes, send does not send this part. An empty body
// is one empty part.
func (u *upload) send(ctx context.Context, first []byte, body io.Reader, have map[int32]types.Part) error {
	c := workerpool.New(ctx, u.b.o.Parallel, int64(u.b.o.Parallel)*u.b.o.PartSize)
	defer c.Close()
	for number := 1; ; number++ {
		size := u.sizeOf(number)
		if !c.WaitRoom(size) {
			break
		}
		part, ended := first, body == nil
		if first = nil; part == nil {
			buf := u.b.buffer(size)
			n, err := fill(body, buf)
			if err != nil && err != io.EOF {
				c.Stop(err, !u.onUpload) // what is on its way can be of use later
				break
			}
			part, ended = buf[:n], err == io.EOF
		}
		if len(part) == 0 && number > 1 {
			break
		}
		if number > maxParts || size > maxPartSize {
			c.Stop(fmt.Errorf("%w: the body does not fit into %d parts; with PutOptions.Length, a body can have up to 48 TiB", store.ErrTooLarge, maxParts), true)
			break
		}
		c.Go(size, func(ctx context.Context) error {
			err := u.sendPart(ctx, int32(number), part, have)
			// The SDK takes the body away from the connection before it returns, so
			// that nothing reads the part any more.
			u.b.buffers.Put(&part)
			return err
		})
		if ended {
			break
		}
	}
	return c.Wait()
}

// buffer returns a buffer of this size, one that was used before if there is one: to have
// the system clear new memory for each part takes a tenth of a put's processor time.
func (b *Bucket) buffer(size int64) []byte {
	if buf, ok := b.buffers.Get().(*[]byte); ok && int64(cap(*buf)) >= size {
		return (*buf)[:size]
	}
	return make([]byte, size)
}

// fill reads until buf is full. At the end of body it returns io.EOF, whatever was read.
func fill(body io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf); {
		m, err := body.Read(buf[n:])
		n += m
		switch {
		case err != nil:
			return n, err
		case m > 0:
			idle = 0
		case idle == 100:
			return n, io.ErrNoProgress
		default:
			idle++
		}
	}
	return n, nil
}

func (u *upload) sendPart(ctx context.Context, number int32, part []byte, have map[int32]types.Part) error {
	if p, ok := have[number]; ok && aws.ToInt64(p.Size) == int64(len(part)) && isMD5Of(versionOf(p.ETag), part) {
		u.add(number, int64(len(part)), types.CompletedPart{
			ETag: p.ETag, ChecksumCRC32: p.ChecksumCRC32, ChecksumCRC32C: p.ChecksumCRC32C,
			ChecksumCRC64NVME: p.ChecksumCRC64NVME, ChecksumSHA1: p.ChecksumSHA1, ChecksumSHA256: p.ChecksumSHA256,
		})
		return nil
	}
	var out *s3.UploadPartOutput
	err := u.repeatPart(ctx, func() (err error) {
		var c *awscall.Call
		// All parts that are on their way share the line.
		out, c, err = request(ctx, u.b, u.b.timeoutFor(len(part)*u.b.o.Parallel), u.b.client.UploadPart, &s3.UploadPartInput{
			Bucket:              &u.b.name,
			Key:                 &u.Key,
			UploadId:            &u.ID,
			PartNumber:          &number,
			Body:                bytes.NewReader(part),
			ContentLength:       aws.Int64(int64(len(part))),
			ExpectedBucketOwner: strOrNil(u.b.o.Owner),
		})
		return withVersion(c, err, out.ETag)
	})
	if err == nil {
		u.add(number, int64(len(part)), types.CompletedPart{
			ETag: out.ETag, ChecksumCRC32: out.ChecksumCRC32, ChecksumCRC32C: out.ChecksumCRC32C,
			ChecksumCRC64NVME: out.ChecksumCRC64NVME, ChecksumSHA1: out.ChecksumSHA1, ChecksumSHA256: out.ChecksumSHA256,
		})
	}
	return err
}

// repeatPart is repeat for a request that makes a part.
func (u *upload) repeatPart(ctx context.Context, f func() error) error {
	return u.b.repeat(ctx, func() error {
		err := f()
		if err != nil && store.OutcomeOf(err) == store.Unknown {
			u.mu.Lock()
			u.lost = true
			u.mu.Unlock()
		}
		return err
	})
}

// add notes a part that the store has.
func (u *upload) add(number int32, size int64, part types.CompletedPart) {
	part.PartNumber = &number
	u.mu.Lock()
	defer u.mu.Unlock()
	for len(u.parts) < int(number) {
		u.parts = append(u.parts, types.CompletedPart{})
	}
	u.parts[number-1] = part
	u.size += size
	if !u.had[number] {
		u.done += size
		u.progress.Report(u.done, u.total)
	}
}

// resumeAt reports how much of the body the store has before anything is sent, so that the
// caller can tell what this run sends. It counts the parts whose place and size are right.
// Whether their bytes are right is not known yet: one that has to be sent again counts
// once. Where the length of the body is not known, a shorter one could end before these
// parts, and nothing is counted.
func (u *upload) resumeAt(have map[int32]types.Part) {
	if u.total < 0 {
		return
	}
	u.had = make(map[int32]bool, len(have))
	for number, p := range have {
		if size := aws.ToInt64(p.Size); size == min(u.PartSize, u.total-int64(number-1)*u.PartSize) {
			u.had[number] = true
			u.done += size
		}
	}
	u.progress.Report(u.done, u.total)
}

// complete makes the object appear, under the condition. The request is sent again when
// no answer came: an upload is completed once at most, whatever the request says. What
// the server answers to the repetition may be about the first.
func (u *upload) complete(ctx context.Context, cond condition) (object.Info, error) {
	var lost error // of the first try that may have been applied
	for try := 1; ; try++ {
		info, err := u.completeOnce(ctx, cond)
		if err == nil {
			return info, nil
		}
		last := !errors.Is(err, store.ErrUnavailable) || try >= u.b.tries || !awscall.Pause(ctx, firstPause, try)
		switch {
		case last && lost != nil && errors.Is(err, errNoUpload):
			return object.Info{}, u.fail(ctx, fmt.Errorf("%w; the error of the next attempt: %w", lost, errNoUpload))
		case last && lost != nil:
			return object.Info{}, u.fail(ctx, fmt.Errorf("%w; the error of the next attempt: %v", lost, err))
		case last:
			return object.Info{}, u.fail(ctx, err)
		case lost == nil && store.OutcomeOf(err) == store.Unknown:
			lost = err
		}
	}
}

func (u *upload) completeOnce(ctx context.Context, cond condition) (object.Info, error) {
	in := &s3.CompleteMultipartUploadInput{
		Bucket:              &u.b.name,
		Key:                 &u.Key,
		UploadId:            &u.ID,
		MultipartUpload:     &types.CompletedMultipartUpload{Parts: u.parts},
		ExpectedBucketOwner: strOrNil(u.b.o.Owner),
	}
	in.IfMatch, in.IfNoneMatch = cond.headers()
	out, c, err := request(ctx, u.b, longTimeout, u.b.client.CompleteMultipartUpload, in)
	if err = withVersion(c, err, out.ETag); err != nil {
		return object.Info{}, err
	}
	return object.Info{Key: u.Key, Version: versionOf(out.ETag), Size: u.size, Now: c.Now()}, nil
}

// fail ends an upload that did not succeed. It is kept where that is wanted and it can
// still be completed, and aborted otherwise; also when the outcome of its completion is
// unknown, since an abort does not touch an object, and no late completion can follow it.
func (u *upload) fail(ctx context.Context, err error) error {
	over := errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, errNoUpload)
	if u.onUpload && !over {
		return &object.UnfinishedError{Upload: u.Upload, Err: err}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	if err := u.abort(ctx); err != nil {
		u.b.o.Logger.Warn("the parts of a failed upload could not be removed", "key", u.Key, "upload", u.ID, "error", err)
	}
	return err
}

// abort removes the parts. A part that is still on its way can survive an abort: where
// one may be, abort checks whether the upload still exists, and aborts it again.
func (u *upload) abort(ctx context.Context) error {
	for try := 1; ; try++ {
		err := u.b.abortUpload(ctx, u.Upload)
		if err != nil || !u.lost {
			return err
		}
		_, err = u.b.listParts(ctx, u.Upload)
		switch {
		case errors.Is(err, errNoUpload):
			return nil
		case err != nil || try >= u.b.tries:
			return fmt.Errorf("the server may have stored a part after the abort: %w", cmp.Or(err, errStillThere))
		}
		awscall.Pause(ctx, time.Second, try)
	}
}

var errStillThere = errors.New("the upload still exists")

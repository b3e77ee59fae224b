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
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// abortTimeout is how long an upload that failed is tried to be aborted, whatever
// became of the caller's context.
const abortTimeout = 10 * time.Second

// upload is an upload in parts on its way.
type upload struct {
	b     *Bucket
	key   string
	id    string
	parts []types.CompletedPart
	size  int64
}

// putParts uploads a large body. Only its completion is conditional, and sent once;
// the rest has no effect by itself and is repeated.
func (b *Bucket) putParts(ctx context.Context, key string, body io.Reader, o object.PutOptions) (object.Info, error) {
	u, err := b.begin(ctx, key, cmp.Or(o.ContentType, "application/octet-stream"), o.Metadata)
	if err != nil {
		return object.Info{}, err
	}
	err = u.send(ctx, body)
	if err != nil {
		u.abort(ctx)
		return object.Info{}, store.MarkNotApplied(err)
	}
	return u.complete(ctx, condition{o.IfAbsent, o.IfMatch})
}

func (b *Bucket) begin(ctx context.Context, key, contentType string, metadata map[string]string) (*upload, error) {
	var out *s3.CreateMultipartUploadOutput
	err := b.repeat(ctx, func() error {
		_, err := b.call(ctx, b.o.Timeout, func(ctx context.Context, opt func(*s3.Options)) (err error) {
			out, err = b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
				Bucket:               &b.name,
				Key:                  &key,
				ContentType:          &contentType,
				Metadata:             metadata,
				ExpectedBucketOwner:  strOrNil(b.o.Owner),
				ServerSideEncryption: b.o.Encryption,
				SSEKMSKeyId:          strOrNil(b.o.KMSKey),
				ACL:                  b.o.ACL,
			}, opt)
			return err
		})
		return err
	})
	if err != nil {
		return nil, store.MarkNotApplied(err)
	}
	return &upload{b: b, key: key, id: aws.ToString(out.UploadId)}, nil
}

// send uploads all parts of body. An empty body is one empty part.
func (u *upload) send(ctx context.Context, body io.Reader) error {
	size := u.b.o.PartSize
	for {
		part, err := io.ReadAll(io.LimitReader(body, size))
		if err != nil {
			return err
		}
		if len(part) == 0 && len(u.parts) > 0 {
			return nil
		}
		if err := u.sendPart(ctx, part); err != nil {
			return err
		}
		if int64(len(part)) < size {
			return nil
		}
		if len(u.parts)%1000 == 0 {
			size *= 2
		}
	}
}

func (u *upload) sendPart(ctx context.Context, part []byte) error {
	number := int32(len(u.parts) + 1)
	var out *s3.UploadPartOutput
	err := u.b.repeat(ctx, func() error {
		_, err := u.b.call(ctx, u.b.timeoutFor(len(part)), func(ctx context.Context, opt func(*s3.Options)) (err error) {
			out, err = u.b.client.UploadPart(ctx, &s3.UploadPartInput{
				Bucket:              &u.b.name,
				Key:                 &u.key,
				UploadId:            &u.id,
				PartNumber:          &number,
				Body:                bytes.NewReader(part),
				ContentLength:       aws.Int64(int64(len(part))),
				ExpectedBucketOwner: strOrNil(u.b.o.Owner),
			}, opt)
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	u.size += int64(len(part))
	u.parts = append(u.parts, types.CompletedPart{
		PartNumber:        &number,
		ETag:              out.ETag,
		ChecksumCRC32:     out.ChecksumCRC32,
		ChecksumCRC32C:    out.ChecksumCRC32C,
		ChecksumCRC64NVME: out.ChecksumCRC64NVME,
		ChecksumSHA1:      out.ChecksumSHA1,
		ChecksumSHA256:    out.ChecksumSHA256,
	})
	return nil
}

// complete makes the object appear, under the condition.
func (u *upload) complete(ctx context.Context, cond condition) (object.Info, error) {
	in := &s3.CompleteMultipartUploadInput{
		Bucket:              &u.b.name,
		Key:                 &u.key,
		UploadId:            &u.id,
		MultipartUpload:     &types.CompletedMultipartUpload{Parts: u.parts},
		ExpectedBucketOwner: strOrNil(u.b.o.Owner),
	}
	in.IfMatch, in.IfNoneMatch = cond.headers()
	var out *s3.CompleteMultipartUploadOutput
	c, err := u.b.call(ctx, longTimeout, func(ctx context.Context, opt func(*s3.Options)) (err error) {
		out, err = u.b.client.CompleteMultipartUpload(ctx, in, opt)
		return err
	})
	if err == nil && aws.ToString(out.ETag) == "" {
		err = c.Fail(errNoVersion, store.ErrUnavailable, store.Unknown, "%v", errNoVersion)
	}
	if err != nil {
		if store.OutcomeOf(err) == store.NotApplied || errors.Is(err, store.ErrNotFound) {
			u.abort(ctx)
		}
		return object.Info{}, err
	}
	return object.Info{Key: u.key, Version: versionOf(out.ETag), Size: u.size, Now: c.Now()}, nil
}

// abort removes the parts. If that fails the bucket's rule for incomplete uploads
// has to.
func (u *upload) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := u.b.repeat(ctx, func() error {
		_, err := u.b.call(ctx, u.b.o.Timeout, func(ctx context.Context, opt func(*s3.Options)) error {
			_, err := u.b.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
				Bucket: &u.b.name, Key: &u.key, UploadId: &u.id, ExpectedBucketOwner: strOrNil(u.b.o.Owner),
			}, opt)
			return err
		})
		return err
	})
	if err != nil {
		u.b.o.Log.Warn("the parts of a failed upload could not be removed", "key", u.key, "upload", u.id, "error", err)
	}
}

package s3bucket

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// errNoUpload: the upload was completed, or aborted, or never there.
var errNoUpload = errors.New("the upload no longer exists: it was completed, or another program or a rule of the bucket removed it")

// Uploads implements [object.Uploader]. It needs memory for one page of up to 1,000 uploads.
//
// MinIO lists uploads only for a whole key or for all keys. For all keys, it lists only uploads
// that began after MinIO was started. So on a server other than Amazon's, if the answer has no key
// longer than the prefix, Uploads requests the list for all keys.
func (b *Bucket) Uploads(ctx context.Context, prefix string) iter.Seq2[object.Upload, error] {
	asked := prefix
	if b.isDirectory() {
		asked = prefix[:strings.LastIndexByte(prefix, '/')+1]
	}
	return func(yield func(object.Upload, error) bool) {
		longer := false
		for u, err := range b.listUploads(ctx, asked) {
			if err == nil && !strings.HasPrefix(u.Key, prefix) {
				continue
			}
			if longer = longer || u.Key != prefix; !yield(u, err) || err != nil {
				return
			}
		}
		if b.onAWS || prefix == "" || longer {
			return
		}
		for u, err := range b.listUploads(ctx, "") {
			switch {
			case errors.Is(err, store.ErrDenied):
				return // what may be seen was seen
			case err == nil && (u.Key == prefix || !strings.HasPrefix(u.Key, prefix)):
				continue
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}

// listUploads yields the uploads that the server lists for a prefix.
func (b *Bucket) listUploads(ctx context.Context, prefix string) iter.Seq2[object.Upload, error] {
	return func(yield func(object.Upload, error) bool) {
		var key, id *string
		var pages awscall.Pages
		for {
			page, nextKey, nextID, err := b.uploadPage(ctx, prefix, key, id)
			if err == nil && nextKey != nil {
				err = pages.Next(*nextKey+"\x00"+*nextID, len(page))
			}
			if err != nil {
				yield(object.Upload{}, b.opError("list", prefix, err))
				return
			}
			for _, u := range page {
				if !yield(u, nil) {
					return
				}
			}
			if nextKey == nil {
				return
			}
			key, id = nextKey, nextID
		}
	}
}

func (b *Bucket) uploadPage(ctx context.Context, prefix string, key, id *string) (page []object.Upload, nextKey, nextID *string, err error) {
	err = b.repeat(ctx, func() error {
		out, c, err := request(ctx, b, b.o.Timeout, b.client.ListMultipartUploads, &s3.ListMultipartUploadsInput{
			Bucket:              &b.name,
			Prefix:              strOrNil(prefix),
			KeyMarker:           key,
			UploadIdMarker:      id,
			EncodingType:        types.EncodingTypeUrl,
			ExpectedBucketOwner: strOrNil(b.o.Owner),
		})
		if err != nil {
			return err
		}
		page = page[:0]
		for _, u := range out.Uploads {
			key, err := listedKey(c, out.EncodingType, u.Key)
			if err != nil {
				return err
			}
			if id := aws.ToString(u.UploadId); id != "" {
				page = append(page, object.Upload{Key: key, ID: id, Started: aws.ToTime(u.Initiated), Now: c.Now()})
			}
		}
		nextKey, nextID = nil, nil
		if aws.ToBool(out.IsTruncated) {
			next, err := listedKey(c, out.EncodingType, out.NextKeyMarker)
			if err != nil {
				return err
			}
			nextKey, nextID = &next, aws.String(aws.ToString(out.NextUploadIdMarker))
		}
		return nil
	})
	return page, nextKey, nextID, err
}

// LastPart implements [object.Uploader].
func (b *Bucket) LastPart(ctx context.Context, u object.Upload) (last, now time.Time, err error) {
	last = u.Started
	now, err = b.eachPart(ctx, u, func(p types.Part) {
		if t := aws.ToTime(p.LastModified); t.After(last) {
			last = t
		}
	})
	if errors.Is(err, errNoUpload) {
		err = store.ErrNotFound
	}
	return last, now, b.opError("stat", u.Key, err)
}

// AbortUpload implements [object.Uploader].
func (b *Bucket) AbortUpload(ctx context.Context, u object.Upload) error {
	err := object.CheckKey(u.Key)
	if err == nil && u.ID == "" {
		err = object.ErrInvalid
	}
	if err == nil {
		err = b.abortUpload(ctx, u)
	}
	return b.opError("delete", u.Key, err)
}

func (b *Bucket) abortUpload(ctx context.Context, u object.Upload) error {
	err := b.repeat(ctx, func() error {
		_, _, err := request(ctx, b, b.o.Timeout, b.client.AbortMultipartUpload, &s3.AbortMultipartUploadInput{
			Bucket: &b.name, Key: &u.Key, UploadId: &u.ID, ExpectedBucketOwner: strOrNil(b.o.Owner),
		})
		return err
	})
	if errors.Is(err, errNoUpload) {
		return nil
	}
	return err
}

// listParts returns the parts of an upload.
func (b *Bucket) listParts(ctx context.Context, u object.Upload) (map[int32]types.Part, error) {
	parts := make(map[int32]types.Part)
	_, err := b.eachPart(ctx, u, func(p types.Part) {
		if n := aws.ToInt32(p.PartNumber); n >= 1 && n <= maxParts {
			parts[n] = p
		}
	})
	return parts, err
}

// eachPart calls f for each part of an upload, and returns the time of the last answer.
func (b *Bucket) eachPart(ctx context.Context, u object.Upload, f func(types.Part)) (now time.Time, err error) {
	var marker *string
	var pages awscall.Pages
	for {
		var out *s3.ListPartsOutput
		err := b.repeat(ctx, func() (err error) {
			var c *awscall.Call
			out, c, err = request(ctx, b, b.o.Timeout, b.client.ListParts, &s3.ListPartsInput{
				Bucket: &b.name, Key: &u.Key, UploadId: &u.ID, PartNumberMarker: marker, ExpectedBucketOwner: strOrNil(b.o.Owner),
			})
			now = c.Now()
			return err
		})
		if err != nil {
			return now, err
		}
		for _, p := range out.Parts {
			f(p)
		}
		if !aws.ToBool(out.IsTruncated) {
			return now, nil
		}
		marker = aws.String(aws.ToString(out.NextPartNumberMarker))
		if err := pages.Next(*marker, len(out.Parts)); err != nil {
			return now, err
		}
	}
}

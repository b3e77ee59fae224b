package s3bucket

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/aws/awscall"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// List implements [object.Bucket]. It needs memory for one page of up to 1,000 objects. If the
// server sends an earlier page again, List ends with an error. A directory bucket lists only whole
// directories. Then List omits the keys that the caller did not request.
func (b *Bucket) List(ctx context.Context, prefix string, opts *object.ListOptions) iter.Seq2[object.Info, error] {
	after := cmp.Or(opts, &object.ListOptions{}).After
	return b.list(ctx, prefix, after, "")
}

// ListDir implements [object.DirLister]: the server omits the lower levels.
func (b *Bucket) ListDir(ctx context.Context, prefix string) iter.Seq2[object.Info, error] {
	return b.list(ctx, prefix, "", "/")
}

func (b *Bucket) list(ctx context.Context, prefix, after, delimiter string) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		asked, start := prefix, after
		if b.isDirectory() {
			asked, start = prefix[:strings.LastIndexByte(prefix, '/')+1], ""
		}
		var token *string
		var pages awscall.Pages
		for {
			page, next, err := b.page(ctx, asked, start, delimiter, token)
			if err == nil && next != nil {
				err = pages.Next(*next, len(page))
			}
			if err != nil {
				yield(object.Info{}, b.opError("list", prefix, err))
				return
			}
			for _, info := range page {
				// Not every server knows how to start in the middle.
				if after != "" && info.Key <= after || !strings.HasPrefix(info.Key, prefix) {
					continue
				}
				if !yield(info, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			token = next
		}
	}
}

// isDirectory reports whether b is a directory bucket (S3 Express One Zone), or an access point of one.
func (b *Bucket) isDirectory() bool {
	return strings.HasSuffix(b.name, "--x-s3") || strings.HasSuffix(b.name, "--xa-s3")
}

// listedKey returns a key as the object has it. A listing may have it encoded.
func listedKey(c *awscall.Call, encoding types.EncodingType, listed *string) (string, error) {
	key := aws.ToString(listed)
	if encoding != types.EncodingTypeUrl {
		return key, nil
	}
	plain, err := url.QueryUnescape(key)
	if err != nil {
		err = c.Fail(err, nil, store.NotApplied, "the listing has the key %q, which cannot be decoded", key)
	}
	return plain, err
}

// page returns one page of a listing, and how to ask for the next. Where there is a
// delimiter, keys that have it after the prefix are yielded up to it, and once.
func (b *Bucket) page(ctx context.Context, prefix, after, delimiter string, token *string) (page []object.Info, next *string, err error) {
	err = b.repeat(ctx, func() error {
		out, c, err := request(ctx, b, b.o.Timeout, b.client.ListObjectsV2, &s3.ListObjectsV2Input{
			Bucket:              &b.name,
			Prefix:              strOrNil(prefix),
			StartAfter:          strOrNil(after),
			Delimiter:           strOrNil(delimiter),
			ContinuationToken:   token,
			EncodingType:        types.EncodingTypeUrl, // XML cannot express every key
			ExpectedBucketOwner: strOrNil(b.o.Owner),
		})
		if err != nil {
			// There is no object that could be missing.
			if errors.Is(err, store.ErrNotFound) {
				err = c.Fail(errNoBucket, store.ErrMisconfigured, store.NotApplied, "%v", errNoBucket)
			}
			return err
		}
		page = page[:0]
		for _, o := range out.CommonPrefixes {
			key, err := listedKey(c, out.EncodingType, o.Prefix)
			if err != nil {
				return err
			}
			page = append(page, object.Info{Key: key})
		}
		for _, o := range out.Contents {
			key, err := listedKey(c, out.EncodingType, o.Key)
			if err != nil {
				return err
			}
			page = append(page, object.Info{
				Key:      key,
				Version:  versionOf(o.ETag),
				Size:     aws.ToInt64(o.Size),
				Modified: aws.ToTime(o.LastModified),
				Now:      c.Now(),
			})
		}
		next = nil
		if aws.ToBool(out.IsTruncated) {
			next = aws.String(aws.ToString(out.NextContinuationToken))
		}
		return nil
	})
	return page, next, err
}

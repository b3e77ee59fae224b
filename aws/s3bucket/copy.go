package s3bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-go/holdfast/internal/workerpool"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// copyPart is the size of a part of a large copy, in bytes, where 10,000 of them are
// enough. The protocol allows 5 GiB, in one request as well as in a part.
const copyPart = 1 << 30

// Copy implements [object.Copier]. In two cases it copies in parts. First: the source is larger
// than 5 GiB. Second: the server ignores a condition on the destination of a copy, but checks the
// condition of an upload in parts.
func (b *Bucket) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o, err := object.CheckCopy(source, destination, opts)
	if err = checkCall(ctx, err, source, o.SourceIfMatch, o.IfMatch); err != nil {
		return object.Info{}, b.opError("copy", source, err)
	}
	info, err := b.copy(ctx, source, destination, o)
	return info, b.opError("copy", source, err)
}

func (b *Bucket) copy(ctx context.Context, source, destination string, o object.CopyOptions) (object.Info, error) {
	cond := condition{o.IfAbsent, o.IfMatch}
	if o.SourceIfMatch != "" {
		if err := b.require(ctx, object.CopySource); err != nil {
			return object.Info{}, err
		}
	}
	needed := cond.of(object.CopyIfAbsent, object.CopyIfMatch)
	lacking := b.require(ctx, needed)
	if lacking != nil && !errors.Is(lacking, errors.ErrUnsupported) {
		return object.Info{}, lacking
	}
	if lacking == nil {
		info, err := b.copyOnce(ctx, source, destination, o)
		if err == nil || !strings.Contains(err.Error(), "InvalidRequest") || !strings.Contains(err.Error(), "maximum allowable size") {
			return info, b.copyError(source, destination, o, needed, err)
		}
		needed = "" // S3 copies 5 GiB at a time
	}
	if by := cond.of(object.PartsIfAbsent, object.PartsIfMatch); by != "" {
		if err := b.require(ctx, by); err != nil {
			return object.Info{}, err
		}
	}
	info, err := b.copyParts(ctx, source, destination, o)
	return info, b.copyError(source, destination, o, needed, err)
}

// copyError: 404 is about the source, or about a destination that was to match.
func (b *Bucket) copyError(source, destination string, o object.CopyOptions, needed object.Ability, err error) error {
	switch {
	case store.InDoubt(err): // an earlier try, or one whose context ended, may have been applied
		return err
	case errors.Is(err, store.ErrNotFound) && o.SourceIfMatch == "" && o.IfMatch == "":
		return store.MarkNotApplied(fmt.Errorf("%q: %w", source, err))
	case errors.Is(err, store.ErrNotFound):
		return &object.ConflictError{Key: destination}
	}
	return about(destination, "", needed, err)
}

func (b *Bucket) copyOnce(ctx context.Context, source, destination string, o object.CopyOptions) (object.Info, error) {
	in := &s3.CopyObjectInput{
		Bucket:                    &b.name,
		Key:                       &destination,
		CopySource:                b.copySource(source),
		CopySourceIfMatch:         strOrNil(string(o.SourceIfMatch)),
		ExpectedBucketOwner:       strOrNil(b.o.Owner),
		ExpectedSourceBucketOwner: strOrNil(b.o.Owner),
		ServerSideEncryption:      b.o.Encryption,
		SSEKMSKeyId:               strOrNil(b.o.KMSKey),
		ACL:                       b.o.ACL,
	}
	if o.Metadata != nil {
		in.MetadataDirective = types.MetadataDirectiveReplace
		in.Metadata = o.Metadata
		in.ContentType = aws.String(cmp.Or(o.ContentType, defaultType))
		in.CacheControl, in.ContentDisposition = strOrNil(o.Headers.CacheControl), strOrNil(o.Headers.ContentDisposition)
		in.ContentEncoding, in.ContentLanguage = strOrNil(o.Headers.ContentEncoding), strOrNil(o.Headers.ContentLanguage)
	}
	cond := condition{o.IfAbsent, o.IfMatch}
	in.IfMatch, in.IfNoneMatch = cond.headers()
	special := func(*s3.Options) {}
	refusal := 0
	if own := b.o.CopyIfAbsent; own != nil && cond.ifAbsent {
		in.IfNoneMatch, special, refusal = nil, own.apply, own.Status
	}
	var info object.Info
	send := func() error {
		out, c, err := request(ctx, b, longTimeout, b.client.CopyObject, in, special)
		if err != nil && refusal != 0 && c.Status() == refusal {
			err = &object.ConflictError{}
		}
		made := cmp.Or(out.CopyObjectResult, &types.CopyObjectResult{})
		if err = withVersion(c, err, made.ETag); err == nil {
			info = object.Info{
				Key:      destination,
				Version:  versionOf(made.ETag),
				Modified: aws.ToTime(made.LastModified),
				Now:      c.Now(),
			}
		}
		return err
	}
	if cond.any() {
		err := send()
		return info, err
	}
	err := b.repeat(ctx, send)
	return info, err
}

// copySource names the source as the header wants it: escaped, with its slashes.
func (b *Bucket) copySource(key string) *string {
	name := b.name
	if strings.HasPrefix(name, "arn:") {
		name += "/object" // of an access point
	}
	return aws.String(name + "/" + strings.ReplaceAll(url.QueryEscape(key), "+", "%20"))
}

// copyParts copies by an upload whose parts the server takes from the source. All
// parts are of the state that was seen first.
func (b *Bucket) copyParts(ctx context.Context, source, destination string, o object.CopyOptions) (object.Info, error) {
	if err := b.require(ctx, object.CopySource); err != nil {
		return object.Info{}, err
	}
	from, _, err := b.stat(ctx, source)
	if err != nil {
		return object.Info{}, err
	}
	if o.SourceIfMatch != "" && from.Version != o.SourceIfMatch {
		return object.Info{}, &object.ConflictError{Key: source, HasCurrent: true, Version: from.Version}
	}
	if o.Metadata == nil {
		o.Metadata, o.ContentType, o.Headers = from.Metadata, from.ContentType, from.Headers
	}
	if from.Size > maxPartSize*maxParts {
		return object.Info{}, fmt.Errorf("%w: the server says that %q has %d bytes; a copy can have at most %d", store.ErrTooLarge, from.Key, from.Size, int64(maxPartSize*maxParts))
	}
	u, err := b.begin(ctx, destination, object.PutOptions{ContentType: o.ContentType, Headers: o.Headers, Metadata: o.Metadata}, "") // parts that the server copies have none
	if err != nil {
		return object.Info{}, err
	}
	u.progress, u.total = o.Progress, from.Size
	if err := u.copyFrom(ctx, from); err != nil {
		err = u.fail(ctx, store.MarkNotApplied(err))
		if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
			err = &object.ConflictError{Key: source}
		}
		return object.Info{}, err
	}
	return u.complete(ctx, condition{o.IfAbsent, o.IfMatch})
}

// copyFrom has the server make all parts from the source. An empty source is one empty
// part.
func (u *upload) copyFrom(ctx context.Context, from object.Info) error {
	if from.Size == 0 {
		err := u.sendPart(ctx, 1, nil, nil)
		if err == nil { // its checksum was not announced
			u.parts[0] = types.CompletedPart{PartNumber: u.parts[0].PartNumber, ETag: u.parts[0].ETag}
		}
		return err
	}
	c := workerpool.New(ctx, u.b.o.Parallel, 0)
	defer c.Close()
	size := max(u.b.copyPart, (from.Size+maxParts-1)/maxParts)
	for at := int64(0); at < from.Size && c.WaitRoom(0); at += size {
		c.Go(0, func(ctx context.Context) error {
			return u.copyPart(ctx, int32(at/size+1), from, at, min(size, from.Size-at))
		})
	}
	return c.Wait()
}

func (u *upload) copyPart(ctx context.Context, number int32, from object.Info, at, size int64) error {
	in := &s3.UploadPartCopyInput{
		Bucket:                    &u.b.name,
		Key:                       &u.Key,
		UploadId:                  &u.ID,
		PartNumber:                &number,
		CopySource:                u.b.copySource(from.Key),
		CopySourceIfMatch:         aws.String(string(from.Version)),
		CopySourceRange:           aws.String(fmt.Sprintf("bytes=%d-%d", at, at+size-1)),
		ExpectedBucketOwner:       strOrNil(u.b.o.Owner),
		ExpectedSourceBucketOwner: strOrNil(u.b.o.Owner),
	}
	var made *types.CopyPartResult
	err := u.repeatPart(ctx, func() error {
		out, c, err := request(ctx, u.b, longTimeout, u.b.client.UploadPartCopy, in)
		made = cmp.Or(out.CopyPartResult, &types.CopyPartResult{})
		return withVersion(c, err, made.ETag)
	})
	if err == nil {
		u.add(number, size, types.CompletedPart{
			ETag: made.ETag, ChecksumCRC32: made.ChecksumCRC32, ChecksumCRC32C: made.ChecksumCRC32C,
			ChecksumCRC64NVME: made.ChecksumCRC64NVME, ChecksumSHA1: made.ChecksumSHA1, ChecksumSHA256: made.ChecksumSHA256,
		})
	}
	return err
}

package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Progress is a function that a transfer calls while it sends data. The argument done is the number
// of bytes that have reached the store, and never decreases. The argument total is the number of
// all bytes, or -1 if that number is not known. Only one goroutine at a time calls Progress, and no
// goroutine calls it after the operation has returned. Progress must not block. If the transfer
// succeeds, the last call passes the size as done. A resumed upload of known length first reports
// the bytes that the store already had. A copy in one request does not call Progress.
type Progress func(done, total int64)

// Report calls the function, unless it is nil.
func (p Progress) Report(done, total int64) {
	if p != nil {
		p(done, total)
	}
}

// CheckedBody wraps the body of a Put to check its length. If the body has another length than
// [PutOptions].Length, a Read returns an error that matches [ErrInvalid].
func CheckedBody(body io.Reader, o PutOptions) io.Reader {
	if o.Length == 0 {
		return body
	}
	return &exact{body: body, length: o.Length}
}

// exact is a body whose length was declared.
type exact struct {
	body   io.Reader
	length int64
	read   int64
}

func (e *exact) Read(p []byte) (int, error) {
	n, err := e.body.Read(p)
	e.read += int64(n)
	switch {
	case e.read > e.length:
		return n, fmt.Errorf("%w: the body is longer than the %d bytes that were declared", ErrInvalid, e.length)
	case err == io.EOF && e.read < e.length:
		return n, fmt.Errorf("%w: the body ends after %d of the %d bytes that were declared", ErrInvalid, e.read, e.length)
	}
	return n, err
}

// Upload is an upload in parts that is not complete. Its parts are stored and cost money, but there
// is no object yet. It can be stored as JSON.
type Upload struct {
	Key string
	ID  string

	// Started is the start of the upload, and Now is the time of the answer that contained Started.
	// Both are by the store's clock. A time that is not known is zero.
	Started time.Time
	Now     time.Time

	// PartSize is the size of the parts of the upload, in bytes. Metadata is the metadata that the
	// object will have. A listing returns neither of them.
	PartSize int64             `json:",omitempty"`
	Metadata map[string]string `json:",omitempty"`
}

// UnfinishedError says that a Put with [PutOptions].OnUpload did not complete, and that the parts
// remain in the store. [Resume] continues the upload. An UnfinishedError has the outcome of Err: if
// it is Unknown, the completion may have been applied.
type UnfinishedError struct {
	Upload Upload
	Err    error
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("%v (upload %q is kept, to be resumed or aborted)", e.Err, e.Upload.ID)
}

// Unwrap returns Err.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// Uploader is a bucket that stores large bodies by uploads in parts.
type Uploader interface {
	// Resume has the contract of the function [Resume].
	Resume(ctx context.Context, u Upload, body io.Reader, opts *PutOptions) (Info, error)

	// Uploads yields the incomplete uploads whose keys begin with prefix, in no particular order.
	// The listing ends after an error.
	Uploads(ctx context.Context, prefix string) iter.Seq2[Upload, error]

	// LastPart returns the time at which the newest part of an upload arrived, and the time of the
	// answer. Both are by the store's clock. If the upload has no part yet, the first result is the
	// start of the upload. If there is no such upload, the error matches store.ErrNotFound.
	LastPart(ctx context.Context, u Upload) (last, now time.Time, err error)

	// AbortUpload removes an upload with its parts. It changes no object. If there is no such
	// upload, AbortUpload returns nil.
	AbortUpload(ctx context.Context, u Upload) error
}

// Resume continues an upload that a Put with [PutOptions].OnUpload did not complete. Pass the same
// body as in that Put, from its beginning. Resume compares each part of the body with the part in
// the store, and sends only parts that are missing or different. Conditions, Length, Progress and
// OnUpload come from the options. The content type, the metadata, the storage class and the tags
// are those of the Put. If the options have a StorageClass or Tags, Resume returns an
// [UnsupportedError].
//
// If there is no such upload, the outcome is Unknown: an earlier completion may have been
// applied, or another program has aborted the upload. On a bucket without uploads in parts,
// Resume returns [ErrInvalid].
func Resume(ctx context.Context, b Bucket, u Upload, body io.Reader, opts *PutOptions) (Info, error) {
	up, ok := As[Uploader](b)
	if !ok {
		return Info{}, fmt.Errorf("%w: this bucket does not upload in parts, so there is nothing to resume; put the object again", ErrInvalid)
	}
	return up.Resume(ctx, u, body, opts)
}

const (
	// defaultUploadAge is how old the newest part of an upload must be before a sweep removes
	// the upload; see [SweepOptions].
	defaultUploadAge = 24 * time.Hour

	// MinUploadAge is the smallest [SweepOptions].MinAge.
	MinUploadAge = time.Hour
)

// SweepOptions are the options of [SweepUploads].
type SweepOptions struct {
	// The sweep removes an upload only if the newest part of the upload is at least MinAge old, by
	// the store's clock. MinAge is at least [MinUploadAge]; 0 means 24 hours. If a program pauses
	// an upload for longer than MinAge, a sweep can remove the upload.
	MinAge time.Duration

	// Filter reports whether the sweep may remove an upload; nil selects all uploads below the
	// prefix.
	Filter func(Upload) bool

	// With DryRun, the sweep removes nothing, and reports what it would remove.
	DryRun bool

	// Report, if not nil, is called with each upload that was removed, or would be removed in a
	// dry run. It is also called with each upload that could not be removed, with the error.
	Report func(u Upload, err error)
}

// SweepStats is the result of [SweepUploads].
type SweepStats struct {
	Found    int // uploads below the prefix that Filter selected
	TooYoung int // uploads in Found that may be in progress
	Removed  int // removed uploads; in a dry run, those that would be removed
	Failed   int // uploads whose age the sweep could not find out, or that it could not remove
}

// SweepUploads removes the parts of incomplete uploads that crashed programs have left. It selects
// uploads whose keys begin with prefix, and that have received no part for MinAge. A store does not
// show which program began an upload. So use a prefix below which the caller may remove all
// uploads. If the prefix is empty, the options must have a Filter.
//
// SweepUploads changes no object. It continues after an upload that it could not remove, and
// returns the first such error at the end. On a bucket without uploads in parts it does nothing.
func SweepUploads(ctx context.Context, b Bucket, prefix string, opts *SweepOptions) (SweepStats, error) {
	o := *cmp.Or(opts, &SweepOptions{})
	o.MinAge = cmp.Or(o.MinAge, defaultUploadAge)
	switch {
	case o.MinAge < MinUploadAge:
		return SweepStats{}, fmt.Errorf("%w: SweepOptions.MinAge is %v, at least %v is needed", ErrInvalid, o.MinAge, MinUploadAge)
	case prefix == "" && o.Filter == nil:
		return SweepStats{}, fmt.Errorf("%w: a sweep of uploads needs a prefix or SweepOptions.Filter, because other programs may upload to the same bucket", ErrInvalid)
	}
	var swept SweepStats
	up, ok := As[Uploader](b)
	if !ok {
		return swept, nil
	}
	var first error
	for u, err := range up.Uploads(ctx, prefix) {
		if err != nil {
			return swept, err
		}
		if o.Filter != nil && !o.Filter(u) {
			continue
		}
		swept.Found++
		old, err := isOld(ctx, up, u, o.MinAge)
		if err == nil && old && !o.DryRun {
			err = up.AbortUpload(ctx, u)
		}
		switch {
		case err != nil:
			swept.Failed++
			if first == nil {
				first = err
			}
		case !old:
			swept.TooYoung++
			continue
		default:
			swept.Removed++
		}
		if o.Report != nil {
			o.Report(u, err)
		}
		if ctx.Err() != nil {
			return swept, store.Cause(ctx)
		}
	}
	return swept, first
}

// isOld reports whether no part was added to an upload for longer than age. Only the
// store's clock counts: that of this machine may be wrong.
func isOld(ctx context.Context, up Uploader, u Upload, age time.Duration) (bool, error) {
	if u.Started.IsZero() || u.Now.IsZero() {
		return false, fmt.Errorf("the store does not say how old upload %q of %q is", u.ID, u.Key)
	}
	if u.Now.Sub(u.Started) <= age {
		return false, nil
	}
	last, now, err := up.LastPart(ctx, u)
	switch {
	case errors.Is(err, store.ErrNotFound): // completed meanwhile
		return false, nil
	case err != nil:
		return false, err
	case last.IsZero() || now.IsZero():
		return false, fmt.Errorf("the store does not say how old upload %q of %q is", u.ID, u.Key)
	}
	return now.Sub(last) > age, nil
}

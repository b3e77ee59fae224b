package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Progress is a function that a transfer calls: done of total bytes have reached the
// store. A total of -1 is not known. One goroutine at a time calls it, never after the
// operation has returned, and done never falls. It must not block. The last call of a
// transfer that succeeds has done equal to the size. An upload that is resumed, with a known
// length, first reports what the store had before. A copy that the store makes in one
// request does not call it.
type Progress func(done, total int64)

// Report calls p, unless p is nil.
func (p Progress) Report(done, total int64) {
	if p != nil {
		p(done, total)
	}
}

// CheckedBody returns body as a Put with these options reads it: a body of another length than
// [PutOptions].Length is an error that matches [ErrInvalid].
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

// Upload is an upload in parts that is not complete: the parts are stored, and cost
// money, but there is no object yet. It is plain data, and can be kept as JSON.
type Upload struct {
	Key string
	ID  string

	// Started is when it began, and Now the time of that answer, both by the store's
	// clock; zero where they are not known.
	Started time.Time
	Now     time.Time

	// PartSize is the size of its parts, in bytes, and Metadata that with which it began;
	// the object will have it. A listing tells neither.
	PartSize int64             `json:",omitempty"`
	Metadata map[string]string `json:",omitempty"`
}

// UnfinishedError says that a Put with [PutOptions].Keep did not complete, and that the
// parts which the store has are still there. [Resume] goes on from there. It has the
// outcome of Err: if that is Unknown, the completion may have been applied.
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
	// Resume does what the function [Resume] describes.
	Resume(ctx context.Context, u Upload, body io.Reader, opts *PutOptions) (Info, error)

	// Uploads yields the uploads that are not complete and whose keys begin with prefix,
	// in no promised order. After an error the listing ends.
	Uploads(ctx context.Context, prefix string) iter.Seq2[Upload, error]

	// LastPart returns when the newest part of an upload arrived, and the time of the
	// answer, both by the store's clock. Without a part it returns u.Started. If there is
	// no such upload, the error matches store.ErrNotFound.
	LastPart(ctx context.Context, u Upload) (last, now time.Time, err error)

	// AbortUpload removes an upload with its parts. It changes no object. If there is no
	// such upload, it succeeds.
	AbortUpload(ctx context.Context, u Upload) error
}

// Resume continues an upload that a Put with [PutOptions].Keep left. It reads body, which
// must be the same as before, from its beginning. Parts that the store has already, byte
// for byte, are not sent again; others are. So a body that has changed meanwhile costs
// time, and nothing else. Conditions, Length, Progress and Keep are those of opts; the
// content type, the metadata, the storage class and the tags are those with which the
// upload began. A StorageClass and Tags in opts are refused with an [UnsupportedError].
//
// If there is no such upload, the outcome is Unknown: an earlier completion may have been
// applied, or another program aborted it. A bucket without uploads in parts refuses with
// [ErrInvalid].
func Resume(ctx context.Context, b Bucket, u Upload, body io.Reader, opts *PutOptions) (Info, error) {
	up, ok := As[Uploader](b)
	if !ok {
		return Info{}, fmt.Errorf("%w: this bucket has no uploads that could be resumed", ErrInvalid)
	}
	return up.Resume(ctx, u, body, opts)
}

const (
	// DefaultUploadAge is how long no part of an upload arrived before it counts as left
	// behind; see [SweepOptions].
	DefaultUploadAge = 24 * time.Hour

	// MinUploadAge is the least such age.
	MinUploadAge = time.Hour
)

// SweepOptions are the options of [SweepUploads].
type SweepOptions struct {
	// MinAge is how long an upload must have been without a new part, by the store's clock.
	// At least [MinUploadAge]; 0 means [DefaultUploadAge]. A program that is stopped for
	// longer than this in the middle of an upload, or wants to resume later, loses its
	// parts, and nothing else.
	MinAge time.Duration

	// Filter chooses among the uploads below the prefix; nil means all.
	Filter func(Upload) bool

	// DryRun reports what would be removed, and removes nothing.
	DryRun bool

	// Report is told of each upload that was removed, or would be, and of each that could
	// not be, with the error. It may be nil.
	Report func(u Upload, err error)
}

// SweepStats counts what [SweepUploads] found.
type SweepStats struct {
	Found    int // uploads below the prefix that Pick chose
	TooYoung int // of them those that may be in progress
	Removed  int // or would be, in a dry run
	Failed   int // those that could not be judged or removed
}

// SweepUploads removes the parts of uploads that programs left when they crashed: those
// whose keys begin with prefix and to which no part was added for a while. A store does
// not tell which program began an upload. So the prefix must be one below which all
// uploads are the caller's to remove; an empty prefix is refused unless Pick is set.
//
// It touches no object. It goes on after an upload that it could not remove, and returns
// the first such error in the end. On a bucket without uploads in parts it does nothing.
func SweepUploads(ctx context.Context, b Bucket, prefix string, opts *SweepOptions) (SweepStats, error) {
	var o SweepOptions
	if opts != nil {
		o = *opts
	}
	if o.MinAge == 0 {
		o.MinAge = DefaultUploadAge
	}
	switch {
	case o.MinAge < MinUploadAge:
		return SweepStats{}, fmt.Errorf("%w: Age is %v, at least %v is needed", ErrInvalid, o.MinAge, MinUploadAge)
	case prefix == "" && o.Filter == nil:
		return SweepStats{}, fmt.Errorf("%w: a sweep of uploads needs a prefix, or Pick: others may upload to the same bucket", ErrInvalid)
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
			return swept, context.Cause(ctx)
		}
	}
	return swept, first
}

// isOld reports whether no part was added to an upload for longer than age. Only the
// store's clock counts: that of this machine may be wrong.
func isOld(ctx context.Context, up Uploader, u Upload, age time.Duration) (bool, error) {
	if u.Started.IsZero() || u.Now.IsZero() {
		return false, fmt.Errorf("the store does not tell how old upload %q of %q is", u.ID, u.Key)
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
		return false, fmt.Errorf("the store does not tell how old upload %q of %q is", u.ID, u.Key)
	}
	return now.Sub(last) > age, nil
}

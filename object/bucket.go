package object

import (
	"cmp"
	"context"
	"io"
	"iter"
	"time"
)

// MaxMetadata is the largest metadata that every bucket accepts: the lengths of all names and
// values together, in bytes.
const MaxMetadata = 2 << 10

// maxHeaders is how long the [Headers] of an object may be, all together, in bytes.
const maxHeaders = 2 << 10

// Headers are HTTP headers in addition to the content type. A store saves them with an object, and
// sends them to browsers and caches. The store does not send an empty header. Values are text
// without control characters. Some servers accept only ASCII. All headers together have at most 2
// KiB.
type Headers struct {
	CacheControl       string `json:"cache_control,omitempty"`
	ContentDisposition string `json:"content_disposition,omitempty"`

	// ContentEncoding says how the caller has encoded the body, for example "gzip". This
	// package neither encodes nor decodes a body.
	ContentEncoding string `json:"content_encoding,omitempty"`

	ContentLanguage string `json:"content_language,omitempty"`
}

// The method Or returns a copy of h in which each empty header is replaced by the header of the
// argument.
func (h Headers) Or(other Headers) Headers {
	return Headers{
		cmp.Or(h.CacheControl, other.CacheControl), cmp.Or(h.ContentDisposition, other.ContentDisposition),
		cmp.Or(h.ContentEncoding, other.ContentEncoding), cmp.Or(h.ContentLanguage, other.ContentLanguage),
	}
}

// Version names one state of an object. It is opaque: only compare it for equality. The zero
// value names no state.
type Version string

// Info describes one state of an object.
type Info struct {
	Key     string
	Version Version
	Size    int64 // size of the whole body in bytes, even if only a range was requested

	// Modified is the time of the write of this state, by the store's clock and with its
	// granularity. S3 has a granularity of one second. If an object was uploaded in parts to S3,
	// Modified is the start of the upload.
	Modified time.Time

	// Now is the time of the answer, by the store's clock. If the store does not send the time, or
	// if the answer may come from a cache, Now is zero. Compare Now only with Modified of the same
	// answer, not with the caller's clock.
	Now time.Time

	// ContentType, Headers and Metadata are the values that the writer passed to Put. In a listing,
	// they are empty.
	ContentType string
	Headers     Headers
	Metadata    map[string]string

	// WriteInfo is what a [Client] has stored in the metadata of the object. Only a client sets
	// this field. A [Bucket] returns the same data in Metadata. In a listing, WriteInfo is zero.
	WriteInfo WriteInfo
}

// Reader is an open object. It reads the body from the requested offset. The caller must close the
// Reader. After an error, the rest of the body is not valid. If the body ends early, the error is
// not io.EOF.
type Reader struct {
	io.ReadCloser
	Info Info
}

// GetOptions are the options of [Bucket.Get].
type GetOptions struct {
	// Offset is the first byte to read, counted from 0. If Offset is not smaller than the size of
	// the body, the error is [ErrRange]. An Offset of 0 is always valid.
	Offset int64

	// Length is the largest number of bytes to read; 0 means all bytes.
	Length int64

	// IfMatch is a condition: the object must be in this state. Otherwise the error matches
	// store.ErrConflict.
	IfMatch Version

	// IfChanged is a condition: the object must not be in this state. Otherwise the error matches
	// [ErrNotChanged], and the store sends no body.
	IfChanged Version
}

// PutOptions are the options of [Bucket.Put]. Without a condition, Put replaces the present
// object.
type PutOptions struct {
	// IfAbsent is a condition: there must be no object at this key.
	IfAbsent bool

	// IfMatch is a condition: the object must be in this state. If there is no object, the error
	// matches store.ErrConflict.
	IfMatch Version

	// ContentType is a MIME type; empty means application/octet-stream.
	ContentType string

	// Headers are stored with the body.
	Headers Headers

	// Metadata is stored with the body. Names are lower-case letters, digits, hyphens and
	// underscores; values are printable ASCII. See [MaxMetadata] and [CheckMetadata].
	Metadata map[string]string

	// StorageClass is a class of the store, such as STANDARD_IA on S3; empty means the store's
	// default. A bucket without storage classes returns an [UnsupportedError]. Objects of some
	// classes, such as GLACIER, must be restored before a read. This package cannot read such
	// objects.
	StorageClass string

	// Tags are stored with the object. Rules of the store can use them (costs, lifecycle). No
	// method reads them. There are at most 10 tags. Names have 1 to 128 characters, values at most
	// 256. Both consist of letters, digits, spaces and + - = . _ : / @. Names do not begin with
	// "aws:". A bucket without tags returns an [UnsupportedError].
	Tags map[string]string

	// Length is the length of the body in bytes; 0 means that the caller does not know the length.
	// If the body has another length, the error is [ErrInvalid], and nothing is written.
	Length int64

	// Progress, if not nil, is called with the number of bytes that have reached the store.
	Progress Progress

	// OnUpload is for a large body that the bucket uploads in parts. The bucket calls OnUpload with
	// the upload, and then sends the first part. If OnUpload is set and the upload does not
	// complete, the bucket keeps the parts, and the error is an [UnfinishedError]. The parts cost
	// money until [Resume] completes the upload or an [Uploader] aborts it. If OnUpload is nil and
	// an upload does not complete, the bucket aborts the upload. A bucket without uploads in parts
	// ignores OnUpload.
	OnUpload func(Upload)

	// Parts makes the bucket upload a body of any size in parts. IfAbsent then needs the ability
	// [PartsIfAbsent], and IfMatch needs [PartsIfMatch].
	Parts bool
}

// DeleteOptions are the options of [Bucket.Delete].
type DeleteOptions struct {
	// IfMatch is a condition: the object must be in this state. If there is no object, the error is
	// a [ConflictError] with HasCurrent set and an empty Version.
	IfMatch Version

	// OrAbsent changes IfMatch: if there is no object, the delete succeeds. Set it for a server
	// that checks IfMatch, but whose reply does not show whether an object was deleted or was
	// already absent.
	OrAbsent bool
}

// ListOptions are the options of [Bucket.List].
type ListOptions struct {
	// If After is set, the listing yields only keys that are greater, in the order of their bytes.
	After string
}

// A Bucket contains objects. The package comment describes the contract. All options may be nil. If a context ends
// during a call, the error contains its [store.Cause].
type Bucket interface {
	// Get opens an object. If there is no object, the error matches store.ErrNotFound.
	Get(ctx context.Context, key string, opts *GetOptions) (*Reader, error)

	// Stat describes an object. If there is no object, the error matches store.ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)

	// Put writes an object. It reads the body to its end. It returns at least the key, the version
	// and the size of the object. If a Read of the body fails, Put returns that error and writes
	// nothing. If the context ends during a Read of the body, Put still waits until the Read
	// returns.
	Put(ctx context.Context, key string, body io.Reader, opts *PutOptions) (Info, error)

	// Delete removes an object. Without a condition, the delete of an absent object succeeds.
	Delete(ctx context.Context, key string, opts *DeleteOptions) error

	// List yields each object whose key begins with prefix once, in no particular order. The prefix
	// can be any text. List yields every object that exists during the whole listing. It may also
	// yield an object that is created or deleted during the listing. The listing ends after an
	// error.
	List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Info, error]
}

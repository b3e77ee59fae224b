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

// Headers are HTTP headers that a store keeps with an object and sends to browsers and caches, in
// addition to the content type. An empty header is not sent. Values are text without control
// characters. Some servers accept only ASCII. All headers together have at most 2 KiB.
type Headers struct {
	CacheControl       string `json:"cache_control,omitempty"`
	ContentDisposition string `json:"content_disposition,omitempty"`

	// ContentEncoding says how the caller has encoded the body, for example "gzip". This
	// package neither encodes nor decodes a body.
	ContentEncoding string `json:"content_encoding,omitempty"`

	ContentLanguage string `json:"content_language,omitempty"`
}

// Or returns h. Each empty header is replaced by that of other.
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
	// granularity. On S3 that is a second, and for an object that was uploaded in parts the time
	// is the start of the upload.
	Modified time.Time

	// Now is the time of the answer, by the store's clock. It is zero if the store does not send
	// it, or if the answer may come from a cache. Compare it only with Modified of the same
	// answer, not with the caller's clock.
	Now time.Time

	// ContentType, Headers and Metadata are those that the writer passed to Put. A listing
	// leaves them out.
	ContentType string
	Headers     Headers
	Metadata    map[string]string

	// WriteInfo is what a [Client] keeps in the metadata of the object. Only a client fills it
	// in. In an Info of a [Bucket] it is part of Metadata. A listing leaves it out.
	WriteInfo WriteInfo
}

// Reader is an open object. It reads the body from the requested offset. Close it. After an
// error, do not use the rest of the body. If the body ends early, the error is not io.EOF.
type Reader struct {
	io.ReadCloser
	Info Info
}

// GetOptions are the options of [Bucket.Get].
type GetOptions struct {
	// Offset is the first byte to read. If it is not below the size of the body, the error is
	// [ErrRange]. 0 is always valid.
	Offset int64

	// Length is the largest number of bytes to read; 0 means all bytes.
	Length int64

	// IfMatch requests this state. If the object is in another state, the error matches
	// store.ErrConflict.
	IfMatch Version

	// IfChanged requests any other state. If the object is still in this state, the error matches
	// [ErrNotChanged], and no body is sent.
	IfChanged Version
}

// PutOptions are the options of [Bucket.Put]. Without a condition, Put replaces the present
// object.
type PutOptions struct {
	// IfAbsent: only if there is no object at this key.
	IfAbsent bool

	// IfMatch: only if the object is in this state. If there is no object, the result is a
	// conflict.
	IfMatch Version

	// ContentType is a MIME type; empty means application/octet-stream.
	ContentType string

	// Headers are kept with the body.
	Headers Headers

	// Metadata is kept with the body. Names are lower-case letters, digits,
	// hyphens and underscores; values are printable ASCII. See [MaxMetadata] and
	// [CheckMetadata].
	Metadata map[string]string

	// StorageClass is a class of the store, such as STANDARD_IA on S3; empty means the store's
	// default. A bucket without storage classes returns an [UnsupportedError]. This package
	// cannot read an object of a class that must be restored before a read (GLACIER).
	StorageClass string

	// Tags are kept with the object for rules of the store (costs, lifecycle). No method reads
	// them. There are at most 10 tags. Names have 1 to 128 characters, values at most 256. Both
	// consist of letters, digits, spaces and + - = . _ : / @. Names do not begin with "aws:". A
	// bucket without tags returns an [UnsupportedError].
	Tags map[string]string

	// Length is the length of the body in bytes; 0 means that the caller does not know it. If the
	// body has another length, the error is [ErrInvalid], and nothing is written.
	Length int64

	// Progress, if not nil, is called with the number of bytes that the store has.
	Progress Progress

	// OnUpload is for a large body that the bucket uploads in parts. The bucket calls it with the
	// upload before it sends the first part. If OnUpload is set and the upload does not complete,
	// the bucket keeps the parts, and the error is an [UnfinishedError]. The parts cost money
	// until [Resume] completes the upload or an [Uploader] aborts it. If OnUpload is nil, the
	// bucket aborts an upload that does not succeed. A bucket without uploads in parts ignores
	// OnUpload.
	OnUpload func(Upload)

	// Parts makes the bucket upload a body of any size in parts. The conditions then need
	// [PartsIfAbsent] and [PartsIfMatch].
	Parts bool
}

// DeleteOptions are the options of [Bucket.Delete].
type DeleteOptions struct {
	// IfMatch: only if the object is in this state. If there is no object, the result is a
	// [ConflictError] with HasCurrent and an empty Version.
	IfMatch Version

	// OrAbsent changes IfMatch: an object that does not exist counts as deleted. Some servers
	// that honour IfMatch give the same answer in both cases.
	OrAbsent bool
}

// ListOptions are the options of [Bucket.List].
type ListOptions struct {
	// After yields only keys that are greater, in the order of their bytes.
	After string
}

// A Bucket is a space of objects. The package comment states the contract. All options
// may be nil.
type Bucket interface {
	// Get opens an object. If there is none, the error matches store.ErrNotFound.
	Get(ctx context.Context, key string, opts *GetOptions) (*Reader, error)

	// Stat describes an object. If there is none, the error matches
	// store.ErrNotFound.
	Stat(ctx context.Context, key string) (Info, error)

	// Put writes an object. It reads body to its end. It returns at least the key, the version
	// and the size of the object. If body returns an error, Put returns it and writes nothing. If
	// ctx ends, Put still waits until a Read of body returns.
	Put(ctx context.Context, key string, body io.Reader, opts *PutOptions) (Info, error)

	// Delete removes an object. Without a condition, the delete of an absent object succeeds.
	Delete(ctx context.Context, key string, opts *DeleteOptions) error

	// List yields each object whose key begins with prefix once, in no particular order. The
	// prefix is any text. An object that exists during the whole listing is yielded. An object
	// that is created or deleted during the listing may be yielded. The listing ends after an
	// error.
	List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Info, error]
}

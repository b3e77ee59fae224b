package object

import (
	"cmp"
	"context"
	"io"
	"iter"
	"time"
)

// MaxMetadata is the largest metadata of an object that every bucket takes: the
// lengths of all names and values together, in bytes.
const MaxMetadata = 2 << 10

// maxHeaders is how long the [Headers] of an object may be, all together, in bytes.
const maxHeaders = 2 << 10

// Headers are HTTP headers that a store keeps with an object and sends to browsers and
// caches, in addition to the content type. An empty one is not sent. Values are text without
// control characters; some servers take ASCII only. All together have at most 2 KiB.
type Headers struct {
	CacheControl       string `json:"cache_control,omitempty"`
	ContentDisposition string `json:"content_disposition,omitempty"`

	// ContentEncoding says how the caller has encoded the body, for example "gzip". This
	// package neither encodes nor decodes a body.
	ContentEncoding string `json:"content_encoding,omitempty"`

	ContentLanguage string `json:"content_language,omitempty"`
}

// Or returns h, with the headers of other in the place of those that are empty.
func (h Headers) Or(other Headers) Headers {
	return Headers{
		cmp.Or(h.CacheControl, other.CacheControl), cmp.Or(h.ContentDisposition, other.ContentDisposition),
		cmp.Or(h.ContentEncoding, other.ContentEncoding), cmp.Or(h.ContentLanguage, other.ContentLanguage),
	}
}

// Version names one state of an object. It is opaque: compare it for equality and
// nothing else. The zero value names none.
type Version string

// Info describes one state of an object.
type Info struct {
	Key     string
	Version Version
	Size    int64 // of the whole body, in bytes, also where only a range was requested

	// Modified is when this state was written, by the store's clock and with its
	// granularity (a second on S3, where an object that was uploaded in parts
	// carries the time at which that upload was started).
	Modified time.Time

	// Now is the time of the answer, by the store's clock. It is zero where the store
	// does not send it, or where the answer may come from a cache. Compare Modified and
	// Now of one answer with each other only, not with the caller's clock.
	Now time.Time

	// ContentType, Headers and Metadata are those that the writer passed to Put. A listing
	// leaves them out.
	ContentType string
	Headers     Headers
	Metadata    map[string]string

	// WriteInfo is what a [Client] keeps in the metadata of the object. Only a client fills
	// it in. A [Bucket] has it in Metadata, and a listing leaves it out.
	WriteInfo WriteInfo
}

// Reader is an open object. It reads the body from the requested offset and must be
// closed. After an error the rest of the body is not known. A body that ends early is an
// error, never io.EOF.
type Reader struct {
	io.ReadCloser
	Info Info
}

// GetOptions are the options of [Bucket.Get].
type GetOptions struct {
	// Offset is where to begin, in bytes. An offset at or after the end of the body is
	// refused with [ErrRange], except for 0, which is always valid.
	Offset int64

	// Length is the most bytes to read; 0 means all that follow.
	Length int64

	// IfMatch asks for this state. If the object is in another, the error matches
	// store.ErrConflict.
	IfMatch Version

	// IfChanged asks for any other state. If the object still is in this one, the
	// error matches [ErrNotChanged] and no body is sent.
	IfChanged Version
}

// PutOptions are the options of [Bucket.Put]. Without a condition the object is
// written over whatever is there.
type PutOptions struct {
	// IfAbsent: only if there is no object at this key.
	IfAbsent bool

	// IfMatch: only if the object is in this state. If there is none, that is a
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

	// StorageClass is one of the store's own, such as STANDARD_IA on S3; empty means the
	// store's default. A bucket that has no storage classes refuses it with an
	// [UnsupportedError]. An object of a class that must be restored before it is read
	// (GLACIER) cannot be read here.
	StorageClass string

	// Tags are kept with the object for the store's own rules (costs, lifecycle). No
	// method reads them. There are at most 10; names have at most 128 characters, values 256.
	// Both consist of letters, digits, spaces and + - = . _ : / @. Names are not empty, and do
	// not begin with "aws:". A bucket that has no tags refuses them with an
	// [UnsupportedError].
	Tags map[string]string

	// Length is that of the body in bytes, where the caller knows it; 0 means that it is
	// not known. A body of another length is refused with [ErrInvalid], and nothing is
	// written.
	Length int64

	// Progress, if not nil, is called with how much of the body the store has.
	Progress Progress

	// OnUpload is for a large body that the bucket uploads in parts. The bucket calls it with
	// the upload before it sends the first part. Where OnUpload is set, the bucket keeps an
	// upload that does not complete, and the error is an [UnfinishedError]. The parts cost
	// money until [Resume] completes the upload or an [Uploader] aborts it. Where OnUpload is
	// nil, the bucket aborts an upload that does not succeed. A bucket without such uploads
	// ignores it.
	OnUpload func(Upload)

	// Parts asks a bucket that uploads large bodies in parts to upload this body in parts as
	// well, whatever its size. Its conditions then need [PartsIfAbsent] and [PartsIfMatch].
	Parts bool
}

// DeleteOptions are the options of [Bucket.Delete].
type DeleteOptions struct {
	// IfMatch: only if the object is in this state. If there is no object, that is a
	// conflict with HasCurrent set and an empty Version ([ConflictError]).
	IfMatch Version

	// OrAbsent, with IfMatch: an object that does not exist counts as deleted. Some servers
	// that honour IfMatch give the same answer in both cases.
	OrAbsent bool
}

// ListOptions are the options of [Bucket.List].
type ListOptions struct {
	// After yields only keys that are greater than it, in the order of their
	// bytes.
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

	// Put writes an object. It reads body to its end, and returns at least the
	// key, the version and the size of what it wrote. An error of body is
	// returned, and nothing is written. Put waits for a Read of body that has begun, also
	// when ctx has ended.
	Put(ctx context.Context, key string, body io.Reader, opts *PutOptions) (Info, error)

	// Delete removes an object. Without a condition, deleting what does not exist
	// succeeds.
	Delete(ctx context.Context, key string, opts *DeleteOptions) error

	// List yields the objects whose keys begin with prefix, which is any text, in no
	// promised order, each once. An object that exists throughout the listing is yielded.
	// One that is created or deleted meanwhile may be yielded. After an error the listing
	// ends.
	List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Info, error]
}

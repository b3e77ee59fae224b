// Package object writes objects so that one writer wins, and so that each writer knows
// what became of its write.
//
// # The client
//
// A [Client] stands on a [Bucket]. It puts, copies, renames, deletes and updates objects,
// each only if nothing is there, if the object is in the state that was read, or under a
// fencing token. A nil error means committed and durable. Any other error has an outcome
// ([store.OutcomeOf]): certainly not committed, or unknown.
//
//   - Each write has a random id, which it leaves in the metadata of the object, with those
//     of the eight writes before it ([WriteInfo]). After a lost reply the client reads the object.
//     It is committed if the object has the id, also if others have written since. If the
//     object still is in the state that the write names, the client sends the write again,
//     but never one that creates an object: another writer may have deleted it. Otherwise
//     the outcome is unknown, and [Client.Resolve] can ask again.
//   - A conflict is looked into in the same way, since a proxy can repeat a request, and the
//     answer to the second copy is a conflict with the first. Where others have removed the
//     traces by then (nine writes, or one without a condition, or a delete), the store's word
//     is taken. A refused delete of an object that is gone is unknown.
//   - Pass what Get, Stat or a write has returned as [WriteOptions].Base. Where versions can
//     return, as on S3, a bare version cannot tell an old state from one with the same bytes.
//   - An object that was written under a [Fence] refuses writes with a lower token. See
//     [Client.RaiseFence], and examples/fence for what happens without.
//   - What the store cannot do itself the client does by the next rung of a ladder
//     ([Client.Strategies]): the store's condition, the condition of an upload in parts, a
//     reservation ([Reserver], package reserve). Otherwise it refuses, with an
//     [UnsupportedError]. What the store can do is tried, not believed.
//   - A late request can still be applied after its caller has given up. The store refuses it
//     where it has a condition that no longer holds. A write without a condition, and a create
//     of what has been deleted since, nothing can refuse.
//
// Package indexbucket keeps objects with unique versions, and so with fences, on any bucket.
//
// # The bucket
//
// An object is a key with a body of any size, a few words of metadata and a
// [Version]. A [Bucket] gets, puts, deletes and lists them. S3, Google Cloud
// Storage and Azure Blob Storage are such buckets, and so are a directory
// (package dirbucket) and a map in memory (package membucket).
//
// # The contract
//
//   - A put takes effect as a whole or not at all: a reader sees the old body or
//     the new one, never a mixture, and never a part.
//   - A read, a listing too, that starts after a write was answered sees that
//     write or a later one.
//   - The store itself checks the condition and makes the change in one atomic step. If a
//     store cannot, the bucket refuses with an [UnsupportedError], which matches
//     [errors.ErrUnsupported], and changes nothing. It never reads first and then writes
//     without the condition.
//   - A write has the three outcomes of package store, which [store.OutcomeOf] reads from
//     its error: nil is applied and durable, a definite failure was not applied,
//     everything else is unknown.
//   - A bucket sends a conditional write once, or in a way in which the store applies it
//     once at most (the completion of an upload in parts). Its error matches
//     [store.ErrConflict] when the store answered that the condition does not hold. A proxy
//     between the two may repeat requests, so the conflict may be with the caller's own
//     write. A Client finds that out; package bucketstore does so for registers.
//   - The errors are those of package store: ErrNotFound, ErrConflict, ErrDenied,
//     ErrMisconfigured (a bucket that does not exist, say, which is not an object
//     that does not exist), ErrUnavailable, ErrKey.
//   - All methods may be called from any number of goroutines. The context bounds
//     the call and the reading of the body that it returns, and nothing else.
//
// Package objecttest checks the contract.
//
// # Versions
//
// A [Version] names a state of an object. On S3 it is the ETag, which is the same again
// when the same bytes are written again: a condition on it cannot distinguish the two
// writes. [Traits].UniqueVersions says that this cannot happen. Elsewhere, a caller that
// needs unique versions puts something unique into each body.
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

// MaxHeaders is how long the [Headers] of an object may be, all together, in bytes.
const MaxHeaders = 2 << 10

// Headers are the HTTP headers, beside the content type, that a store keeps with an object
// and sends to browsers and caches. An empty one is not sent. Values are text without
// control characters; some servers take ASCII only.
type Headers struct {
	CacheControl       string `json:"cache_control,omitempty"`
	ContentDisposition string `json:"content_disposition,omitempty"`

	// ContentEncoding says how the body is encoded that was given to Put: "gzip", for
	// example. This package neither encodes nor decodes a body.
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

	// ContentType, Headers and Metadata are those that were given to Put. A listing leaves
	// them out.
	ContentType string
	Headers     Headers
	Metadata    map[string]string

	// WriteInfo is what a [Client] has kept beside the object. Only a client fills it in. A
	// [Bucket] has it in Metadata, and a listing leaves it out.
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

	// Headers are kept beside the body; see [MaxHeaders].
	Headers Headers

	// Metadata is kept beside the body. Names are lower-case letters, digits,
	// hyphens and underscores; values are printable ASCII. See [MaxMetadata] and
	// [CheckMetadata].
	Metadata map[string]string

	// StorageClass is one of the store's own, such as STANDARD_IA on S3; empty means the
	// store's default. A bucket that has no storage classes refuses it with an
	// [UnsupportedError]. An object of a class that must be restored before it is read
	// (GLACIER) cannot be read here.
	StorageClass string

	// Tags are kept beside the object for the store's own rules (costs, lifecycle). No
	// method reads them. At most [MaxTags]; see [CheckTags]. A bucket that has no tags
	// refuses them with an [UnsupportedError].
	Tags map[string]string

	// Length is that of the body in bytes, where the caller knows it; 0 means that it is
	// not known. A body of another length is refused with [ErrInvalid], and nothing is
	// written.
	Length int64

	// Progress is told how much of the body the store has; nil tells nothing.
	Progress Progress

	// OnUpload is told of the upload in parts that the bucket makes for a large body, before
	// the first part is sent. Where it is set, an upload that does not complete is left in
	// place, and the error is an [UnfinishedError]; the parts cost money until [Resume]
	// completes or [Uploader] aborts the upload. Where it is nil, and the outcome is not
	// success, the upload is aborted. A bucket without such uploads ignores it.
	OnUpload func(Upload)

	// Parts asks a bucket that uploads large bodies in parts to upload this one so,
	// whatever its size. Then its conditions need [PartsIfAbsent] and [PartsIfMatch].
	Parts bool
}

// DeleteOptions are the options of [Bucket.Delete].
type DeleteOptions struct {
	// IfMatch: only if the object is in this state. If there is none, that is a
	// conflict that knows so.
	IfMatch Version

	// OrAbsent, with IfMatch: an object that is not there counts as deleted. Some servers
	// that honour IfMatch answer so, and cannot tell the two apart.
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

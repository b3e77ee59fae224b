package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

const (
	// probePrefix is where a client tries what a store can do. A [Verifier] has its own.
	probePrefix = ".holdfast/probe"

	// maxPause bounds the pause before each further try.
	maxPause = 2 * time.Second
)

// Options are the options of [New].
type Options struct {
	// With a Reserver, the client reserves the object before every conditional write. The client
	// reserves the object even if the store checks the condition, because other programs may rely
	// only on the reservation. If the store checks the condition, the client also sends the
	// condition. Without a Reserver, the client refuses conditions that the store does not check.
	// Unconditional writes need no reservation.
	Reserver Reserver

	// Abilities has the results of earlier tests: true if the store has the ability, false if it
	// does not. For an ability that is not in the map, there are three cases. If the bucket is a
	// [Verifier], the client calls Verify. Otherwise, if the [Traits] of the bucket say Trusted,
	// the client assumes that the store has the ability. Otherwise the client tests the ability
	// once ([Probe]).
	Abilities map[Ability]bool

	// DistinctBodies promises that no two writes to one key have equal bodies, for example because
	// each body has a unique id. Then the client can check a fence even if equal bodies have equal
	// versions, as on S3. Every writer of the objects must keep this promise. Do not copy the same
	// body twice to one key, because this breaks the promise.
	DistinctBodies bool

	// Logger receives the outcome of writes whose reply was lost. Nil means no log.
	Logger *slog.Logger

	// Trace, if not nil, is called at the beginning of each call that writes, also for a [Log] of
	// this client. For example, Trace begins a span. The op is "put", "update", "copy", "rename",
	// "delete", "append", "trim" or "sweep"; the key is that of the object or log. The call
	// continues with the context that Trace returns, which must come from ctx. So the requests of
	// the call have the values of this context. At its end the call passes its error to done. Module
	// otel has such a function.
	Trace func(ctx context.Context, op store.Kind, key string) (_ context.Context, done func(error))

	// tries is the most times that a write is sent while its outcome is not known, and the
	// most times that the state is then read. pause bounds the random pause before the second
	// try; it doubles with each further one, to maxPause. Tests set them.
	tries int
	pause time.Duration
}

func (o *Options) check() error {
	o.tries = cmp.Or(o.tries, 5)
	o.pause = cmp.Or(o.pause, 50*time.Millisecond)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Abilities = maps.Clone(o.Abilities)
	for a := range o.Abilities {
		if !slices.Contains(Abilities(), a) {
			return fmt.Errorf("%w: Options.Abilities: the ability %q is unknown", ErrInvalid, a)
		}
	}
	return nil
}

// WriteOptions are the options of the writes of a [Client]. Set at most one of IfAbsent, IfMatch
// and Base.
type WriteOptions struct {
	// IfAbsent is a condition: there must be no object.
	IfAbsent bool

	// IfMatch is a condition: the object must be in this state. The client sends a Stat first,
	// because it needs the ids of the earlier writes. With Base the client needs no Stat.
	IfMatch Version

	// Base is a condition: the object must be in this state. Base is an Info that a Get, a Stat or
	// a write has returned. It has the ids of the earlier writes ([Info].WriteInfo). With these ids
	// the client can find the outcome after a lost reply. The client also checks the fence without
	// another request. If [Traits].UniqueVersions is false, Base does not protect metadata. On such
	// a store, a write of the same body with other metadata does not change the version.
	Base *Info

	// SourceIfMatch is a condition: the source of a Copy or Rename must be in this state.
	SourceIfMatch Version

	// Fence is the lock of the writer, with its token. A write with a fence leaves the fence on the
	// object. Clients then refuse each write that has no fence, the fence of another lock, or a
	// lower token. The error matches [ErrFenced]. A delete with a fence leaves a tombstone, which
	// reads do not see.
	//
	// A fence needs a store that checks conditions, and versions that are never used twice
	// ([Traits].UniqueVersions or [Options].DistinctBodies). On other buckets a write with a fence
	// returns an [UnsupportedError].
	Fence *Fence

	// With Force, the client writes even if the fence of the object refuses the write. If these
	// options have no Fence, the object keeps its fence.
	Force bool

	// ContentType is a MIME type; empty means application/octet-stream. If it is empty in a Copy or
	// Rename, the destination gets the content type of the source.
	ContentType string

	// Headers are stored with the body. If a header is empty in a Copy or Rename, the destination
	// gets this header of the source.
	Headers Headers

	// Metadata is stored with the body; see [PutOptions] for its form, and [MaxClientMetadata] for
	// its size. The client refuses names that begin with [ReservedMetadata]. Nil means no metadata.
	// In a Copy or Rename, nil means that the destination gets the metadata of the source.
	Metadata map[string]string

	// Length, Progress and OnUpload are described at [PutOptions]. If an upload with OnUpload does
	// not complete, the client does not send the body again; see [Client.Resume]. Copy and Rename
	// accept only Progress.
	Length   int64
	Progress Progress
	OnUpload func(Upload)

	own      map[string]string // of this package: goes to WriteInfo.own
	from     *Origin           // of Rename and Copy
	rename   string            // of Rename: goes to Origin.RenameID
	orAbsent bool              // of a delete: an object that does not exist counts as deleted

	// writeInfo is what the write gets in place of a new one: of a [Log], and of an upload
	// that is resumed.
	writeInfo *WriteInfo
}

// put returns the options of one request of a put.
func (o *WriteOptions) put(by way, on condition, metadata map[string]string) *PutOptions {
	return &PutOptions{
		IfAbsent: on.ifAbsent, IfMatch: on.ifMatch, ContentType: o.ContentType, Headers: o.Headers, Metadata: metadata, Parts: by.strategy == StrategyMultipart,
		Length: o.Length, Progress: o.Progress, OnUpload: o.OnUpload,
	}
}

// check checks what is common to all writes.
func (o *WriteOptions) check(key string) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	if err := o.Fence.check(); err != nil {
		return err
	}
	conditions := 0
	for _, given := range []bool{o.IfAbsent, o.IfMatch != "", o.Base != nil} {
		if given {
			conditions++
		}
	}
	if conditions > 1 {
		return fmt.Errorf("%w: the options have more than one of IfAbsent, IfMatch and Base; give one", ErrInvalid)
	}
	if b := o.Base; b != nil && (b.Version == "" || b.Key != key) {
		return fmt.Errorf("%w: Base does not describe a state of %q; pass what a Get, Stat or write of this object returned", ErrInvalid, key)
	}
	size := 0
	for name, value := range o.Metadata {
		if len(name) >= len(ReservedMetadata) && name[:len(ReservedMetadata)] == ReservedMetadata {
			return fmt.Errorf("%w: the metadata name %q is reserved for the client (prefix %q); use another name", ErrInvalid, name, ReservedMetadata)
		}
		size += len(name) + len(value)
	}
	if size > MaxClientMetadata {
		return fmt.Errorf("%w: the metadata has %d bytes; at most %d are allowed", ErrInvalid, size, MaxClientMetadata)
	}
	return cmp.Or(CheckMetadata(o.Metadata), checkHeaders(o.Headers))
}

// Client reads and writes objects. It finds the outcome of each write; see the package comment. Any
// number of goroutines may use a client. It starts no goroutine, and needs no Close.
type Client struct {
	bucket    Bucket
	o         Options
	fencing   bool     // versions identify states, so that fences can be checked
	tester    Verifier // nil if the bucket is none
	abilities *AbilityCache
}

// New returns a client for the objects of a bucket. It sends no request. All clients of a bucket
// should have the same options.
func New(b Bucket, opts *Options) (*Client, error) {
	o := *cmp.Or(opts, &Options{})
	if b == nil {
		return nil, fmt.Errorf("object: %w: the bucket is nil", ErrInvalid)
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	c := &Client{bucket: b, o: o, fencing: TraitsOf(b).UniqueVersions || o.DistinctBodies}
	c.tester, _ = As[Verifier](b)
	c.abilities = NewAbilityCache("", nil, false)
	for a, has := range o.Abilities {
		c.abilities.found[a] = nil
		if !has {
			c.abilities.found[a] = &UnsupportedError{Ability: a, Found: "Options.Abilities of this client has the value false for it"}
		}
	}
	return c, nil
}

// Bucket returns the bucket that the client uses.
func (c *Client) Bucket() Bucket { return c.bucket }

// Get opens an object like [Bucket.Get]. The caller must close the reader. The Info of the result
// has the [WriteInfo]. Its Metadata is the metadata that the writer passed to Put. If the object is
// a tombstone, the error matches [store.ErrNotFound].
func (c *Client) Get(ctx context.Context, key string, opts *GetOptions) (*Reader, error) {
	r, err := c.bucket.Get(ctx, key, opts)
	if err != nil {
		return nil, c.outOfRange(ctx, key, err)
	}
	r.Info = withWriteInfo(r.Info)
	if r.Info.WriteInfo.Deleted {
		r.Close()
		return nil, opError("get", key, store.ErrNotFound)
	}
	return r, nil
}

// ReadAll reads an object of limited size, like the function [ReadAll]. The Info can be the Base of
// a write. If the object is a tombstone, the error matches [store.ErrNotFound].
func (c *Client) ReadAll(ctx context.Context, key string, limit int64, opts *GetOptions) ([]byte, Info, error) {
	body, info, err := ReadAll(ctx, c.bucket, key, limit, opts)
	info = withWriteInfo(info)
	if info.WriteInfo.Deleted {
		body, info, err = nil, Info{}, store.ErrNotFound
	}
	return body, info, opError("get", key, c.outOfRange(ctx, key, err))
}

// outOfRange returns the error of a read. The bucket refuses an offset behind the end of a tombstone, but for a reader
// a tombstone is absent.
func (c *Client) outOfRange(ctx context.Context, key string, err error) error {
	if errors.Is(err, ErrRange) {
		if _, now := c.Stat(ctx, key); errors.Is(now, store.ErrNotFound) {
			return opError("get", key, store.ErrNotFound)
		}
	}
	return err
}

// Stat describes an object by one request, like [Bucket.Stat]. The Info has the [WriteInfo], and
// can be the Base of a write. If the object is a tombstone, the error matches [store.ErrNotFound].
func (c *Client) Stat(ctx context.Context, key string) (Info, error) {
	info, err := c.stat(ctx, key)
	if err == nil && info.WriteInfo.Deleted {
		err = store.ErrNotFound
	}
	if err != nil {
		return Info{}, opError("stat", key, err)
	}
	return info, nil
}

// stat is Stat that sees tombstones. Its errors name no operation.
func (c *Client) stat(ctx context.Context, key string) (Info, error) {
	info, err := c.bucket.Stat(ctx, key)
	if err != nil {
		return Info{}, bare(err)
	}
	return withWriteInfo(info), nil
}

// List yields the objects whose keys begin with prefix, like [Bucket.List]. It does not yield
// tombstones. Each object that is as small as a tombstone costs one more request.
func (c *Client) List(ctx context.Context, prefix string, opts *ListOptions) iter.Seq2[Info, error] {
	return c.visible(ctx, c.bucket.List(ctx, prefix, opts))
}

// ListDir lists one level of keys, like the function [ListDir]. It does not yield tombstones. Each
// object that is as small as a tombstone costs one more request.
func (c *Client) ListDir(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return c.visible(ctx, ListDir(ctx, c.bucket, prefix))
}

// visible is a listing without tombstones.
func (c *Client) visible(ctx context.Context, listing iter.Seq2[Info, error]) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		for info, err := range listing {
			if err == nil && info.Size == tombstoneSize {
				var now Info
				now, err = c.stat(ctx, info.Key)
				if errors.Is(err, store.ErrNotFound) || err == nil && now.WriteInfo.Deleted {
					continue
				}
				err = opError("stat", info.Key, err)
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
}

// Put writes an object from body, which it reads to the end. The body can have any size; the bucket
// decides whether it uploads the body in parts. A nil body is empty. If a Read of the body fails,
// Put returns that error and writes nothing.
//
//   - nil: the write is committed and durable. The Info can be the Base of the next write. If the
//     reply was lost and other writes have replaced the object, the Version of the Info is empty.
//   - [store.ErrConflict]: the condition did not hold ([ConflictError]), and nothing was written.
//   - [ErrFenced]: the fence of the object refuses this write, and nothing was written.
//   - [store.InDoubtError]: the write may have been applied, or may still be applied. The Version
//     of the error is the id of the write, for [Client.Resolve].
//
// With Base or IfAbsent, a put is one request if its reply arrives. With IfMatch, the client also
// sends a Stat. On a bucket with unique versions, the client also sends a Stat before a put without
// a condition, to read the fence. After a conflict the client sends a Stat to find the winner.
//
// If the object is certainly still in the state that the write names, the client can send the write
// again. It then needs the body again. If body is an [io.Seeker], the client seeks back. If it is
// not, the client keeps up to 1 MiB of the body in memory, and sends a longer body only once. If
// the client can send the body only once, a put without a condition can end with a conflict on a
// bucket with unique versions.
func (c *Client) Put(ctx context.Context, key string, body io.Reader, opts *WriteOptions) (Info, error) {
	return traced(ctx, c, "put", key, func(ctx context.Context) (Info, error) { return c.put(ctx, key, body, options(opts)) })
}

func (c *Client) put(ctx context.Context, key string, body io.Reader, o WriteOptions) (Info, error) {
	if err := o.check(key); err != nil {
		return Info{}, err
	}
	if o.SourceIfMatch != "" {
		return Info{}, fmt.Errorf("%w: SourceIfMatch is for a copy; a put has no source", ErrInvalid)
	}
	b, err := newReplay(body)
	if err != nil {
		return Info{}, store.MarkNotApplied(err)
	}
	defer b.errs.show()
	o.Progress = o.Progress.rising()
	w := &write{c: c, key: key, o: o, rewind: b.rewind}
	w.choose = func(ctx context.Context, need condition) (way, error) { return c.wayOfPut(ctx, need, b.small) }
	w.send = func(ctx context.Context, by way, on condition, metadata map[string]string) (Info, error) {
		return c.bucket.Put(ctx, key, b.body, o.put(by, on, metadata))
	}
	return w.run(ctx)
}

// Resume continues an upload of a Put with OnUpload that did not complete; see the function
// [Resume]. Pass the same body as in that Put, from its beginning. The id of the write does not
// change. So the client notices if an earlier attempt has already completed the upload.
//
// The object gets the content type, headers, metadata and fence of the Put; the options must not
// set them. The object must still be in the state that the Put saw. If another writer has changed
// the object meanwhile, Resume returns a conflict on a bucket with unique versions. Resume returns
// this conflict even without a condition, and even with Force.
func (c *Client) Resume(ctx context.Context, u Upload, body io.Reader, opts *WriteOptions) (Info, error) {
	return traced(ctx, c, "put", u.Key, func(ctx context.Context) (Info, error) { return c.resume(ctx, u, body, options(opts)) })
}

func (c *Client) resume(ctx context.Context, u Upload, body io.Reader, o WriteOptions) (Info, error) {
	if err := o.check(u.Key); err != nil {
		return Info{}, err
	}
	begun := withWriteInfo(Info{Metadata: u.Metadata})
	if o.SourceIfMatch != "" || o.ContentType != "" || o.Headers != (Headers{}) || o.Metadata != nil || o.Fence != nil || begun.WriteInfo.ID == "" {
		return Info{}, fmt.Errorf("%w: a Client did not begin this upload, or the options set SourceIfMatch, ContentType, Headers, Metadata or Fence: set these in the Put that begins the upload", ErrInvalid)
	}
	o.Metadata, o.Fence, o.writeInfo = begun.Metadata, begun.WriteInfo.Fence, &begun.WriteInfo
	body, errs := guard(body)
	defer errs.show()
	w := &write{c: c, key: u.Key, o: o, resumes: true, rewind: func() bool { return false }}
	w.choose = func(ctx context.Context, need condition) (way, error) { return c.wayOfPut(ctx, need, false) }
	w.send = func(ctx context.Context, by way, on condition, metadata map[string]string) (Info, error) {
		opts := o.put(by, on, nil)
		return Resume(ctx, c.bucket, u, body, opts)
	}
	info, err := w.run(ctx)
	if store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) && !errors.Is(err, ErrFenced) {
		return info, err
	}
	// The conflict may be with an earlier completion of this upload.
	now, lookErr := c.readState(ctx, u.Key)
	if lookErr != nil {
		return Info{}, &store.InDoubtError{Version: store.Version(begun.WriteInfo.ID), Err: fmt.Errorf("the upload may be complete, but the client could not read the object to find out: %w", lookErr)}
	}
	switch c.resolution(now, state{any: true}, begun.WriteInfo.ID) {
	case store.ResolutionApplied:
		return now.info, nil
	case store.ResolutionSuperseded:
		return (&attempt{write: w, writeInfo: begun.WriteInfo}).made(Info{}), nil
	}
	return Info{}, err
}

// Resolve finds the outcome of a write in doubt, by one Stat. The argument base is the state that
// the write named, or nil if the write was a create. The argument write is the id of the write,
// from [store.AttemptedVersion].
//
//   - ResolutionApplied: the object is in the state after the write; the Info describes it.
//   - ResolutionSuperseded: the write was applied, and other writes have followed.
//   - ResolutionPending: the object is still in the state that the write named. The write may
//     still be applied. The caller may send it again.
//   - ResolutionNotApplied: other writes have replaced that state, and the write can never be
//     applied.
//   - ResolutionUnknown: no request can find the outcome any more.
//
// A resolution other than ResolutionPending and ResolutionUnknown is final. An error means that
// the object could not be read.
func (c *Client) Resolve(ctx context.Context, key string, base *Info, write store.Version) (store.Resolution, Info, error) {
	on := state{absent: base == nil}
	if base != nil {
		on = stateOf(recalled(*base))
	}
	now, err := c.current(ctx, key)
	if err != nil {
		return store.ResolutionUnknown, Info{}, opError("stat", key, err)
	}
	resolution := c.resolution(now, on, string(write))
	if resolution == store.ResolutionNotApplied {
		// A store that does not check the condition takes the write when it comes.
		if by, err := c.wayOfPut(ctx, on.condition(), false); err != nil || !by.own {
			resolution = store.ResolutionUnknown
		}
	}
	return resolution, now.info, nil
}

func options(o *WriteOptions) WriteOptions {
	if o == nil {
		return WriteOptions{}
	}
	return *o
}

// opError names the operation and the object of an error that names neither.
func opError(op store.Kind, key string, err error) error {
	if _, ok := err.(*store.OpError); ok || err == nil {
		return err
	}
	return &store.OpError{Op: op, Key: key, Err: err}
}

// traced runs a call of the client under Options.Trace. The error names the call.
func traced[T any](ctx context.Context, c *Client, op store.Kind, key string, call func(context.Context) (T, error)) (result T, err error) {
	if c.o.Trace != nil {
		var done func(error)
		ctx, done = c.o.Trace(ctx, op, key)
		err = errNotReturned
		defer func() { done(err) }()
	}
	result, err = call(ctx)
	return result, opError(op, key, err)
}

// errNotReturned is what Options.Trace gets if a function of the caller ends its goroutine.
var errNotReturned = errors.New("the call did not return, because it panicked or its goroutine ended")

// bare returns the error of a bucket without the operation and the key, which the client
// names itself.
func bare(err error) error {
	if of, ok := err.(*store.OpError); ok {
		return of.Err
	}
	return err
}

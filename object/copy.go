package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Copy copies an object, with its content type, headers and metadata unless opts has others. The
// condition and the fence of opts are those of the destination; SourceIfMatch is that of
// the source. The state of the source that Copy saw first is what it copies.
//
// The server copies, objects of any size, where it can do that under the conditions.
// Otherwise the client downloads the object and puts it. It is two requests (stat and copy)
// where the server copies at once. The outcomes are those of [Client.Put]. A source that
// does not exist is [store.ErrNotFound], or with SourceIfMatch a conflict; a source that
// changes meanwhile is a conflict, too. Nothing is written then. A [ConflictError] names the
// object whose state was in the way.
func (c *Client) Copy(ctx context.Context, source, destination string, opts *WriteOptions) (Info, error) {
	o := options(opts)
	from, err := c.source(ctx, source, destination, o)
	if err != nil {
		return Info{}, opError("copy", source, store.MarkNotApplied(err))
	}
	info, err := c.copy(ctx, from, destination, o)
	return info, opError("copy", destination, err)
}

// source checks the arguments of a copy, and returns the state of its source.
func (c *Client) source(ctx context.Context, source, destination string, o WriteOptions) (Info, error) {
	if err := CheckKey(source); err != nil {
		return Info{}, err
	}
	if err := o.check(destination); err != nil {
		return Info{}, err
	}
	if source == destination {
		return Info{}, fmt.Errorf("%w: source and destination are the same", ErrInvalid)
	}
	if err := store.CheckContext(ctx); err != nil {
		return Info{}, err
	}
	from, err := c.stat(ctx, source)
	if err == nil && from.Stamp.Deleted {
		from, err = Info{}, store.ErrNotFound
	}
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case absent && o.SourceIfMatch == "":
		return Info{}, fmt.Errorf("%q: %w", source, err)
	case err != nil && !absent:
		return Info{}, err
	case o.SourceIfMatch != "" && from.Version != o.SourceIfMatch:
		return Info{}, &ConflictError{Key: source, Known: true, Version: from.Version}
	}
	return from, nil
}

// copy copies the state from to the destination.
func (c *Client) copy(ctx context.Context, from Info, destination string, o WriteOptions) (Info, error) {
	o.from = &Origin{Key: folded(from.Key), Version: Version(folded(string(from.Version))), Write: from.Stamp.Write}
	return c.transfer(ctx, from, destination, o).run(ctx)
}

// transfer is the write that leaves a copy of the state from at key, with what o says.
func (c *Client) transfer(ctx context.Context, from Info, key string, o WriteOptions) *write {
	o.Length, o.Keep = from.Size, nil
	o.ContentType, o.Headers = cmp.Or(o.ContentType, from.ContentType), o.Headers.Or(from.Headers)
	if o.Metadata == nil {
		o.Metadata = from.Metadata
	}
	w := &write{c: c, key: key, o: o, rewind: func() bool { return true }, choose: c.wayOfCopy}
	w.blame = func() error {
		// The destination is as it was named, so it was the source that was not.
		now, err := c.current(ctx, from.Key)
		if err == nil && now.version() != from.Version {
			return &ConflictError{Key: from.Key, Known: true, Version: now.version()}
		}
		return nil
	}
	w.send = func(ctx context.Context, by way, on condition, metadata map[string]string) (Info, error) {
		if !by.stream {
			return c.copyOnce(ctx, from, key, on, o, metadata)
		}
		r, err := c.bucket.Get(ctx, from.Key, &GetOptions{IfMatch: from.Version})
		if errors.Is(err, store.ErrNotFound) {
			err = &ConflictError{Key: from.Key, Known: true}
		}
		if err != nil {
			return Info{}, store.MarkNotApplied(bare(err))
		}
		defer r.Close()
		if r.Info.Version != from.Version {
			return Info{}, &ConflictError{Key: from.Key, Known: true, Version: r.Info.Version}
		}
		return c.bucket.Put(ctx, key, r, o.put(by, on, metadata))
	}
	return w
}

func (c *Client) copyOnce(ctx context.Context, from Info, key string, on condition, o WriteOptions, metadata map[string]string) (Info, error) {
	info, err := Copy(ctx, c.bucket, from.Key, key, &CopyOptions{
		SourceIfMatch: from.Version, IfAbsent: on.ifAbsent, IfMatch: on.ifMatch, ContentType: o.ContentType, Headers: o.Headers, Metadata: metadata,
		Progress: o.Progress,
	})
	if err == nil && info.Size == 0 {
		info.Size = from.Size // the answer of S3 does not have it
	}
	return info, err
}

// Renamed is what [Client.Rename] has done.
type Renamed struct {
	// Info is the object at the destination.
	Info Info

	// Resumed says that an earlier rename had copied the object already.
	Resumed bool

	// SourceGone says that the source had been deleted already.
	SourceGone bool
}

// Rename moves an object: it copies it, then deletes the source. It is not atomic: between
// the two steps both objects exist, and a crash leaves both. Call Rename again with the same
// arguments and a condition on the destination (IfAbsent, say): it finds by the [Origin] of
// the destination that the copy was made, and deletes the source. It reports success also
// where the source is gone by then.
//
// The copy is conditional on the state of the source, and on that of the destination as
// opts says; the delete is conditional on the state that was copied. Where the store does
// not honour that, the delete runs under a reservation ([Options].Reserver). Without one,
// Rename refuses with an [UnsupportedError] before it does anything. The fence of opts is
// that of both objects.
//
//   - nil: the object is at the destination, and the source is deleted.
//   - not applied: nothing was changed. [store.ErrConflict]: a condition did not hold;
//     [store.ErrNotFound]: neither the source exists nor a copy of it.
//   - unknown: the copy or the delete may have been applied, or may still be.
//     [RenameError]: the copy was made, and the source was not deleted, or perhaps not.
func (c *Client) Rename(ctx context.Context, source, destination string, opts *WriteOptions) (Renamed, error) {
	r, err := c.rename(ctx, source, destination, options(opts))
	return r, opError("rename", source, err)
}

func (c *Client) rename(ctx context.Context, source, destination string, o WriteOptions) (Renamed, error) {
	from, err := c.source(ctx, source, destination, o)
	gone := errors.Is(err, store.ErrNotFound)
	var changed *ConflictError
	if errors.As(err, &changed) && changed.Known && changed.Version == "" {
		gone = true
	}
	if gone {
		return c.renamed(ctx, source, destination, o, err)
	}
	if err != nil {
		return Renamed{}, store.MarkNotApplied(err)
	}
	// The source must be deletable before anything is copied.
	if o.Fence == nil {
		if _, err := c.wayOfDelete(ctx, condition{ifMatch: from.Version}); err != nil {
			return Renamed{}, store.MarkNotApplied(err)
		}
	}
	if c.fencing && !o.Force {
		if err := from.Stamp.allows(source, o.Fence); err != nil {
			return Renamed{}, err
		}
	}
	done := Renamed{}
	done.Info, err = c.copy(ctx, from, destination, o)
	if errors.Is(err, store.ErrConflict) && store.OutcomeOf(err) == store.NotApplied {
		// An earlier rename may have made the copy.
		now, lookErr := c.current(ctx, destination)
		if lookErr != nil || now.absent || !now.info.Stamp.From.Is(source, from) || now.info.Stamp.Deleted {
			return Renamed{}, err
		}
		done.Info, done.Resumed, err = now.info, true, nil
	}
	if err != nil {
		return Renamed{}, err
	}
	err = c.delete(ctx, source, WriteOptions{Base: &from, Fence: o.Fence, Force: o.Force})
	if err != nil {
		now, lookErr := c.current(ctx, source)
		if lookErr != nil || !now.absent && !now.info.Stamp.Deleted {
			return done, &RenameError{Source: source, Destination: destination, Err: err}
		}
		done.SourceGone = true
	}
	return done, nil
}

// renamed is the rest of a rename whose source is gone: an earlier one may have deleted
// it.
func (c *Client) renamed(ctx context.Context, source, destination string, o WriteOptions, absent error) (Renamed, error) {
	now, err := c.current(ctx, destination)
	if err != nil {
		return Renamed{}, store.MarkNotApplied(err)
	}
	from := now.info.Stamp.From
	if now.absent || now.info.Stamp.Deleted || from == nil || from.Key != folded(source) ||
		o.SourceIfMatch != "" && from.Version != Version(folded(string(o.SourceIfMatch))) {
		return Renamed{}, store.MarkNotApplied(absent)
	}
	return Renamed{Info: now.info, Resumed: true, SourceGone: true}, nil
}

// RenameError says that a rename has made its copy, and has not deleted the source, or
// does not know whether it has. Its outcome is Unknown; call Rename again, or delete the
// source.
type RenameError struct {
	Source, Destination string
	Err                 error // of the delete
}

func (e *RenameError) Error() string {
	return fmt.Sprintf("it was copied to %q, but %q was not deleted: %v", e.Destination, e.Source, e.Err)
}

// Unwrap returns Err, unless that is a conflict: an error of unknown outcome matches none.
func (e *RenameError) Unwrap() error {
	if errors.Is(e.Err, store.ErrConflict) {
		return nil
	}
	return e.Err
}

// Outcome is Unknown.
func (e *RenameError) Outcome() store.Outcome { return store.Unknown }

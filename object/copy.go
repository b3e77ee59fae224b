package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// Copy copies an object. The destination gets the content type, headers and metadata of the source,
// unless the options set others. The condition and the fence in the options apply to the
// destination; SourceIfMatch applies to the source. Copy first reads the state of the source, and
// copies this state.
//
// If the server supports conditional copies, Copy takes two requests (stat and copy) for an object
// of any size. Otherwise the client downloads the object and puts it. Copy has the same outcomes as
// [Client.Put].
//
// If the source does not exist, the error matches [store.ErrNotFound]; with SourceIfMatch it
// matches [store.ErrConflict] instead. If the source changes during the copy, the error matches
// [store.ErrConflict]. In all these cases, Copy writes nothing. The Key of the [ConflictError]
// names the object that was not in the expected state.
func (c *Client) Copy(ctx context.Context, source, destination string, opts *WriteOptions) (Info, error) {
	return traced(ctx, c, "copy", destination, func(ctx context.Context) (Info, error) {
		o := options(opts)
		from, err := c.source(ctx, source, destination, o)
		if err != nil {
			return Info{}, opError("copy", source, store.MarkNotApplied(err))
		}
		return c.copy(ctx, from, destination, o)
	})
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
		return Info{}, fmt.Errorf("%w: the source and the destination are the same object", ErrInvalid)
	}
	if err := store.CheckContext(ctx); err != nil {
		return Info{}, err
	}
	from, err := c.stat(ctx, source)
	if err == nil && from.WriteInfo.Deleted {
		from, err = Info{}, store.ErrNotFound
	}
	absent := errors.Is(err, store.ErrNotFound)
	switch {
	case absent && o.SourceIfMatch == "":
		return Info{}, fmt.Errorf("%q: %w", source, err)
	case err != nil && !absent:
		return Info{}, err
	case o.SourceIfMatch != "" && from.Version != o.SourceIfMatch:
		return Info{}, &ConflictError{Key: source, HasCurrent: true, Version: from.Version}
	}
	return from, nil
}

// copy copies the state from to the destination.
func (c *Client) copy(ctx context.Context, from Info, destination string, o WriteOptions) (Info, error) {
	o.from = &Origin{Key: folded(from.Key), Version: Version(folded(string(from.Version))), WriteID: from.WriteInfo.ID, RenameID: o.rename}
	return c.transfer(ctx, from, destination, o).run(ctx)
}

// transfer is the write that leaves a copy of the state from at key, with what o says.
func (c *Client) transfer(ctx context.Context, from Info, key string, o WriteOptions) *write {
	o.Length, o.OnUpload = from.Size, nil
	o.ContentType, o.Headers = cmp.Or(o.ContentType, from.ContentType), o.Headers.Or(from.Headers)
	if o.Metadata == nil {
		o.Metadata = from.Metadata
	}
	w := &write{c: c, key: key, o: o, rewind: func() bool { return true }, choose: c.wayOfCopy}
	w.blame = func() error {
		// The destination is in the state that was named, so the source was not.
		now, err := c.current(ctx, from.Key)
		if err == nil && now.version() != from.Version {
			return &ConflictError{Key: from.Key, HasCurrent: true, Version: now.version()}
		}
		return nil
	}
	w.send = func(ctx context.Context, by way, on condition, metadata map[string]string) (Info, error) {
		if !by.stream {
			return c.copyOnce(ctx, from, key, on, o, metadata)
		}
		r, err := c.bucket.Get(ctx, from.Key, &GetOptions{IfMatch: from.Version})
		if errors.Is(err, store.ErrNotFound) {
			err = &ConflictError{Key: from.Key, HasCurrent: true}
		}
		if err != nil {
			return Info{}, store.MarkNotApplied(bare(err))
		}
		defer r.Close()
		if r.Info.Version != from.Version {
			return Info{}, &ConflictError{Key: from.Key, HasCurrent: true, Version: r.Info.Version}
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

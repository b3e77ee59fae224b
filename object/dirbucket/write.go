package dirbucket

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// condition is the condition of a write.
type condition struct {
	ifAbsent bool
	ifMatch  object.Version
}

// Put implements [object.Bucket].
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err != nil {
		return object.Info{}, opError("put", key, err)
	}
	start := time.Now()
	e := entry{Key: key, ContentType: cmp.Or(o.ContentType, "application/octet-stream"), Metadata: o.Metadata}
	e.File, e.Size, err = b.write(func(f *os.File) (int64, error) { return io.Copy(f, object.Body(body, o)) })
	if err != nil {
		return object.Info{}, opError("put", key, store.MarkNotApplied(err))
	}
	info, err := b.commit(ctx, e, condition{o.IfAbsent, o.IfMatch}, start)
	if err != nil {
		return object.Info{}, opError("put", key, err)
	}
	o.Progress.Tell(info.Size, info.Size)
	return info, nil
}

// commit makes e the entry of its key, and removes the file that it replaces. If the
// write is certainly not applied, it removes the file of e.
func (b *Bucket) commit(ctx context.Context, e entry, c condition, start time.Time) (object.Info, error) {
	info, replaced, err := b.swap(ctx, e, c, start)
	switch {
	case err == nil:
		b.remove(replaced)
		return info, nil
	case store.OutcomeOf(err) == store.NotApplied:
		b.remove(e.File)
	}
	// Otherwise the register may name the file of e, now or later.
	return object.Info{}, err
}

// swap is the conditional write of the index. Without a condition it retries after a
// conflict.
func (b *Bucket) swap(ctx context.Context, e entry, c condition, start time.Time) (info object.Info, replaced string, err error) {
	for {
		old, v, err := b.load(ctx, e.Key)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return object.Info{}, "", store.MarkNotApplied(err)
		case c.ifAbsent && v != "", c.ifMatch != "" && store.Version(c.ifMatch) != v:
			return object.Info{}, "", &object.ConflictError{Key: e.Key, Known: true, Version: object.Version(v)}
		case elapsed(start) > b.grace/2:
			return object.Info{}, "", store.MarkNotApplied(fmt.Errorf("the put took longer than %v, its file may have been swept", b.grace/2))
		}
		e.Modified = time.Now().UTC()
		value, err := json.Marshal(e)
		if err != nil {
			return object.Info{}, "", store.MarkNotApplied(err)
		}
		v, err = b.index.Put(ctx, register(e.Key), v, value)
		if err == nil {
			return e.info(v), old.File, b.late(e, start)
		}
		if !errors.Is(err, store.ErrConflict) {
			return object.Info{}, "", plain(err)
		}
		if c.ifAbsent || c.ifMatch != "" {
			return object.Info{}, "", conflict(e.Key, err)
		}
	}
}

// late checks that the body was not swept, after a swap that took longer than the grace:
// the process may have been stopped meanwhile.
func (b *Bucket) late(e entry, start time.Time) error {
	if elapsed(start) <= b.grace {
		return nil
	}
	if _, err := b.root.Stat(path(e.File)); err != nil {
		return store.MarkUnknown(fmt.Errorf("%w: the put took longer than %v, and its file was swept: put it again", store.ErrCorrupt, b.grace))
	}
	return nil
}

// elapsed returns the longer of the times since start by the monotonic and by the wall
// clock: one of them may have stopped while the machine slept.
func elapsed(start time.Time) time.Duration {
	return max(time.Since(start), time.Since(start.Round(0)))
}

// conflict turns a conflict of the index into one of the bucket.
func conflict(key string, err error) error {
	c := &object.ConflictError{Key: key}
	var known *store.ConflictError
	if errors.As(err, &known) && known.Known {
		c.Known, c.Version = true, object.Version(known.Version)
	}
	return c
}

// Copy implements [object.Copier].
func (b *Bucket) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o, err := object.CheckCopy(source, destination, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err != nil {
		return object.Info{}, opError("copy", source, err)
	}
	start := time.Now()
	var get *object.GetOptions
	if o.SourceIfMatch != "" {
		get = &object.GetOptions{IfMatch: o.SourceIfMatch}
	}
	r, err := b.Get(ctx, source, get)
	if err != nil {
		return object.Info{}, opError("copy", source, store.MarkNotApplied(plain(err)))
	}
	defer r.Close()
	e := entry{Key: destination, ContentType: r.Info.ContentType, Metadata: r.Info.Metadata}
	if o.Metadata != nil {
		e.Metadata, e.ContentType = o.Metadata, cmp.Or(o.ContentType, "application/octet-stream")
	}
	e.File, e.Size, err = b.write(func(f *os.File) (int64, error) { return io.Copy(f, r) })
	if err != nil {
		return object.Info{}, opError("copy", source, store.MarkNotApplied(err))
	}
	info, err := b.commit(ctx, e, condition{o.IfAbsent, o.IfMatch}, start)
	if err != nil {
		return object.Info{}, opError("copy", destination, err)
	}
	o.Progress.Tell(info.Size, info.Size)
	return info, nil
}

// Delete implements [object.Bucket].
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	for err == nil {
		var e entry
		var v store.Version
		e, v, err = b.load(ctx, key)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			err = store.MarkNotApplied(err)
			continue
		case o.IfMatch != "" && store.Version(o.IfMatch) != v:
			err = &object.ConflictError{Key: key, Known: true, Version: object.Version(v)}
			continue
		case err != nil:
			return nil // already absent
		}
		err = b.index.Delete(ctx, register(key), v)
		switch {
		case err == nil:
			b.remove(e.File)
			return nil
		case errors.Is(err, store.ErrConflict) && o.IfMatch == "":
			err = nil // another writer was faster: retry
		case errors.Is(err, store.ErrConflict):
			err = conflict(key, err)
		default:
			err = plain(err)
		}
	}
	return opError("delete", key, err)
}

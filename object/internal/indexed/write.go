package indexed

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/internal/sysclock"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// condition is the condition of a write.
type condition struct {
	ifAbsent bool
	ifMatch  object.Version
}

// check checks the condition against the state of the object.
func (c condition) check(key string, v store.Version) error {
	if c.ifAbsent && v != "" || c.ifMatch != "" && !same(c.ifMatch, v) {
		return &object.ConflictError{Key: key, HasCurrent: true, Version: object.Version(v)}
	}
	return nil
}

// any reports whether there is a condition.
func (c condition) any() bool { return c.ifAbsent || c.ifMatch != "" }

// current is what the index has of a key: an entry, or nothing, without a version.
type current struct {
	entry
	version store.Version
}

func (b *Bucket) current(ctx context.Context, key string, c condition) (current, error) {
	e, v, err := b.load(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return current{}, store.MarkNotApplied(err)
	}
	return current{e, v}, c.check(key, v)
}

// Put implements [object.Bucket]. It checks the condition before it reads the body.
func (b *Bucket) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	var info object.Info
	if err == nil {
		info, err = b.put(ctx, key, body, o)
	}
	if err != nil {
		return object.Info{}, b.opError("put", key, err)
	}
	return info, nil
}

func (b *Bucket) put(ctx context.Context, key string, body io.Reader, o object.PutOptions) (object.Info, error) {
	c := condition{o.IfAbsent, o.IfMatch}
	now, err := b.current(ctx, key, c)
	if err != nil {
		return object.Info{}, err
	}
	e := entry{Key: key, ContentType: cmp.Or(o.ContentType, "application/octet-stream"), Headers: o.Headers, Metadata: maps.Clone(o.Metadata)}
	return b.commit(ctx, e, now, c, func(name string) (int64, error) { return b.bodies.Write(ctx, name, object.CheckedBody(body, o), o) })
}

// commit makes a body and then e, which names it, the entry of its key. now is the state
// of the key, against which the condition was checked.
func (b *Bucket) commit(ctx context.Context, e entry, now current, c condition, fill func(name string) (int64, error)) (object.Info, error) {
	start := sysclock.Read()
	e.File = rand.Text()
	size, err := fill(e.File)
	if err != nil {
		return object.Info{}, store.MarkNotApplied(err)
	}
	e.Size = size
	info, err := b.swap(ctx, e, now, c, start)
	if err != nil && store.OutcomeOf(err) == store.NotApplied {
		b.bodies.Remove(ctx, e.File)
	}
	// With an unknown outcome the register may name the body, now or later.
	return info, err
}

// swap makes e the entry of its key, and removes the body that it replaces. Without a
// condition it retries after a conflict.
func (b *Bucket) swap(ctx context.Context, e entry, now current, c condition, start sysclock.Reading) (object.Info, error) {
	for {
		if start.Elapsed() > b.orphanAge/2 {
			return object.Info{}, store.MarkNotApplied(fmt.Errorf("the put took longer than %v (half of the orphan age), so a sweep may have removed its body; put the object again, or use a longer orphan age", b.orphanAge/2))
		}
		e.Modified = time.Now().UTC()
		value, err := json.Marshal(e)
		if err != nil {
			return object.Info{}, store.MarkNotApplied(err)
		}
		v, err := b.index.Put(ctx, register(e.Key), now.version, value)
		if err == nil {
			if now.File != e.File {
				b.remove(ctx, now.File)
			}
			return b.info(e, v), b.late(ctx, e, start)
		}
		if !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied {
			return object.Info{}, Bare(err)
		}
		if c.any() {
			return object.Info{}, conflict(e.Key, err)
		}
		if now, err = b.current(ctx, e.Key, c); err != nil {
			return object.Info{}, err
		}
	}
}

func (b *Bucket) remove(ctx context.Context, name string) {
	if name != "" {
		b.bodies.Remove(ctx, name)
	}
}

// late checks that the body was not swept, after a swap that took longer than the orphan age:
// the process may have been stopped meanwhile.
func (b *Bucket) late(ctx context.Context, e entry, start sysclock.Reading) error {
	if start.Elapsed() <= b.orphanAge {
		return nil
	}
	if there, err := b.bodies.Exists(ctx, e.File); err != nil || !there {
		return store.MarkUnknown(fmt.Errorf("%w: the put took longer than %v, and a sweep has removed its body; put the object again", store.ErrCorrupt, b.orphanAge))
	}
	return nil
}

// conflict turns a conflict of the index into one of the bucket.
func conflict(key string, err error) error {
	c := &object.ConflictError{Key: key}
	var known *store.ConflictError
	if errors.As(err, &known) && known.HasCurrent {
		c.HasCurrent, c.Version = true, object.Version(known.Version)
	}
	return c
}

// Copy implements [object.Copier]. If source and destination are the same, Copy changes the
// metadata and writes no body.
func (b *Bucket) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o, err := object.CheckCopy(source, destination, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err != nil {
		return object.Info{}, b.opError("copy", source, err)
	}
	for {
		info, about, err := b.copy(ctx, source, destination, o)
		switch {
		case err == nil:
			o.Progress.Report(info.Size, info.Size)
			return info, nil
		case errors.Is(err, errAgain):
			continue
		}
		return object.Info{}, b.opError("copy", about, err)
	}
}

// errAgain says that the source of a copy was replaced while it was copied.
var errAgain = errors.New("the source has changed")

// copy is one try of Copy. It also returns the key that an error is about.
func (b *Bucket) copy(ctx context.Context, source, destination string, o object.CopyOptions) (object.Info, string, error) {
	from, v, err := b.loadIf(ctx, source, object.GetOptions{IfMatch: o.SourceIfMatch})
	if err != nil {
		return object.Info{}, source, store.MarkNotApplied(err)
	}
	e := entry{Key: destination, Size: from.Size, ContentType: from.ContentType, Headers: from.Headers, Metadata: from.Metadata}
	if o.Metadata != nil {
		e.Metadata, e.ContentType, e.Headers = maps.Clone(o.Metadata), cmp.Or(o.ContentType, "application/octet-stream"), o.Headers
	}
	c := condition{o.IfAbsent, o.IfMatch}
	if source == destination {
		return b.rewrite(ctx, e, current{from, v}, c, o.SourceIfMatch != "")
	}
	now, err := b.current(ctx, destination, c)
	if err != nil {
		return object.Info{}, destination, err
	}
	gone := false
	info, err := b.commit(ctx, e, now, c, func(name string) (int64, error) {
		err := b.bodies.Copy(ctx, from.File, name, from.Size, o.Progress)
		gone = errors.Is(err, store.ErrNotFound)
		return from.Size, err
	})
	if gone {
		// The source was replaced, or deleted, and its body removed.
		if _, again, loadErr := b.load(ctx, source); loadErr == nil && again == v {
			return object.Info{}, source, store.MarkNotApplied(fmt.Errorf("%w: the body of the object is missing: %v", store.ErrCorrupt, err))
		}
		return object.Info{}, source, errAgain
	}
	return info, destination, err
}

// rewrite gives an object another entry with the same body. That is only right in the
// state now, which names the body.
func (b *Bucket) rewrite(ctx context.Context, e entry, now current, c condition, conditional bool) (object.Info, string, error) {
	if err := c.check(e.Key, now.version); err != nil {
		return object.Info{}, e.Key, err
	}
	e.File = now.File
	info, err := b.swap(ctx, e, now, condition{ifMatch: object.Version(now.version)}, sysclock.Read())
	if !conditional && !c.any() && errors.As(err, new(*object.ConflictError)) {
		err = errAgain
	}
	return info, e.Key, err
}

// Delete implements [object.Bucket].
func (b *Bucket) Delete(ctx context.Context, key string, opts *object.DeleteOptions) error {
	o, err := object.CheckDelete(key, opts)
	if err == nil {
		err = store.CheckContext(ctx)
	}
	if err == nil {
		err = b.delete(ctx, key, condition{ifMatch: o.IfMatch})
	}
	var conflict *object.ConflictError
	if o.OrAbsent && errors.As(err, &conflict) && conflict.HasCurrent && conflict.Version == "" {
		err = nil
	}
	return b.opError("delete", key, err)
}

func (b *Bucket) delete(ctx context.Context, key string, c condition) error {
	for {
		now, err := b.current(ctx, key, c)
		if err != nil || now.version == "" {
			return err
		}
		err = b.index.Delete(ctx, register(key), now.version)
		switch {
		case err == nil:
			b.remove(ctx, now.File)
			return nil
		case !errors.Is(err, store.ErrConflict) || store.OutcomeOf(err) != store.NotApplied:
			return Bare(err)
		case c.any():
			return conflict(key, err)
		}
		// Another writer was faster: retry.
	}
}

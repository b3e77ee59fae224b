package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// defaultUpdateLimit is the default of [UpdateOptions].Limit, in bytes: 64 MiB.
const defaultUpdateLimit = 64 << 20

// UpdateOptions are the options of [Client.Update].
type UpdateOptions struct {
	// Limit is the largest body that is read, in bytes; 0 means 64 MiB. For a
	// larger one the error matches [store.ErrTooLarge].
	Limit int64

	// Fence and Force are those of [WriteOptions].
	Fence *Fence
	Force bool

	// Metadata and ContentType replace those of the object. Nil keeps both.
	ContentType string
	Metadata    map[string]string

	// Headers replace those of the object; one that is empty stays as it is.
	Headers Headers
}

// Update reads an object, passes its body to change, and puts what change returns, if the
// object still is in the state that was read. If another writer was faster, Update starts
// again after a growing random pause, until the context ends. It returns the state that it
// wrote or left.
//
// change gets the body and the description of the object. Where there is no object, it gets a
// nil body and a zero Info. Update may call it several times. If change returns
// [store.ErrUnchanged], Update writes nothing and returns nil. If it returns another error,
// Update writes nothing and returns that error.
//
// The outcomes are those of [Client.Put], except that Update does not return a conflict. It
// does not try again after an unknown outcome. Update costs a Get and a Put, and after a
// conflict a Stat and the same again. It keeps the body in memory.
func (c *Client) Update(ctx context.Context, key string, change func(body []byte, info Info) ([]byte, error), opts *UpdateOptions) (Info, error) {
	var o UpdateOptions
	if opts != nil {
		o = *opts
	}
	info, err := c.update(ctx, key, change, o)
	return info, opError("update", key, err)
}

func (c *Client) update(ctx context.Context, key string, change func([]byte, Info) ([]byte, error), o UpdateOptions) (Info, error) {
	if o.Limit == 0 {
		o.Limit = defaultUpdateLimit
	}
	w := WriteOptions{Fence: o.Fence, Force: o.Force, Metadata: o.Metadata, ContentType: o.ContentType, Headers: o.Headers}
	if err := w.check(key); err != nil {
		return Info{}, err
	}
	if o.Limit < 0 || o.Metadata == nil && o.ContentType != "" {
		return Info{}, fmt.Errorf("%w: UpdateOptions has a negative Limit, or a ContentType without Metadata (which replaces both)", ErrInvalid)
	}
	for try := 1; ; try++ {
		body, now, err := ReadAll(ctx, c.bucket, key, o.Limit, nil)
		absent := errors.Is(err, store.ErrNotFound)
		if err != nil && !absent {
			return Info{}, store.MarkNotApplied(bare(err))
		}
		write := w
		seen := Info{}
		if absent {
			write.IfAbsent = true
		} else {
			now = withWriteInfo(now)
			write.Base = &now
			if now.WriteInfo.Deleted {
				body = nil
			} else {
				seen = now
			}
			if !now.WriteInfo.Deleted {
				write.Headers = o.Headers.Or(now.Headers)
			}
			if o.Metadata == nil && !now.WriteInfo.Deleted {
				write.Metadata, write.ContentType = now.Metadata, now.ContentType
			}
		}
		body, err = change(body, seen)
		if errors.Is(err, store.ErrUnchanged) {
			return seen, nil
		}
		if err != nil {
			return Info{}, store.MarkNotApplied(err)
		}
		info, err := c.put(ctx, key, bytes.NewReader(body), write)
		again := store.OutcomeOf(err) == store.NotApplied && (errors.Is(err, store.ErrConflict) || errors.Is(err, ErrBusy))
		if !again {
			return info, err
		}
		if !sleep(ctx, c.o.Pause, try) {
			return Info{}, store.MarkNotApplied(fmt.Errorf("%w; %w", err, context.Cause(ctx)))
		}
	}
}

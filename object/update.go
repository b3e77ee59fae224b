package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
)

// updateLimit is the largest body that [Client.Update] reads, in bytes.
const updateLimit = 64 << 20

// Update reads an object, passes its body to the function change, and puts the result. The put is
// conditional on the state that Update has read. If another writer was faster, Update starts again
// after a growing random pause, until the context ends. Update returns the state that it wrote. If
// it wrote nothing, it returns the state that it read.
//
// The function change gets the body and the Info of the object. If there is no object, the function
// gets a nil body and a zero Info. Update may call the function several times. If the function
// returns [store.ErrUnchanged], Update writes nothing and returns a nil error. If the function
// returns another error, Update writes nothing and returns that error.
//
// Update has the same outcomes as [Client.Put], except that it returns no conflict. It does not try
// again after an unknown outcome. Update costs a Get and a Put. Each conflict costs a Stat, a Get
// and a Put more. Update keeps the body in memory. If the body is larger than 64 MiB, the error
// matches [store.ErrTooLarge].
//
// If the options have a Metadata, the Metadata and ContentType of the options replace the values of
// the object. If Metadata is nil, the object keeps both values. Each header that is set in the
// options replaces the same header of the object. The options must not have a condition, Length or
// OnUpload.
func (c *Client) Update(ctx context.Context, key string, change func(body []byte, info Info) ([]byte, error), opts *WriteOptions) (Info, error) {
	return traced(ctx, c, "update", key, func(ctx context.Context) (Info, error) { return c.update(ctx, key, change, options(opts)) })
}

func (c *Client) update(ctx context.Context, key string, change func([]byte, Info) ([]byte, error), o WriteOptions) (Info, error) {
	if err := o.check(key); err != nil {
		return Info{}, err
	}
	if o.IfAbsent || o.IfMatch != "" || o.Base != nil || o.SourceIfMatch != "" || o.Length != 0 || o.OnUpload != nil {
		return Info{}, fmt.Errorf("%w: an update cannot have IfAbsent, IfMatch, Base, SourceIfMatch, Length or OnUpload", ErrInvalid)
	}
	if o.Metadata == nil && o.ContentType != "" {
		return Info{}, fmt.Errorf("%w: the options of an update have ContentType, but no Metadata: the two are replaced together, so give both", ErrInvalid)
	}
	for try := 1; ; try++ {
		body, now, err := ReadAll(ctx, c.bucket, key, updateLimit, nil)
		absent := errors.Is(err, store.ErrNotFound)
		if err != nil && !absent {
			return Info{}, store.MarkNotApplied(bare(err))
		}
		write := o
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
		if !surpassed(err) {
			return info, err
		}
		if !sleep(ctx, c.o.pause, try) {
			return Info{}, store.MarkNotApplied(fmt.Errorf("%w; the last attempt: %v", store.Cause(ctx), err))
		}
	}
}

// surpassed reports whether a write was certainly not applied, because of the write of another writer.
func surpassed(err error) bool {
	return store.OutcomeOf(err) == store.NotApplied && (errors.Is(err, store.ErrConflict) || errors.Is(err, ErrBusy))
}

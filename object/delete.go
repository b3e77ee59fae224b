package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/store"
)

// A tombstone is an object of this size, so that a listing need not look at others.
const (
	tombstoneBody = "Keep: a fence of Holdfast " // before the id of the write, so that no two are equal
	tombstoneSize = int64(len(tombstoneBody)) + idSize + 1
	tombstoneType = "text/plain"
)

// Delete removes an object. Without a condition, the delete of an absent object succeeds. The
// options must not have IfAbsent, ContentType, Headers or Metadata.
//
// With a fence, Delete leaves a tombstone with the fence: a small object that a client treats as
// absent. So an earlier holder of the lock cannot create the object again, but the present holder
// can. A delete with Force also removes the tombstone.
//
//   - nil: the object is deleted.
//   - [store.ErrConflict]: the condition did not hold, and nothing was deleted.
//   - [ErrFenced]: the fence of the object refuses this delete, and nothing was deleted.
//   - unknown: the object does not exist any more, and the reply was lost or the store refused the
//     delete. No request can find out whether this delete or another delete has removed the object.
//     After a lost reply, the client repeats only a delete without a condition.
//
// A delete needs the same requests as a [Client.Put].
func (c *Client) Delete(ctx context.Context, key string, opts *WriteOptions) error {
	_, err := traced(ctx, c, "delete", key, func(ctx context.Context) (struct{}, error) {
		o := options(opts)
		err := o.check(key)
		if err == nil && (o.IfAbsent || o.SourceIfMatch != "" || o.ContentType != "" || o.Headers != (Headers{}) || o.Metadata != nil) {
			err = fmt.Errorf("%w: a delete cannot have IfAbsent, SourceIfMatch, ContentType, Headers or Metadata", ErrInvalid)
		}
		if err == nil {
			err = c.delete(ctx, key, o)
		}
		return struct{}{}, err
	})
	return err
}

func (c *Client) delete(ctx context.Context, key string, o WriteOptions) error {
	if o.Fence != nil {
		_, err := c.bury(ctx, key, o)
		return err
	}
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	w := &write{c: c, key: key, o: o}
	for try := 1; ; try++ {
		on, err := w.expected(ctx, nil)
		conditional := o.IfMatch != "" || o.Base != nil
		if on.absent || on.info.WriteInfo.Deleted && !o.Force && !conditional {
			return nil // a tombstone stays
		}
		if err != nil {
			return store.MarkNotApplied(err)
		}
		err = c.remove(ctx, key, on, o.orAbsent)
		if !conditional && store.OutcomeOf(err) == store.Unknown {
			// Without a condition it is done once the object does not exist.
			if now, lookErr := c.current(ctx, key); lookErr == nil && (now.absent || now.info.WriteInfo.Deleted) {
				return nil
			}
		}
		if conditional || store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) || !sleep(ctx, c.o.pause, try) {
			return err
		}
	}
}

// bury leaves a tombstone in the place of the object.
func (c *Client) bury(ctx context.Context, key string, o WriteOptions) (Info, error) {
	o.ContentType, o.Length, o.Progress, o.OnUpload = tombstoneType, 0, nil, nil
	w := &write{c: c, key: key, o: o, deleted: true, rewind: func() bool { return true }}
	w.choose = func(ctx context.Context, on condition) (way, error) { return c.wayOfPut(ctx, on, true) }
	w.send = func(ctx context.Context, by way, on condition, metadata map[string]string) (Info, error) {
		return c.bucket.Put(ctx, key, strings.NewReader(tombstoneBody+metadata[ReservedMetadata+nameWrite]+"\n"), w.o.put(by, on, metadata))
	}
	return w.run(ctx)
}

// remove removes the state on, and finds the outcome. With orAbsent it also succeeds where
// there is no object.
func (c *Client) remove(ctx context.Context, key string, on state, orAbsent bool) error {
	by, err := c.wayOfDelete(ctx, on.condition(), orAbsent)
	if err != nil {
		return store.MarkNotApplied(err)
	}
	if by.strategy != StrategyReservation {
		return c.removeBy(ctx, ctx, key, on, by, orAbsent)
	}
	return c.reserve(ctx, key, on, func(reserved context.Context) error {
		return c.removeBy(ctx, reserved, key, on, by, orAbsent)
	})
}

// removeBy sends the delete until its outcome is known, or cannot become known. It sends
// within the context sending, and finds out within ctx, which may last longer.
func (c *Client) removeBy(ctx, sending context.Context, key string, on state, by way, orAbsent bool) error {
	var opts *DeleteOptions
	if by.own && !on.any {
		opts = &DeleteOptions{IfMatch: on.version(), OrAbsent: orAbsent}
	}
	var lost error
	failed := func(err error) error {
		if lost == nil {
			return err
		}
		return store.MarkUnknown(fmt.Errorf("%w; then: %v", lost, err))
	}
	for try := 1; ; try++ {
		err := bare(c.bucket.Delete(sending, key, opts))
		certain := store.OutcomeOf(err) == store.NotApplied
		busy := certain && errors.Is(err, ErrBusy)
		conflict := certain && errors.Is(err, store.ErrConflict) && !busy
		switch {
		case err == nil:
			return nil
		case certain && !conflict && !busy:
			return failed(err)
		case !certain:
			lost = err
		}
		if !busy {
			var again bool
			if again, err = c.removed(ctx, key, on, by, orAbsent, err, lost); !again {
				return err
			}
		}
		if try >= c.o.tries || !sleep(sending, c.o.pause, try) {
			return failed(err)
		}
	}
}

// removed finds the outcome of a delete that failed with cause. It reports whether to send
// the delete again.
func (c *Client) removed(ctx context.Context, key string, on state, by way, orAbsent bool, cause, lost error) (again bool, err error) {
	if on.any {
		return true, cause
	}
	unknown := func(err error) error { return store.MarkUnknown(fmt.Errorf("%w; then: %v", lost, err)) }
	now, err := c.readState(ctx, key)
	switch {
	case err != nil && lost == nil:
		return false, store.MarkUnknown(fmt.Errorf("the store refused the delete, and the client could not read the object to find out why: %w", err))
	case err != nil:
		return false, unknown(fmt.Errorf("the client could not read the object to find the outcome: %w", err))
	case orAbsent && now.absent:
		return false, nil
	case c.same(now, on) && (by.own || !by.conditional):
		return true, cause
	case c.same(now, on):
		return false, unknown(errors.New("the delete was not applied yet, but may still be applied"))
	case lost == nil && now.absent && !TraitsOf(c.bucket).Local:
		// A proxy may have repeated the request, and its first copy removed the object.
		return false, store.MarkUnknown(errors.New("the store refused the last attempt of the delete, but the object no longer exists: an earlier attempt or another program has removed it"))
	case lost == nil, by.own && c.fencing && on.info.WriteInfo.ID != "" && slices.Contains(now.info.WriteInfo.Previous, on.info.WriteInfo.ID):
		return false, &ConflictError{Key: key, HasCurrent: true, Version: now.version()}
	case now.absent:
		return false, unknown(errors.New("the object no longer exists: this delete or another program has removed it"))
	}
	return false, unknown(errors.New("the object does not show whether the delete was applied"))
}

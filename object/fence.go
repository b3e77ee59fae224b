package object

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// RaiseFence writes a fence to an object, and does not change the rest of the object. A new holder
// of a lock calls RaiseFence before it reads the object. From then on, clients refuse every write
// with a lower token of the lock. The store also refuses a write that an earlier holder has already
// prepared. If the object does not exist, RaiseFence leaves a tombstone with the fence.
//
// RaiseFence returns the state with the fence, which can be the Base of a write. WriteInfo.Deleted
// of the result says whether the object is a tombstone. If the object already has this token,
// RaiseFence writes nothing. If the object has a higher token or the fence of another lock, the
// error matches [ErrFenced].
//
// RaiseFence needs a bucket with unique versions ([Traits].UniqueVersions). On other buckets it
// returns an [UnsupportedError]: there, a raised fence does not change the version, so the
// condition of a prepared write still holds. Package indexbucket gives every bucket unique
// versions.
//
// RaiseFence sends two requests (stat and copy). It has the same outcomes as [Client.Put]. After a
// conflict RaiseFence tries again until the context ends.
func (c *Client) RaiseFence(ctx context.Context, key string, fence Fence) (Info, error) {
	return traced(ctx, c, "put", key, func(ctx context.Context) (Info, error) {
		return c.raiseFence(ctx, key, WriteOptions{Fence: &fence})
	})
}

func (c *Client) raiseFence(ctx context.Context, key string, o WriteOptions) (Info, error) {
	if err := o.check(key); err != nil {
		return Info{}, err
	}
	if !TraitsOf(c.bucket).UniqueVersions {
		return Info{}, &UnsupportedError{Ability: Fenced, Found: "on this store equal bodies have equal versions, so a higher fence would not change the version; use a bucket of package indexbucket"}
	}
	for try := 1; ; try++ {
		now, err := c.current(ctx, key)
		if err != nil {
			return Info{}, store.MarkNotApplied(err)
		}
		if err := now.info.WriteInfo.allows(key, o.Fence); err != nil {
			return Info{}, err
		}
		raised := o
		var info Info
		switch {
		case now.info.WriteInfo.Fence != nil && now.info.WriteInfo.Fence.Token == o.Fence.Token:
			return now.info, nil
		case now.absent:
			raised.IfAbsent = true
			info, err = c.bury(ctx, key, raised)
		default:
			raised.Base, raised.own, raised.from = &now.info, now.info.WriteInfo.own, now.info.WriteInfo.From
			w := c.transfer(ctx, now.info, key, raised)
			w.deleted = now.info.WriteInfo.Deleted
			info, err = w.run(ctx)
		}
		if store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) || !sleep(ctx, c.o.pause, try) {
			return info, err
		}
	}
}

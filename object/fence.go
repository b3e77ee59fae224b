package object

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/store"
)

// RaiseFence puts a fence on an object, and changes nothing else of it. A new holder of a
// lock calls it before it reads what it is going to change: from then on every write with
// a lower token of the lock is refused, atomically, also one that its holder had prepared
// before. On an object that does not exist it leaves a tombstone with the fence.
//
// It returns the state that carries the fence, which can be the Base of a write; Stamp
// tells whether it is a tombstone. Where the object carries this token already, RaiseFence
// writes nothing. A higher token, or that of another lock, is [ErrFenced].
//
// It needs a bucket whose versions are never used twice ([Traits].UniqueVersions) and is
// refused on others with an [UnsupportedError]: where equal bodies have equal versions, the
// condition of a write that was prepared before would still hold. Package indexbucket keeps
// objects on such a store under unique versions.
//
// It is two requests (stat and copy); the outcomes are those of [Client.Put], but for a
// conflict, after which it tries again until the context ends.
func (c *Client) RaiseFence(ctx context.Context, key string, fence Fence) (Info, error) {
	info, err := c.raiseFence(ctx, key, WriteOptions{Fence: &fence})
	return info, opError("put", key, err)
}

func (c *Client) raiseFence(ctx context.Context, key string, o WriteOptions) (Info, error) {
	if err := o.check(key); err != nil {
		return Info{}, err
	}
	if !TraitsOf(c.bucket).UniqueVersions {
		return Info{}, &UnsupportedError{Ability: Fenced, Found: "equal bodies have equal versions here, so that raising a fence would not change the version"}
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
		if store.OutcomeOf(err) != store.NotApplied || !errors.Is(err, store.ErrConflict) || !sleep(ctx, c.o.Pause, try) {
			return info, err
		}
	}
}

package store

import (
	"context"
)

// UnsyncedPutter is a store with a cheaper Put that need not survive the loss of the
// machine's power. It is as atomic and as visible to others as Put, and the next durable
// write makes it durable too. Package lease renews leases with it.
type UnsyncedPutter interface {
	PutUnsynced(ctx context.Context, key string, prev Version, value []byte) (Version, error)
}

// PutUnsynced calls the method of s if s is an [UnsyncedPutter], else Put.
func PutUnsynced(ctx context.Context, s Store, key string, prev Version, value []byte) (Version, error) {
	if v, ok := As[UnsyncedPutter](s); ok {
		return v.PutUnsynced(ctx, key, prev, value)
	}
	return s.Put(ctx, key, prev, value)
}

// OpPutUnsynced is the operation of [UnsyncedPutter].
const OpPutUnsynced Kind = "put-unsynced"

func unsyncedAbility() ability {
	return abilityOf("UnsyncedPutter", OpPutUnsynced, func(s *intercepted, a UnsyncedPutter) UnsyncedPutter {
		return interceptedUnsynced{s, putHandler(a.PutUnsynced)}
	})
}

type interceptedUnsynced struct {
	s   *intercepted
	put Handler
}

func (w interceptedUnsynced) PutUnsynced(ctx context.Context, key string, prev Version, value []byte) (Version, error) {
	op := &Op{Kind: OpPutUnsynced, Key: key, Prev: prev, Value: value}
	err := w.s.f(ctx, op, w.put)
	return op.Version, err
}

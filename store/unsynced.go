package store

import (
	"context"
)

// UnsyncedPutter is a store that also has a cheaper Put: its write may be lost if the
// machine loses power. In all other respects, this write is like the write of Put. The
// next durable write makes it durable too. Package lease renews leases with PutUnsynced.
type UnsyncedPutter interface {
	PutUnsynced(ctx context.Context, key string, prev Version, value []byte) (Version, error)
}

// If s is an [UnsyncedPutter], PutUnsynced calls its method. Otherwise it calls Put.
func PutUnsynced(ctx context.Context, s Store, key string, prev Version, value []byte) (Version, error) {
	if v, ok := As[UnsyncedPutter](s); ok {
		return v.PutUnsynced(ctx, key, prev, value)
	}
	return s.Put(ctx, key, prev, value)
}

// OpPutUnsynced is the operation of [UnsyncedPutter].
const OpPutUnsynced Kind = "put-unsynced"

type interceptedUnsynced struct {
	s   *intercepted
	put Handler
}

func (w interceptedUnsynced) PutUnsynced(ctx context.Context, key string, prev Version, value []byte) (Version, error) {
	op := &Op{Kind: OpPutUnsynced, Key: key, Prev: prev, Value: value}
	err := w.s.f(ctx, op, w.put)
	return op.Version, err
}

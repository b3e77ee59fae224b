package store

import (
	"context"
)

// VolatilePutter is a store with a cheaper Put that need not survive the loss of the
// machine's power. It is as atomic and as visible to others as Put, and the next durable
// write makes it durable too. Leases are renewed with it.
type VolatilePutter interface {
	PutVolatile(ctx context.Context, key string, prev Version, value []byte) (Version, error)
}

// PutVolatile is Put without durability where s offers it, and Put elsewhere.
func PutVolatile(ctx context.Context, s Store, key string, prev Version, value []byte) (Version, error) {
	if v, ok := As[VolatilePutter](s); ok {
		return v.PutVolatile(ctx, key, prev, value)
	}
	return s.Put(ctx, key, prev, value)
}

// OpPutVolatile is the operation of [VolatilePutter].
const OpPutVolatile Kind = "put-volatile"

func volatileAbility() ability {
	return abilityOf("VolatilePutter", OpPutVolatile, func(s *intercepted, a VolatilePutter) VolatilePutter { return interceptedVolatile{s, a} })
}

type interceptedVolatile struct {
	s *intercepted
	a VolatilePutter
}

func (w interceptedVolatile) PutVolatile(ctx context.Context, key string, prev Version, value []byte) (Version, error) {
	return w.s.put(ctx, OpPutVolatile, w.a.PutVolatile, key, prev, value)
}

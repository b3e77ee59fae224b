package store

import (
	"context"
)

// TokenFloorer is a store in which writes that never took effect leave traces.
type TokenFloorer interface {
	// TokenFloor returns an upper bound of the fencing tokens in all writes to key, those
	// that never took effect included.
	TokenFloor(ctx context.Context, key string) (uint64, error)
}

// OpTokenFloor is the operation of [TokenFloorer].
const OpTokenFloor Kind = "token-floor"

func floorerAbility() ability {
	return abilityOf("TokenFloorer", OpTokenFloor, func(s *intercepted, a TokenFloorer) TokenFloorer { return interceptedFloorer{s, a} })
}

type interceptedFloorer struct {
	s *intercepted
	a TokenFloorer
}

func (w interceptedFloorer) TokenFloor(ctx context.Context, key string) (uint64, error) {
	op := &Op{Kind: OpTokenFloor, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Floor, err = w.a.TokenFloor(ctx, op.Key)
		return err
	})
	return op.Floor, err
}

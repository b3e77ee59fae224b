package store

import (
	"context"
)

// TokenFloorer is a store that keeps traces of writes which never took effect.
type TokenFloorer interface {
	// TokenFloor returns a number that no fencing token seen in any write to key,
	// effective or not, exceeds.
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

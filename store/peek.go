package store

import (
	"context"
)

// Peeker is a store whose Get waits until the state that it read is final, and that can
// also read without that wait.
type Peeker interface {
	// Peek returns a state that may later turn out never to have taken effect. Use it
	// only to watch a register, and as the state that a conditional write names.
	Peek(ctx context.Context, key string) ([]byte, Version, error)
}

// Peek reads without waiting where s is a [Peeker], and is Get elsewhere.
func Peek(ctx context.Context, s Store, key string) ([]byte, Version, error) {
	if p, ok := As[Peeker](s); ok {
		return p.Peek(ctx, key)
	}
	return s.Get(ctx, key)
}

// OpPeek is the operation of [Peeker].
const OpPeek Kind = "peek"

func peekerAbility() ability {
	return abilityOf("Peeker", OpPeek, func(s *intercepted, a Peeker) Peeker { return interceptedPeeker{s, a} })
}

type interceptedPeeker struct {
	s *intercepted
	a Peeker
}

func (w interceptedPeeker) Peek(ctx context.Context, key string) ([]byte, Version, error) {
	op := &Op{Kind: OpPeek, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, err = w.a.Peek(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, err
}

package store

import (
	"context"
)

// Peeker is a store whose Get waits until what it read is certain, and that can
// also look without waiting.
type Peeker interface {
	// Peek returns a state that may yet turn out not to have happened. It is good
	// for watching and as the base of a conditional write, and for nothing else.
	Peek(ctx context.Context, key string) ([]byte, Version, error)
}

// Peek looks without waiting where s offers it, and is Get elsewhere.
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

package store

import "context"

// Settler is a store that finds out what became of its writes from more than the current
// state: from a history that it keeps, for example.
type Settler interface {
	// Settle does what the function [Settle] describes.
	Settle(ctx context.Context, key string, prev Version, writes ...Version) (Settlement, error)
}

// OpSettle is the operation of [Settler].
const OpSettle Kind = "settle"

func settlerAbility() ability {
	return abilityOf("Settler", OpSettle, func(s *intercepted, a Settler) Settler { return interceptedSettler{s, a} })
}

type interceptedSettler struct {
	s *intercepted
	a Settler
}

func (w interceptedSettler) Settle(ctx context.Context, key string, prev Version, writes ...Version) (Settlement, error) {
	op := &Op{Kind: OpSettle, Key: key, Prev: prev, Writes: writes}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Settled, err = w.a.Settle(ctx, op.Key, op.Prev, op.Writes...)
		return err
	})
	op.Settled.Current.Key = key
	return op.Settled, err
}

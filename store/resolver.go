package store

import "context"

// Resolver is a store that can resolve more writes in doubt than a Get can. For example, it has a
// history of the writes.
type Resolver interface {
	// Resolve returns the results that are described at the function [Resolve].
	Resolve(ctx context.Context, key string, prev Version, writes ...Version) (ResolveResult, error)
}

// OpResolve is the operation of [Resolver].
const OpResolve Kind = "resolve"

type interceptedResolver interceptedAbility[Resolver]

func (w interceptedResolver) Resolve(ctx context.Context, key string, prev Version, writes ...Version) (ResolveResult, error) {
	op := &Op{Kind: OpResolve, Key: key, Prev: prev, Writes: writes}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Resolved, err = w.a.Resolve(ctx, op.Key, op.Prev, op.Writes...)
		return err
	})
	op.Resolved.Current.Key = key
	return op.Resolved, err
}

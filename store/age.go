package store

import (
	"context"
	"time"
)

// AgeReader is a store that knows, by its own clock, how long ago a value was written.
type AgeReader interface {
	// GetAge does the same as Get, and also returns the time for which the value has
	// certainly been unchanged. This age is a lower bound: the granularity and the possible
	// error of the store's clock are subtracted. A negative age means that the store does
	// not know the age now.
	GetAge(ctx context.Context, key string) (value []byte, v Version, age time.Duration, err error)
}

// OpGetAge is the operation of [AgeReader].
const OpGetAge Kind = "get-age"

type interceptedAgeReader interceptedAbility[AgeReader]

func (w interceptedAgeReader) GetAge(ctx context.Context, key string) ([]byte, Version, time.Duration, error) {
	op := &Op{Kind: OpGetAge, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, op.Age, err = w.a.GetAge(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, op.Age, err
}

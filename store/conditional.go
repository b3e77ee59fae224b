package store

import (
	"context"
)

// ConditionalGetter is a store that can report that a register has not changed, without sending
// the value.
type ConditionalGetter interface {
	// If the current version equals seen, GetIfChanged returns a nil value and changed = false.
	// Otherwise it does the same as Get, and returns changed = true.
	GetIfChanged(ctx context.Context, key string, seen Version) (value []byte, v Version, changed bool, err error)
}

// GetIfChanged returns the value of a key only if its version is no longer the one passed as seen;
// see [ConditionalGetter]. If s is not a ConditionalGetter, GetIfChanged calls Get.
func GetIfChanged(ctx context.Context, s Store, key string, seen Version) (value []byte, v Version, changed bool, err error) {
	if c, ok := As[ConditionalGetter](s); ok && seen != "" {
		return c.GetIfChanged(ctx, key, seen)
	}
	value, v, err = s.Get(ctx, key)
	if err == nil && v == seen {
		return nil, v, false, nil
	}
	return value, v, true, err
}

// OpGetIfChanged is the operation of [ConditionalGetter].
const OpGetIfChanged Kind = "get-if-changed"

type interceptedConditional interceptedAbility[ConditionalGetter]

func (w interceptedConditional) GetIfChanged(ctx context.Context, key string, seen Version) ([]byte, Version, bool, error) {
	op := &Op{Kind: OpGetIfChanged, Key: key, Prev: seen}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, op.Changed, err = w.a.GetIfChanged(ctx, op.Key, op.Prev)
		return err
	})
	return op.Value, op.Version, op.Changed, err
}

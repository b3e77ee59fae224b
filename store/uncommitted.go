package store

import (
	"context"
)

// UncommittedGetter is a store whose Get waits until the state that it read is final. It
// can also read without that wait.
type UncommittedGetter interface {
	// GetUncommitted returns a state that may not be final: the store may later find that it
	// never took effect. Use the state only to watch a register, or as the state that a
	// conditional write names.
	GetUncommitted(ctx context.Context, key string) ([]byte, Version, error)
}

// If s is an [UncommittedGetter], GetUncommitted calls its method, which does not wait.
// Otherwise it calls Get.
func GetUncommitted(ctx context.Context, s Store, key string) ([]byte, Version, error) {
	if p, ok := As[UncommittedGetter](s); ok {
		return p.GetUncommitted(ctx, key)
	}
	return s.Get(ctx, key)
}

// OpGetUncommitted is the operation of [UncommittedGetter].
const OpGetUncommitted Kind = "get-uncommitted"

func uncommittedAbility() ability {
	return abilityOf("UncommittedGetter", OpGetUncommitted, func(s *intercepted, a UncommittedGetter) UncommittedGetter { return interceptedUncommitted{s, a} })
}

type interceptedUncommitted struct {
	s *intercepted
	a UncommittedGetter
}

func (w interceptedUncommitted) GetUncommitted(ctx context.Context, key string) ([]byte, Version, error) {
	op := &Op{Kind: OpGetUncommitted, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, err = w.a.GetUncommitted(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, err
}

package store

import "context"

// UncommittedReader is the one ability of a store that delays its writes ([Traits.Delayed]). A
// store of that kind has no conditional writes: it writes, waits, and then finds out whether the
// write was applied. Three rules follow for callers:
//
//   - Get waits until the state that it read is final. GetUncommitted does not wait.
//   - A caller cannot recognise its own write of unknown outcome by reading it back. The caller
//     must treat that write as the write of another program.
//   - Writes that never took effect leave traces. So the store stores the token of each write
//     ([TokenOf]), and HighestToken reads the tokens.
type UncommittedReader interface {
	// GetUncommitted returns a state that may not be final: the store may later find that it
	// never took effect. Use the state only to watch a register, or as the state that a
	// conditional write names.
	GetUncommitted(ctx context.Context, key string) ([]byte, Version, error)

	// HighestToken returns an upper bound of the tokens ([WithToken]) of all writes to the key,
	// including writes that never took effect. It is 0 if no write has a token.
	HighestToken(ctx context.Context, key string) (uint64, error)
}

// If s is an [UncommittedReader], GetUncommitted calls its method, which does not wait.
// Otherwise it calls Get.
func GetUncommitted(ctx context.Context, s Store, key string) ([]byte, Version, error) {
	if r, ok := As[UncommittedReader](s); ok {
		return r.GetUncommitted(ctx, key)
	}
	return s.Get(ctx, key)
}

// If s is an [UncommittedReader], HighestToken calls its method. Otherwise it returns 0: in any
// other store, a write that never took effect leaves no trace.
func HighestToken(ctx context.Context, s Store, key string) (uint64, error) {
	if r, ok := As[UncommittedReader](s); ok {
		return r.HighestToken(ctx, key)
	}
	return 0, nil
}

// WithToken returns a context whose writes carry a token: a number that is higher in each later
// write, such as a fencing token. A store that is not an [UncommittedReader] ignores the token.
func WithToken(ctx context.Context, token uint64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the token that [WithToken] added to a context, or 0 if there is none. An
// [UncommittedReader] calls it in each write.
func TokenOf(ctx context.Context) uint64 {
	token, _ := ctx.Value(tokenKey{}).(uint64)
	return token
}

type tokenKey struct{}

// The operations of [UncommittedReader].
const (
	OpGetUncommitted Kind = "get-uncommitted"
	OpHighestToken   Kind = "highest-token"
)

type interceptedUncommitted interceptedAbility[UncommittedReader]

func (w interceptedUncommitted) GetUncommitted(ctx context.Context, key string) ([]byte, Version, error) {
	op := &Op{Kind: OpGetUncommitted, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, err = w.a.GetUncommitted(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, err
}

func (w interceptedUncommitted) HighestToken(ctx context.Context, key string) (uint64, error) {
	op := &Op{Kind: OpHighestToken, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Token, err = w.a.HighestToken(ctx, op.Key)
		return err
	})
	return op.Token, err
}

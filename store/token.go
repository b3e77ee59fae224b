package store

import "context"

// WithToken returns a context whose writes carry a token: a number that is higher in each later
// write, such as a fencing token. A store that is not a [TokenReader] ignores the token.
func WithToken(ctx context.Context, token uint64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenOf returns the token that [WithToken] added to a context, or 0 if there is none. A
// [TokenReader] calls it in each write.
func TokenOf(ctx context.Context) uint64 {
	token, _ := ctx.Value(tokenKey{}).(uint64)
	return token
}

type tokenKey struct{}

// TokenReader is a store in which writes that never took effect leave traces. It stores the token
// of each write, and other clients can read the tokens of writes that were not applied.
type TokenReader interface {
	// HighestToken returns an upper bound of the tokens ([WithToken]) of all writes to the key,
	// including writes that never took effect. It is 0 if no write has a token.
	HighestToken(ctx context.Context, key string) (uint64, error)
}

// If s is a [TokenReader], HighestToken calls its method. Otherwise it returns 0: in any
// other store, a write that never took effect leaves no trace.
func HighestToken(ctx context.Context, s Store, key string) (uint64, error) {
	if m, ok := As[TokenReader](s); ok {
		return m.HighestToken(ctx, key)
	}
	return 0, nil
}

// OpHighestToken is the operation of [TokenReader].
const OpHighestToken Kind = "highest-token"

func tokenAbility() ability {
	return abilityOf("TokenReader", OpHighestToken, func(s *intercepted, a TokenReader) TokenReader { return interceptedTokenReader{s, a} })
}

type interceptedTokenReader struct {
	s *intercepted
	a TokenReader
}

func (w interceptedTokenReader) HighestToken(ctx context.Context, key string) (uint64, error) {
	op := &Op{Kind: OpHighestToken, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Token, err = w.a.HighestToken(ctx, op.Key)
		return err
	})
	return op.Token, err
}

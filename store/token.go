package store

import "context"

// WithToken returns a context whose writes carry a mark: a number that the caller raises
// from write to write, such as a fencing token. Stores that are no [TokenReader] ignore it.
func WithToken(ctx context.Context, mark uint64) context.Context {
	return context.WithValue(ctx, tokenKey{}, mark)
}

// TokenOf returns the mark of the writes under ctx; 0 where there is none. A [TokenReader]
// asks it in each write.
func TokenOf(ctx context.Context) uint64 {
	mark, _ := ctx.Value(tokenKey{}).(uint64)
	return mark
}

type tokenKey struct{}

// TokenReader is a store in which writes that never took effect leave traces: it keeps the
// mark of each write, and shows others the marks of writes that lost.
type TokenReader interface {
	// HighestToken returns an upper bound of the marks ([WithToken]) of all writes to key,
	// those included that never took effect. It is 0 where no write has a mark.
	HighestToken(ctx context.Context, key string) (uint64, error)
}

// HighestToken returns that of s, and 0 for a store that is no [TokenReader]: there, writes
// without an effect leave nothing.
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

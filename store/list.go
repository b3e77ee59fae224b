package store

import (
	"context"
	"errors"
	"iter"
)

// Lister is a store that can list its keys.
type Lister interface {
	// List yields each key below prefix once, in no particular order. A prefix is empty (all keys)
	// or a valid key: "a/b" lists "a/b/c" and "a/b/c/d", but neither "a/b" nor "a/bc". Deleted keys
	// are hidden. A key that exists during the whole listing is yielded. If a key is created or
	// deleted during the listing, List may or may not yield it. The listing ends after an error.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// List yields the keys of the store s below a prefix; see [Lister]. If the store cannot list, List
// yields one error that matches [errors.ErrUnsupported].
func List(ctx context.Context, s Store, prefix string) iter.Seq2[string, error] {
	l, ok := As[Lister](s)
	if !ok {
		return failed[string](errors.Join(errors.New("this store cannot list its keys"), errors.ErrUnsupported))
	}
	return l.List(ctx, prefix)
}

// OpList is the operation of [Lister].
const OpList Kind = "list"

type interceptedLister interceptedAbility[Lister]

func (w interceptedLister) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return listing(ctx, w.s, OpList, prefix, w.a.List, func(op *Op) *iter.Seq2[string, error] { return &op.Keys })
}

// listing passes a listing through the handler of s. The function of gives the place of the result in the operation.
func listing[T any](ctx context.Context, s *intercepted, kind Kind, prefix string, list func(context.Context, string) iter.Seq2[T, error], of func(*Op) *iter.Seq2[T, error]) iter.Seq2[T, error] {
	op := &Op{Kind: kind, Key: prefix}
	err := s.f(ctx, op, func(ctx context.Context, op *Op) error {
		*of(op) = list(ctx, op.Key)
		return nil
	})
	if err != nil {
		return failed[T](err)
	}
	return *of(op)
}

// failed is a listing that yields an error and ends.
func failed[T any](err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

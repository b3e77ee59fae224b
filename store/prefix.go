package store

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// Prefix returns a store with only those keys of s that are below a prefix. The result has the
// abilities of s. The prefix must be a valid key. If the prefix is empty, the result is s itself.
// The prefix, the slash and the key together are at most [MaxKey] bytes.
func Prefix(s Store, prefix string) (Store, error) {
	if prefix == "" {
		return s, nil
	}
	if err := CheckKey(prefix); err != nil {
		return nil, fmt.Errorf("prefix: %w", err)
	}
	below := prefix + "/"
	prefixed := newIntercepted(s, func(ctx context.Context, op *Op, next Handler) error {
		if op.Kind.Lists() {
			return prefixList(ctx, op, next, below)
		}
		// The key is checked before it is joined, so that "" or "../x" can't reach
		// a key outside the prefix.
		if err := CheckKey(op.Key); err != nil {
			return err
		}
		joined := *op
		joined.Key = below + op.Key
		err := next(ctx, &joined)
		joined.Key = op.Key
		*op = joined
		return trimKey(err, below)
	})
	prefixed.below = below
	return prefixed, nil
}

func prefixList(ctx context.Context, op *Op, next Handler, below string) error {
	joined := *op
	joined.Key = strings.TrimSuffix(below+op.Key, "/")
	if _, err := Below(op.Key); err != nil {
		return err
	}
	if err := next(ctx, &joined); err != nil {
		return trimKey(err, below)
	}
	if op.Kind == OpListTags {
		op.Tags = trimmed(joined.Tags, below, func(t Tagged) Tagged { return Tagged{strings.TrimPrefix(t.Key, below), t.Tag} })
	} else {
		op.Keys = trimmed(joined.Keys, below, func(key string) string { return strings.TrimPrefix(key, below) })
	}
	return nil
}

// trimmed is a listing without the prefix in its keys and errors.
func trimmed[T any](all iter.Seq2[T, error], below string, trim func(T) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for t, err := range all {
			if !yield(trim(t), trimKey(err, below)) {
				return
			}
		}
	}
}

// trimKey makes the errors of this package name the key as the caller gave it.
func trimKey(err error, below string) error {
	trim := func(key string) string { return strings.TrimSuffix(strings.TrimPrefix(key+"/", below), "/") }
	switch e := err.(type) {
	case *OpError:
		return &OpError{Op: e.Op, Key: trim(e.Key), Store: e.Store, Err: trimKey(e.Err, below)}
	case *ConflictError:
		return &ConflictError{Key: trim(e.Key), HasCurrent: e.HasCurrent, Value: e.Value, Version: e.Version}
	case *InDoubtError:
		return &InDoubtError{Version: e.Version, Err: trimKey(e.Err, below)}
	case *outcomeError:
		return &outcomeError{trimKey(e.err, below), e.outcome}
	}
	return err
}

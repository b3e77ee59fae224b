package store

import "context"

// WithMark returns a context whose writes carry a mark: a number that the caller raises
// from write to write, such as a fencing token. Stores that are no [Marker] ignore it.
func WithMark(ctx context.Context, mark uint64) context.Context {
	return context.WithValue(ctx, markKey{}, mark)
}

// MarkOf returns the mark of the writes under ctx; 0 where there is none. A [Marker]
// asks it in each write.
func MarkOf(ctx context.Context) uint64 {
	mark, _ := ctx.Value(markKey{}).(uint64)
	return mark
}

type markKey struct{}

// Marker is a store in which writes that never took effect leave traces: it keeps the
// mark of each write, and shows others the marks of writes that lost.
type Marker interface {
	// HighestMark returns an upper bound of the marks ([WithMark]) of all writes to key,
	// those included that never took effect. It is 0 where no write has a mark.
	HighestMark(ctx context.Context, key string) (uint64, error)
}

// HighestMark returns that of s, and 0 for a store that is no [Marker]: there, writes
// without an effect leave nothing.
func HighestMark(ctx context.Context, s Store, key string) (uint64, error) {
	if m, ok := As[Marker](s); ok {
		return m.HighestMark(ctx, key)
	}
	return 0, nil
}

// OpHighestMark is the operation of [Marker].
const OpHighestMark Kind = "highest-mark"

func markerAbility() ability {
	return abilityOf("Marker", OpHighestMark, func(s *intercepted, a Marker) Marker { return interceptedMarker{s, a} })
}

type interceptedMarker struct {
	s *intercepted
	a Marker
}

func (w interceptedMarker) HighestMark(ctx context.Context, key string) (uint64, error) {
	op := &Op{Kind: OpHighestMark, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Mark, err = w.a.HighestMark(ctx, op.Key)
		return err
	})
	return op.Mark, err
}

package store

import (
	"context"
	"iter"
	"time"
)

// Kind names an operation of a store or of one of its abilities.
type Kind string

// The operations that [Intercept] passes through a handler.
const (
	OpGet          Kind = "get"
	OpPut          Kind = "put"
	OpPutVolatile  Kind = "put-volatile"
	OpDelete       Kind = "delete"
	OpList         Kind = "list"
	OpWatch        Kind = "watch"
	OpGetAge       Kind = "get-age"
	OpGetIfChanged Kind = "get-if-changed"
	OpPeek         Kind = "peek"
	OpTokenFloor   Kind = "token-floor"
	OpSettle       Kind = "settle"
)

// Write reports whether the operation can change a register.
func (k Kind) Write() bool { return k == OpPut || k == OpPutVolatile || k == OpDelete }

// Op is one operation on its way through a decorator: its arguments, and after
// the next handler returned, its results.
type Op struct {
	Kind  Kind
	Key   string  // of List: the prefix
	Prev  Version // of a write and of Settle: the state it names; of Watch and GetIfChanged: the one seen
	Value []byte  // of a put: the value to write; of a get: the result

	Writes []Version // of Settle: the writes whose outcome is unknown

	Version Version                  // result of a get or a put
	Changed bool                     // result of GetIfChanged
	Age     time.Duration            // result of GetAge
	Floor   uint64                   // result of TokenFloor
	Keys    iter.Seq2[string, error] // result of List
	Settled Settlement               // result of Settle
}

// Handler carries out an operation.
type Handler func(ctx context.Context, op *Op) error

// Intercept returns a store that passes every operation on inner, those of its
// abilities too, through f. f may change the arguments, call next once, never, or
// later from elsewhere, and change the results and the error. It must be safe for
// use by several goroutines.
//
// The store that is returned has exactly the abilities of inner. Those that carry
// no key ([Presence], [Describer] and interfaces that this package does not know)
// are handed out as they are.
func Intercept(inner Store, f func(ctx context.Context, op *Op, next Handler) error) Store {
	return &intercepted{inner, f}
}

type intercepted struct {
	inner Store
	f     func(ctx context.Context, op *Op, next Handler) error
}

// Get implements Store.
func (s *intercepted) Get(ctx context.Context, key string) ([]byte, Version, error) {
	op := &Op{Kind: OpGet, Key: key}
	err := s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, err = s.inner.Get(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, err
}

// Put implements Store.
func (s *intercepted) Put(ctx context.Context, key string, prev Version, value []byte) (Version, error) {
	return s.put(ctx, OpPut, s.inner.Put, key, prev, value)
}

func (s *intercepted) put(ctx context.Context, kind Kind, put func(context.Context, string, Version, []byte) (Version, error), key string, prev Version, value []byte) (Version, error) {
	op := &Op{Kind: kind, Key: key, Prev: prev, Value: value}
	err := s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Version, err = put(ctx, op.Key, op.Prev, op.Value)
		return err
	})
	return op.Version, err
}

// Delete implements Store.
func (s *intercepted) Delete(ctx context.Context, key string, prev Version) error {
	return s.f(ctx, &Op{Kind: OpDelete, Key: key, Prev: prev}, func(ctx context.Context, op *Op) error {
		return s.inner.Delete(ctx, op.Key, op.Prev)
	})
}

// As hands out the abilities of the inner store, each passed through the handler.
func (s *intercepted) As(target any) bool {
	switch t := target.(type) {
	case *Watcher:
		return ability(s, t, func(a Watcher) Watcher { return interceptedWatcher{s, a} })
	case *Lister:
		return ability(s, t, func(a Lister) Lister { return interceptedLister{s, a} })
	case *VolatilePutter:
		return ability(s, t, func(a VolatilePutter) VolatilePutter { return interceptedVolatile{s, a} })
	case *Ager:
		return ability(s, t, func(a Ager) Ager { return interceptedAger{s, a} })
	case *ConditionalGetter:
		return ability(s, t, func(a ConditionalGetter) ConditionalGetter { return interceptedConditional{s, a} })
	case *Peeker:
		return ability(s, t, func(a Peeker) Peeker { return interceptedPeeker{s, a} })
	case *TokenFloorer:
		return ability(s, t, func(a TokenFloorer) TokenFloorer { return interceptedFloorer{s, a} })
	case *Settler:
		return ability(s, t, func(a Settler) Settler { return interceptedSettler{s, a} })
	}
	return asTarget(s.inner, target)
}

func ability[T any](s *intercepted, target *T, wrap func(T) T) bool {
	a, ok := As[T](s.inner)
	if ok {
		*target = wrap(a)
	}
	return ok
}

type interceptedWatcher struct {
	s *intercepted
	a Watcher
}

func (w interceptedWatcher) Watch(ctx context.Context, key string, seen Version) error {
	return w.s.f(ctx, &Op{Kind: OpWatch, Key: key, Prev: seen}, func(ctx context.Context, op *Op) error {
		return w.a.Watch(ctx, op.Key, op.Prev)
	})
}

type interceptedLister struct {
	s *intercepted
	a Lister
}

func (w interceptedLister) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	op := &Op{Kind: OpList, Key: prefix}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) error {
		op.Keys = w.a.List(ctx, op.Key)
		return nil
	})
	if err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return op.Keys
}

type interceptedVolatile struct {
	s *intercepted
	a VolatilePutter
}

func (w interceptedVolatile) PutVolatile(ctx context.Context, key string, prev Version, value []byte) (Version, error) {
	return w.s.put(ctx, OpPutVolatile, w.a.PutVolatile, key, prev, value)
}

type interceptedAger struct {
	s *intercepted
	a Ager
}

func (w interceptedAger) GetAge(ctx context.Context, key string) ([]byte, Version, time.Duration, error) {
	op := &Op{Kind: OpGetAge, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, op.Age, err = w.a.GetAge(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, op.Age, err
}

type interceptedConditional struct {
	s *intercepted
	a ConditionalGetter
}

func (w interceptedConditional) GetIfChanged(ctx context.Context, key string, seen Version) ([]byte, Version, bool, error) {
	op := &Op{Kind: OpGetIfChanged, Key: key, Prev: seen}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, op.Changed, err = w.a.GetIfChanged(ctx, op.Key, op.Prev)
		return err
	})
	return op.Value, op.Version, op.Changed, err
}

type interceptedPeeker struct {
	s *intercepted
	a Peeker
}

func (w interceptedPeeker) Peek(ctx context.Context, key string) ([]byte, Version, error) {
	op := &Op{Kind: OpPeek, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Value, op.Version, err = w.a.Peek(ctx, op.Key)
		return err
	})
	return op.Value, op.Version, err
}

type interceptedFloorer struct {
	s *intercepted
	a TokenFloorer
}

func (w interceptedFloorer) TokenFloor(ctx context.Context, key string) (uint64, error) {
	op := &Op{Kind: OpTokenFloor, Key: key}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Floor, err = w.a.TokenFloor(ctx, op.Key)
		return err
	})
	return op.Floor, err
}

type interceptedSettler struct {
	s *intercepted
	a Settler
}

func (w interceptedSettler) Settle(ctx context.Context, key string, prev Version, writes ...Version) (Settlement, error) {
	op := &Op{Kind: OpSettle, Key: key, Prev: prev, Writes: writes}
	err := w.s.f(ctx, op, func(ctx context.Context, op *Op) (err error) {
		op.Settled, err = w.a.Settle(ctx, op.Key, op.Prev, op.Writes...)
		return err
	})
	op.Settled.Current.Key = key
	return op.Settled, err
}

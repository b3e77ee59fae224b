package store

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Kind names an operation of a store or of one of its abilities.
type Kind string

// The operations of [Store]. The operations of the abilities are declared next to their interfaces.
const (
	OpGet    Kind = "get"
	OpPut    Kind = "put"
	OpDelete Kind = "delete"
)

// Kinds returns the operations that [Intercept] passes to its function.
func Kinds() []Kind {
	kinds := []Kind{OpGet, OpPut, OpDelete}
	for _, a := range knownAbilities() {
		kinds = append(kinds, a.kinds...)
	}
	return kinds
}

// Write reports whether the operation can change a register, an object, or an item of a
// table.
func (k Kind) Write() bool {
	return k == OpPut || k == OpPutUnsynced || k == OpDelete || k == "copy" || k == "rename" || k == "update"
}

// Read reports whether the operation changes nothing. For an operation that this package
// does not know, Read returns false.
func (k Kind) Read() bool {
	return k == "stat" || k == "scan" || slices.Contains(Kinds(), k) && !k.Write()
}

// Lists reports whether the operation is a listing: its key is a prefix, or empty.
func (k Kind) Lists() bool { return k == OpList || k == OpListTags }

// Op is one operation that passes through a decorator. It has the arguments of the call. After
// the next handler has returned, it also has the results.
type Op struct {
	Kind  Kind
	Key   string  // key of the call; for a listing its prefix
	Prev  Version // version that a write or Resolve names; for Watch and GetIfChanged the argument seen
	Value []byte  // value that a put writes, or result of a get

	Writes []Version // versions that the caller passed to Resolve

	Version  Version                  // result of a get or a put
	Changed  bool                     // result of GetIfChanged
	Age      time.Duration            // result of GetAge
	Token    uint64                   // result of HighestToken
	Keys     iter.Seq2[string, error] // result of List
	Tags     iter.Seq2[Tagged, error] // result of ListTags
	Resolved ResolveResult            // result of Resolve
}

// Handler carries out an operation.
type Handler func(ctx context.Context, op *Op) error

// Intercept returns a store on top of inner that passes every operation to the function f. It also
// passes the operations of inner's abilities. The function may change the arguments, the results
// and the error. It may call next once, not at all, or later from another goroutine. It must be
// safe for use by several goroutines.
//
// The returned store has those abilities of inner that this package knows. Abilities
// without keys ([Presence], [Waker], [Describer], ListCost of [TagLister]) bypass f. Everything else of inner is hidden, so
// that no other call bypasses f; see [As].
func Intercept(inner Store, f func(ctx context.Context, op *Op, next Handler) error) Store {
	return newIntercepted(inner, f)
}

func newIntercepted(inner Store, f func(ctx context.Context, op *Op, next Handler) error) *intercepted {
	return &intercepted{
		inner: inner, f: f,
		get: func(ctx context.Context, op *Op) (err error) {
			op.Value, op.Version, err = inner.Get(ctx, op.Key)
			return err
		},
		put:    putHandler(inner.Put),
		delete: func(ctx context.Context, op *Op) error { return inner.Delete(ctx, op.Key, op.Prev) },
	}
}

func putHandler(put func(context.Context, string, Version, []byte) (Version, error)) Handler {
	return func(ctx context.Context, op *Op) (err error) {
		op.Version, err = put(ctx, op.Key, op.Prev, op.Value)
		return err
	}
}

type intercepted struct {
	inner Store
	f     func(ctx context.Context, op *Op, next Handler) error
	below string // what f puts before each key

	get, put, delete Handler // of inner, made once
}

// Get implements Store.
func (s *intercepted) Get(ctx context.Context, key string) ([]byte, Version, error) {
	op := &Op{Kind: OpGet, Key: key}
	err := s.f(ctx, op, s.get)
	return op.Value, op.Version, err
}

// Put implements Store.
func (s *intercepted) Put(ctx context.Context, key string, prev Version, value []byte) (Version, error) {
	op := &Op{Kind: OpPut, Key: key, Prev: prev, Value: value}
	err := s.f(ctx, op, s.put)
	return op.Version, err
}

// Delete implements Store.
func (s *intercepted) Delete(ctx context.Context, key string, prev Version) error {
	return s.f(ctx, &Op{Kind: OpDelete, Key: key, Prev: prev}, s.delete)
}

// As returns the abilities of the inner store, each passed through the handler, and nothing
// else.
func (s *intercepted) As(target any) bool {
	for _, a := range knownAbilities() {
		if asked, ok := a.handOut(s, target); asked {
			return ok
		}
	}
	return false
}

package store

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"
)

// As finds the ability T of s, or of a store that s decorates. T is one of the
// interfaces of this package, or any other.
//
// A decorator takes part in one of two ways: with a method Unwrap() Store, where
// it may be passed over, or with a method As(target any) bool, which sets target
// (a *T) and decides for itself; see [Intercept].
func As[T any](s Store) (T, bool) {
	var t T
	ok := asTarget(s, &t)
	return t, ok
}

// asTarget sets target, a *T, to the ability T of s.
func asTarget(s Store, target any) bool {
	out := reflect.ValueOf(target).Elem()
	for s != nil {
		if d, ok := s.(interface{ As(target any) bool }); ok && d.As(target) {
			return true
		}
		if reflect.TypeOf(s).AssignableTo(out.Type()) {
			out.Set(reflect.ValueOf(s))
			return true
		}
		d, ok := s.(interface{ Unwrap() Store })
		if !ok {
			return false
		}
		s = d.Unwrap()
	}
	return false
}

// Watcher is a store that tells of changes, so that nobody needs to poll.
type Watcher interface {
	// Watch returns nil as soon as the version of key may differ from seen, at
	// once if it does already. It may return without a change, and it may miss
	// states that came and went. A zero seen means absent. When the context ends
	// it returns the context's error.
	Watch(ctx context.Context, key string, seen Version) error
}

// Lister is a store that can name its keys.
type Lister interface {
	// List yields the keys below prefix, in no promised order, each once. A prefix
	// is empty (all keys) or a valid key: "a/b" lists "a/b/c" and "a/b/c/d", but
	// neither "a/b" nor "a/bc". Deleted keys are hidden. A key that exists
	// throughout the listing is yielded; one that is made or deleted meanwhile may
	// be. After an error the listing ends.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
}

// List lists the keys of s below prefix; see [Lister]. On a store that cannot list
// it yields one error that matches [errors.ErrUnsupported].
func List(ctx context.Context, s Store, prefix string) iter.Seq2[string, error] {
	l, ok := As[Lister](s)
	if !ok {
		return func(yield func(string, error) bool) {
			yield("", errors.Join(errors.New("this store cannot list its keys"), errors.ErrUnsupported))
		}
	}
	return l.List(ctx, prefix)
}

// VolatilePutter is a store with a cheaper Put that need not survive the loss of
// the machine's power. It orders and excludes like Put, and every durable write
// that comes after it makes it durable. Renewals of leases use it.
type VolatilePutter interface {
	PutVolatile(ctx context.Context, key string, prev Version, value []byte) (Version, error)
}

// PutVolatile is Put without durability where s offers it, and Put elsewhere.
func PutVolatile(ctx context.Context, s Store, key string, prev Version, value []byte) (Version, error) {
	if v, ok := As[VolatilePutter](s); ok {
		return v.PutVolatile(ctx, key, prev, value)
	}
	return s.Put(ctx, key, prev, value)
}

// Ager is a store that knows, by its own clock, how long ago a value was written.
type Ager interface {
	// GetAge is Get, and a time for which the value has stood unchanged for
	// certain: a lower bound, with the granularity of the store's clock and its
	// possible error taken off. A negative age means that it is not known now.
	GetAge(ctx context.Context, key string) (value []byte, v Version, age time.Duration, err error)
}

// ConditionalGetter is a store that can answer "not changed" without the value.
type ConditionalGetter interface {
	// GetIfChanged is Get, except that changed is false, and the value nil, when
	// the version is still seen.
	GetIfChanged(ctx context.Context, key string, seen Version) (value []byte, v Version, changed bool, err error)
}

// GetIfChanged reads key unless its version is still seen; see [ConditionalGetter].
// On a store without the ability it is a Get.
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

// Peeker is a store whose Get waits until what it read is certain, and that can
// also look without waiting.
type Peeker interface {
	// Peek returns a state that may yet turn out not to have happened. It is good
	// for watching and as the base of a conditional write, and for nothing else.
	Peek(ctx context.Context, key string) ([]byte, Version, error)
}

// Peek looks without waiting where s offers it, and is Get elsewhere.
func Peek(ctx context.Context, s Store, key string) ([]byte, Version, error) {
	if p, ok := As[Peeker](s); ok {
		return p.Peek(ctx, key)
	}
	return s.Get(ctx, key)
}

// TokenFloorer is a store that keeps traces of writes which never took effect.
type TokenFloorer interface {
	// TokenFloor returns a number that no fencing token seen in any write to key,
	// effective or not, exceeds.
	TokenFloor(ctx context.Context, key string) (uint64, error)
}

// Liveness is what a store knows of an announced process.
type Liveness int

const (
	// LivenessUnknown: nothing is known; only time can tell.
	LivenessUnknown Liveness = iota

	// Alive: it runs, or something that it started keeps its place.
	Alive

	// Dead: it ended for certain.
	Dead
)

// String returns "unknown", "alive" or "dead".
func (l Liveness) String() string {
	switch l {
	case Alive:
		return "alive"
	case Dead:
		return "dead"
	}
	return "unknown"
}

// Presence is a store that knows which processes are alive.
type Presence interface {
	// Announce makes this process known and returns its announcement, a short text
	// for others to judge it by. Further calls return the same. It lasts until the
	// process ends; nothing has to be renewed.
	Announce(ctx context.Context) (string, error)

	// Judge tells whether the process behind an announcement is alive. It answers
	// Dead only if that is certain; what it cannot know, errors too, is
	// LivenessUnknown.
	Judge(ctx context.Context, announcement string) Liveness

	// Await returns nil when it is worth judging again, which may be without
	// reason, or the context's error when that ends.
	Await(ctx context.Context, announcement string) error
}

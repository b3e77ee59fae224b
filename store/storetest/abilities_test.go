package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// able is a memory store with every ability. Each handle is a process of its own.
type able struct {
	*memstore.Store
	*ableShared
	id string
}

type ableShared struct {
	mu     sync.Mutex
	born   map[store.Version]time.Time
	marks  map[string]uint64
	alive  []string
	wakes  map[string]func()
	closed chan struct{}
}

func newAble() *able {
	return &able{Store: memstore.New(), id: "process-1", ableShared: &ableShared{
		born: make(map[store.Version]time.Time), marks: make(map[string]uint64), alive: []string{"process-1"}, closed: make(chan struct{}), wakes: make(map[string]func()),
	}}
}

func (a *able) second() *able {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := &able{Store: a.Store, ableShared: a.ableShared, id: "process-" + fmtInt(len(a.alive)+1)}
	a.alive = append(a.alive, b.id)
	return b
}

func (a *able) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	a.mu.Lock()
	a.marks[key] = max(a.marks[key], store.TokenOf(ctx))
	a.mu.Unlock()
	v, err := a.Store.Put(ctx, key, prev, value)
	if err == nil {
		a.mu.Lock()
		a.born[v] = time.Now() // a little late, so that the age is never above the truth
		a.mu.Unlock()
	}
	return v, err
}

func (a *able) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	return a.Put(ctx, key, prev, value)
}

func (a *able) GetAge(ctx context.Context, key string) ([]byte, store.Version, time.Duration, error) {
	value, v, err := a.Get(ctx, key)
	a.mu.Lock()
	defer a.mu.Unlock()
	born, ok := a.born[v]
	if !ok {
		return value, v, -1, err
	}
	return value, v, time.Since(born), err
}

func (a *able) GetIfChanged(ctx context.Context, key string, seen store.Version) ([]byte, store.Version, bool, error) {
	value, v, err := a.Get(ctx, key)
	if err == nil && v == seen {
		return nil, v, false, nil
	}
	return value, v, true, err
}

func (a *able) Traits() store.Traits {
	t := a.Store.Traits()
	t.MinWriteTime = 1
	return t
}

func (a *able) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	return a.Get(ctx, key)
}

func (a *able) HighestToken(_ context.Context, key string) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.marks[key], nil
}

func (a *able) Resolve(ctx context.Context, key string, prev store.Version, writes ...store.Version) (store.ResolveResult, error) {
	return store.Resolve(ctx, a.Store, key, prev, writes...)
}

func (a *able) Announce(context.Context) (string, error) { return a.id, nil }

func (a *able) Liveness(_ context.Context, announcement string) store.Liveness {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range a.alive {
		if id == announcement {
			return store.Alive
		}
	}
	return store.LivenessUnknown
}

func (a *able) WaitLiveness(ctx context.Context, _ string) error {
	select {
	case <-a.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *able) ExpectWake(_ context.Context, name string, wake func()) (end func(), err error) {
	if name == "" || len(name) > 64 || name[0] == '.' || strings.Trim(name, ".ABab10") != "" {
		return nil, errors.New("invalid name")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakes[name] = wake
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.wakes, name)
	}, nil
}

func (a *able) Wake(_ context.Context, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wake := a.wakes[name]; wake != nil {
		wake()
	}
}

// TestAllAbilities runs the suite on stores that need no skip.
func TestAllAbilities(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return newAble() }, &storetest.Options{
		Reopen: func(_ *testing.T, first store.Store) store.Store { return first.(*able).second() },
		Rounds: 8,
	})
}

func TestAllAbilitiesPrefixed(t *testing.T) {
	prefixed := func(t *testing.T, a *able) store.Store {
		p, err := store.Prefix(a, "some/prefix")
		if err != nil {
			t.Fatal(err)
		}
		return below{p, a}
	}
	storetest.Run(t, func(t *testing.T) store.Store { return prefixed(t, newAble()) }, &storetest.Options{
		Reopen: func(t *testing.T, first store.Store) store.Store {
			return prefixed(t, first.(below).able.second())
		},
		MaxKey: store.MaxKey - len("some/prefix/"),
		Rounds: 4, Parallel: true,
	})
}

// below is a store in a decorator, and the store that it decorates.
type below struct {
	store.Store
	able *able
}

func (b below) Unwrap() store.Store { return b.Store }

// unable is a store with one broken ability: its function fields replace methods.
type unable struct {
	*able
	age      func(a *able, key string) ([]byte, store.Version, time.Duration, error)
	change   func(a *able, key string, seen store.Version) ([]byte, store.Version, bool, error)
	liveness func(a *able, announcement string) store.Liveness
	await    func(ctx context.Context, a *able) error
	mark     func(a *able, key string) uint64
	traits   func() store.Traits
}

func (u *unable) GetAge(ctx context.Context, key string) ([]byte, store.Version, time.Duration, error) {
	if u.age == nil {
		return u.able.GetAge(ctx, key)
	}
	return u.age(u.able, key)
}

func (u *unable) GetIfChanged(ctx context.Context, key string, seen store.Version) ([]byte, store.Version, bool, error) {
	if u.change == nil {
		return u.able.GetIfChanged(ctx, key, seen)
	}
	return u.change(u.able, key, seen)
}

func (u *unable) Liveness(ctx context.Context, announcement string) store.Liveness {
	if u.liveness == nil {
		return u.able.Liveness(ctx, announcement)
	}
	return u.liveness(u.able, announcement)
}

func (u *unable) WaitLiveness(ctx context.Context, announcement string) error {
	if u.await == nil {
		return u.able.WaitLiveness(ctx, announcement)
	}
	return u.await(ctx, u.able)
}

func (u *unable) HighestToken(ctx context.Context, key string) (uint64, error) {
	if u.mark == nil {
		return u.able.HighestToken(ctx, key)
	}
	return u.mark(u.able, key), nil
}

func (u *unable) Traits() store.Traits {
	if u.traits == nil {
		return u.able.Traits()
	}
	return u.traits()
}

func brokenAbilities() []broken {
	with := func(change func(u *unable)) func() store.Store {
		return func() store.Store {
			u := &unable{able: newAble()}
			change(u)
			return u
		}
	}
	ctx := context.Background()
	calls := 0
	return []broken{
		{"rounds ages up", []string{"Age"}, with(func(u *unable) {
			u.age = func(a *able, key string) ([]byte, store.Version, time.Duration, error) {
				value, v, age, err := a.GetAge(ctx, key)
				return value, v, age.Truncate(time.Second) + time.Second, err
			}
		}), nil},
		{"compares values to find out whether the register changed", []string{"GetIfChanged"}, with(func(u *unable) {
			values := make(map[store.Version][]byte)
			u.change = func(a *able, key string, seen store.Version) ([]byte, store.Version, bool, error) {
				value, v, err := a.Get(ctx, key)
				old, known := values[seen]
				values[v] = value
				if err == nil && known && bytes.Equal(old, value) {
					return nil, seen, false, nil
				}
				return value, v, true, err
			}
		}), nil},
		{"peeks at nothing when cancelled", []string{"GetUncommitted"}, func() store.Store { return missing{newAble()} }, nil},
		{"remembers only the first mark", []string{"HighestToken"}, with(func(u *unable) {
			var first uint64
			u.mark = func(a *able, key string) uint64 {
				if first == 0 {
					first, _ = a.HighestToken(ctx, key)
				}
				return first
			}
		}), nil},
		{"is another at each call", []string{"Traits"}, with(func(u *unable) {
			u.traits = func() store.Traits {
				calls++
				return store.Traits{Name: "call " + fmtInt(calls)}
			}
		}), nil},
		{"judges every other process dead", []string{"PresenceUnknown"}, with(func(u *unable) {
			u.liveness = func(a *able, announcement string) store.Liveness {
				if announcement == a.id {
					return store.Alive
				}
				return store.Dead
			}
		}), nil},
		{"judges the living dead", []string{"PresenceAlive"}, with(func(u *unable) {
			u.liveness = func(*able, string) store.Liveness { return store.Dead }
		}), nil},
		{"waits with an error of its own", []string{"PresenceAwait"}, with(func(u *unable) {
			u.await = func(context.Context, *able) error { return errors.New("no inotify") }
		}), nil},
		{"wakes a waiter that has gone", []string{"Wake"}, func() store.Store { return haunted{newAble()} }, nil},
		{"restarts its versions with each unsynced put", []string{"UnsyncedThenDurable"}, func() store.Store { return &forgetful{memstore.New()} }, nil},
		{"hands out the store below it", []string{"DecoratorHides"}, func() store.Store {
			m := memstore.New()
			p, err := store.Prefix(m, "some/prefix")
			if err != nil {
				panic(err)
			}
			return leaky{p, m}
		}, nil},
		{"is not what its decorators show", []string{"AbilitiesKept"}, func() store.Store { return &moody{Store: memstore.New()} }, nil},
	}
}

// missing reports a failed GetUncommitted as absence.
type missing struct{ *able }

func (b missing) GetUncommitted(ctx context.Context, key string) ([]byte, store.Version, error) {
	value, v, err := b.able.GetUncommitted(ctx, key)
	if err != nil {
		err = store.ErrNotFound
	}
	return value, v, err
}

// haunted forgets no waiter.
type haunted struct{ *able }

func (h haunted) ExpectWake(ctx context.Context, name string, wake func()) (func(), error) {
	_, err := h.able.ExpectWake(ctx, name, wake)
	return func() {}, err
}

// forgetful returns a version of an unsynced put that Get does not confirm.
type forgetful struct{ *memstore.Store }

func (f *forgetful) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := f.Put(ctx, key, prev, value)
	return v + "~", err
}

// leaky is a decorator that returns the store below it for every interface.
type leaky struct {
	store.Store
	inner store.Store
}

func (l leaky) As(target any) bool {
	t, ok := target.(*store.Store)
	if ok {
		*t = l.inner
	}
	return ok
}

// moody offers its abilities only in every second call.
type moody struct {
	store.Store
	asked int
}

func (m *moody) As(target any) bool {
	w, ok := target.(*store.Watcher)
	if ok {
		m.asked++
	}
	if ok && m.asked%2 == 0 {
		*w = m.Store.(store.Watcher)
		return true
	}
	return false
}

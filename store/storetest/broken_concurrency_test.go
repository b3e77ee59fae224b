package storetest_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// pause lets other goroutines run. In a bubble it takes no real time, and lets deadlines
// pass.
func pause() { time.Sleep(100 * time.Microsecond) }

// checkThenWrite checks the condition and writes a moment later.
func checkThenWrite(ctx context.Context, m *memstore.Store, op *store.Op, next store.Handler) error {
	if !op.Kind.Write() || ctx.Err() != nil {
		return next(ctx, op)
	}
	if _, v, _ := m.Get(ctx, op.Key); v != op.Prev {
		return next(ctx, op) // a conflict
	}
	pause()
	return forces(func(*store.Op) bool { return true })(ctx, m, op, next)
}

// stale returns a cached state of each key for a while.
type stale struct {
	*memstore.Store
	mu   sync.Mutex
	seen map[string]staleRead
}

type staleRead struct {
	value []byte
	v     store.Version
	err   error
	count int
}

func (s *stale) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.seen[key]
	if !ok || r.count == 0 || ctx.Err() != nil {
		r.value, r.v, r.err = s.Store.Get(ctx, key)
		r.count = 3
	}
	r.count--
	s.seen[key] = r
	return append([]byte{}, r.value...), r.v, r.err
}

// torn reads the value and the version one after the other.
type torn struct{ *memstore.Store }

func (s torn) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	value, _, err := s.Store.Get(ctx, key)
	if err != nil {
		return nil, "", err
	}
	pause()
	_, v, err := s.Store.Get(ctx, key)
	return value, v, err
}

func brokenRaces() []broken {
	newStale := func() store.Store { return &stale{Store: memstore.New(), seen: make(map[string]staleRead)} }
	return []broken{
		{"checks, then writes", []string{"RaceCreate", "RaceSwap", "RaceDelete", "RaceDeleteSwap", "RaceCreateDelete", "RaceCounter", "RaceNeighbours", "RaceHistory", "UnsyncedRace"}, onMemory(checkThenWrite), nil},
		{"reads old states", []string{"RaceReadYourWrite", "RaceMonotonicReads", "RaceHistory"}, newStale, func(first store.Store) store.Store {
			return &stale{Store: first.(*stale).Store, seen: make(map[string]staleRead)}
		}},
		{"reads values and versions apart", []string{"RaceWholeReads", "RaceHistory"}, func() store.Store { return torn{memstore.New()} }, nil},
		{"puts unsynced values on any version", []string{"UnsyncedPut", "UnsyncedRace", "RaceHistoryUnsynced"}, onMemory(forces(func(op *store.Op) bool {
			return op.Kind == store.OpPutUnsynced
		})), nil},
	}
}

// watches is a correct store with another Watch.
type watches struct {
	*memstore.Store
	watch func(ctx context.Context, m *memstore.Store, key string, seen store.Version) error
}

func (w watches) Watch(ctx context.Context, key string, seen store.Version) error {
	return w.watch(ctx, w.Store, key, seen)
}

func brokenWatches() []broken {
	with := func(watch func(ctx context.Context, m *memstore.Store, key string, seen store.Version) error) func() store.Store {
		return func() store.Store { return watches{memstore.New(), watch} }
	}
	// fromNow watches for a change of what is there now, whatever was seen.
	fromNow := func(ctx context.Context, m *memstore.Store, key string, _ store.Version) error {
		_, v, _ := m.Get(ctx, key)
		return m.Watch(ctx, key, v)
	}
	// unless sleeps through the changes for which asleep holds.
	unless := func(asleep func(before, after []byte, v, w store.Version) bool) func() store.Store {
		return with(func(ctx context.Context, m *memstore.Store, key string, seen store.Version) error {
			for {
				before, v, _ := m.Get(ctx, key)
				if v != seen {
					return nil
				}
				if err := m.Watch(ctx, key, seen); err != nil {
					return err
				}
				after, w, _ := m.Get(ctx, key)
				if !asleep(before, after, v, w) {
					return nil
				}
				if err := m.Watch(ctx, key, w); err != nil {
					return err
				}
			}
		})
	}
	var one sync.Mutex
	return []broken{
		{"watches from now on", []string{"WatchDiffers", "WatchNoGap", "WatchFollow"}, with(fromNow), nil},
		{"watches values", []string{"WatchPut"}, unless(func(b, a []byte, v, w store.Version) bool { return v != "" && w != "" && string(a) == string(b) }), nil},
		{"watches no deletes", []string{"WatchDelete"}, unless(func(_, _ []byte, _, w store.Version) bool { return w == "" }), nil},
		{"watches no creations", []string{"WatchCreate"}, unless(func(_, _ []byte, v, _ store.Version) bool { return v == "" }), nil},
		{"watches no unsynced puts", []string{"WatchUnsynced"}, func() store.Store { return &sleepy{Store: memstore.New()} }, nil},
		{"gives up watching with an error of its own", []string{"WatchCancel"}, with(func(ctx context.Context, m *memstore.Store, key string, seen store.Version) error {
			if m.Watch(ctx, key, seen) != nil {
				return errors.New("connection closed")
			}
			return nil
		}), nil},
		{"has room for one watcher", []string{"WatchMany"}, with(func(ctx context.Context, m *memstore.Store, key string, seen store.Version) error {
			if !one.TryLock() {
				<-ctx.Done()
				return ctx.Err()
			}
			defer one.Unlock()
			return m.Watch(ctx, key, seen)
		}), nil},
	}
}

// sleepy wakes no waiter for an unsynced put.
type sleepy struct {
	*memstore.Store
	mu       sync.Mutex
	unsynced map[store.Version]bool
}

func (s *sleepy) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.Put(ctx, key, prev, value)
	if s.unsynced == nil {
		s.unsynced = make(map[store.Version]bool)
	}
	s.unsynced[v] = true
	return v, err
}

func (s *sleepy) Watch(ctx context.Context, key string, seen store.Version) error {
	for {
		if err := s.Store.Watch(ctx, key, seen); err != nil {
			return err
		}
		_, seen, _ = s.Get(ctx, key)
		s.mu.Lock()
		asleep := s.unsynced[seen]
		s.mu.Unlock()
		if !asleep {
			return nil
		}
	}
}

// lists is a correct store with another List.
type lists struct {
	*memstore.Store
	list func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error]
}

func (l lists) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return l.list(ctx, l.Store, prefix)
}

func brokenLists() []broken {
	with := func(list func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error]) func() store.Store {
		return func() store.Store { return lists{memstore.New(), list} }
	}
	// filtered passes on the keys for which keep holds.
	filtered := func(keep func(i int, prefix, key string) bool) func() store.Store {
		return with(func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				i := 0
				for key, err := range m.List(ctx, prefix) {
					if err != nil || keep(i, prefix, key) {
						if !yield(key, err) {
							return
						}
					}
					i++
				}
			}
		})
	}
	return []broken{
		{"lists by string prefix", []string{"ListPrefix", "ListMany", "PrefixApart"}, with(func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for key, err := range m.List(ctx, "") {
					if strings.HasPrefix(key, prefix) && !yield(key, err) {
						return
					}
				}
			}
		}), nil},
		{"lists the first page only", []string{"ListMany"}, filtered(func(i int, _, _ string) bool { return i < 1000 }), nil},
		{"lists one level", []string{"List", "ListPrefix"}, filtered(func(_ int, prefix, key string) bool {
			return !strings.Contains(strings.TrimPrefix(strings.TrimPrefix(key, prefix), "/"), "/")
		}), nil},
		{"lists what was deleted", []string{"ListDeleted"}, func() store.Store { return &remembers{Store: memstore.New()} }, nil},
		{"lists pages by offset", []string{"ListDuringWrites"}, with(func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for at := 0; ; at++ {
					i, found := 0, false
					for key, err := range m.List(ctx, prefix) {
						if i++; i == at+1 {
							found = true
							if !yield(key, err) || err != nil {
								return
							}
						}
					}
					if !found {
						return
					}
					pause()
				}
			}
		}), nil},
		{"lists ASCII only", []string{"ListAwkward"}, filtered(func(_ int, _, key string) bool {
			return strings.ToValidUTF8(key, "") == key && len([]rune(key)) == len(key)
		}), nil},
		{"continues the listing after the caller has stopped it", []string{"ListBreak"}, with(func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error] {
			var left bool // the caller has left a listing of this store
			return func(yield func(string, error) bool) {
				for key, err := range m.List(ctx, prefix) {
					if left {
						key += "?"
					}
					left = true
					if !yield(key, err) {
						return
					}
				}
			}
		}), nil},
		{"lists nothing for an invalid prefix", []string{"ListInvalid"}, with(func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for key, err := range m.List(ctx, prefix) {
					if errors.Is(err, store.ErrKey) || !yield(key, err) {
						return
					}
				}
			}
		}), nil},
		{"lists nothing when cancelled", []string{"ListCancelled"}, with(func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for key, err := range m.List(ctx, prefix) {
					if err != nil || !yield(key, err) {
						return
					}
				}
			}
		}), nil},
	}
}

// tagsOf is a sound store with other tags.
type tagsOf struct {
	*memstore.Store
	list func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[store.Tagged, error]
}

func (l tagsOf) ListTags(ctx context.Context, prefix string) iter.Seq2[store.Tagged, error] {
	return l.list(ctx, l.Store, prefix)
}

func brokenTags() []broken {
	with := func(change func(m *memstore.Store, t store.Tagged, err error) (store.Tagged, error)) func() store.Store {
		return func() store.Store {
			return tagsOf{memstore.New(), func(ctx context.Context, m *memstore.Store, prefix string) iter.Seq2[store.Tagged, error] {
				return func(yield func(store.Tagged, error) bool) {
					for t, err := range m.ListTags(ctx, prefix) {
						t, err = change(m, t, err)
						if t == (store.Tagged{}) && err == nil || !yield(t, err) {
							return
						}
					}
				}
			}}
		}
	}
	return []broken{
		{"tags values", []string{"ListTags"}, with(func(m *memstore.Store, t store.Tagged, err error) (store.Tagged, error) {
			value, _, _ := m.Get(context.Background(), t.Key)
			return store.Tagged{Key: t.Key, Tag: string(value)}, err
		}), nil},
		{"gives the same tag to all keys and states", []string{"ListTags"}, with(func(_ *memstore.Store, t store.Tagged, err error) (store.Tagged, error) {
			return store.Tagged{Key: t.Key, Tag: "tag"}, err
		}), nil},
		{"lists no tags when cancelled", []string{"ListTagsCancelled"}, with(func(_ *memstore.Store, t store.Tagged, err error) (store.Tagged, error) {
			return t, nil
		}), nil},
	}
}

// remembers lists every key that it ever had.
type remembers struct {
	*memstore.Store
	mu   sync.Mutex
	keys []string
}

func (r *remembers) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	r.mu.Lock()
	r.keys = append(r.keys, key)
	r.mu.Unlock()
	return r.Store.Put(ctx, key, prev, value)
}

func (r *remembers) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		r.mu.Lock()
		keys := r.keys
		r.mu.Unlock()
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) && !yield(key, nil) {
				return
			}
		}
	}
}

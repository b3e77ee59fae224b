package lease_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// below returns part of a store.
func below(t *testing.T, st store.Store, prefix string) store.Store {
	t.Helper()
	p, err := store.Prefix(st, prefix)
	must(t, err)
	return p
}

// bare is a store of which nothing is known.
type bare struct{ *memstore.Store }

func (bare) As(any) bool { return false }
func (bare) Traits()     {}

// Two handles on one lock would wait for each other for ever: the set is refused, also
// where the two come by the lock in different ways. What is not one lock is not.
func TestAcquireAllRefusesOneLockTwice(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		on := func(st store.Store, keyPrefix, name string) *lease.Handle {
			return handle(t, client(t, st, &lease.Options{KeyPrefix: keyPrefix}), name)
		}
		c := client(t, st, nil)
		nameless := client(t, bare{&memstore.Store{}}, nil)
		if store.TraitsOf(bare{}) != (store.Traits{}) {
			t.Fatal("the bare store has traits")
		}
		for name, two := range map[string][2]*lease.Handle{
			"one client":              {handle(t, c, "job"), handle(t, c, "job")},
			"two clients":             {handle(t, c, "job"), on(st, "", "job")},
			"an intercepted store":    {handle(t, c, "job"), on(newWire(st), "", "job")},
			"a prefix and a key":      {on(below(t, st, "a"), "b", "job"), on(st, "a/b", "job")},
			"two names":               {on(below(t, st, "a/b"), "", "job"), on(st, "a", "b/lock/job")},
			"a store without a name":  {handle(t, nameless, "job"), handle(t, nameless, "job")},
			"an odd key of a prefix":  {on(below(t, st, "a"), "b/c", "job"), on(below(t, st, "a/b"), "c", "job")},
			"as the outermost of two": {on(below(t, below(t, st, "a"), "b"), "", "x"), on(below(t, st, "a/b"), "", "x")},
		} {
			w := handle(t, c, "before") // in the order before both
			for _, take := range []func() (*lease.GuardSet, error){
				func() (*lease.GuardSet, error) { return lease.AcquireAll(ctx, w, two[0], two[1]) },
				func() (*lease.GuardSet, error) { return lease.TryAcquireAll(ctx, two[1], w, two[0]) },
			} {
				if set, err := take(); !errors.Is(err, store.ErrInvalid) {
					t.Errorf("%s: %v, %v", name, set, err)
				}
			}
		}
		for name, several := range map[string][]*lease.Handle{
			"two stores":        {handle(t, c, "job"), on(&memstore.Store{}, "", "job")},
			"two prefixes":      {on(below(t, st, "p"), "", "job"), on(below(t, st, "q"), "", "job")},
			"two nameless ones": {on(bare{&memstore.Store{}}, "", "job"), on(bare{&memstore.Store{}}, "", "job")},
		} {
			set, err := lease.TryAcquireAll(t.Context(), several...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			_ = set.Release(t.Context())
		}
		h := handle(t, c, "twice")
		set, err := lease.AcquireAll(t.Context(), h, h)
		must(t, err)
		report(t, set.Release(t.Context()))
	})
}

// Programs that take locks of one name in two stores of one name take them in the same
// order, whatever the order in which they name them.
func TestAcquireAllInOneOrderAcrossStores(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		other := &memstore.Store{}
		var wg sync.WaitGroup
		for i := range 4 {
			a, b := store.Store(newWire(st)), store.Store(newWire(other))
			if i%2 == 1 {
				a, b = b, a
			}
			first, second := handle(t, client(t, a, nil), "job"), handle(t, client(t, b, nil), "job")
			wg.Go(func() {
				for range 25 {
					set, err := lease.AcquireAll(ctx, first, second)
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					_ = set.Release(t.Context())
				}
			})
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took > time.Minute {
			t.Errorf("they took %v", took)
		}
	})
}

// sightings is a cache that many share.
type sightings struct {
	mu sync.Mutex
	m  map[[2]string]lease.Observation
}

func (s *sightings) Load(store, key string) (lease.Observation, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, ok := s.m[[2]string{store, key}]
	return got, ok
}

func (s *sightings) Save(sighting lease.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[[2]string]lease.Observation{}
	}
	key := [2]string{sighting.Store, sighting.Key}
	if old, ok := s.m[key]; !ok || old.Version != sighting.Version || old.Epoch != sighting.Epoch {
		s.m[key] = sighting
	}
}

// An observation with an impossible time makes a waiter wait no longer than none would.
func TestImpossibleObservationDelaysNoTakeover(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		const ttl = 10 * time.Second
		mustTry(t, client(t, st, &lease.Options{TTL: ttl, ManualRenewal: true}), "job")
		st = described{st, store.Traits{ID: "here"}}
		memory := &sightings{}
		wantHeld(t, client(t, st, &lease.Options{Cache: memory}), "job")
		s, ok := memory.Load("here", "lock/job")
		if !ok {
			t.Fatal("nothing was kept")
		}
		s.Monotonic = math.MinInt64
		memory.Save(s)
		ctx, cancel := context.WithTimeout(t.Context(), 2*ttl)
		defer cancel()
		g, err := client(t, st, &lease.Options{Cache: memory}).Acquire(ctx, "job", nil)
		must(t, err)
		mustRelease(t, g)
	})
}

package lease_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// On a local store a process that announces itself saves no observation of its own grants, or of a
// free lock. It saves one of what others may have to wait for: another's grant, and the time before
// which no grant may follow.
func TestCacheOfALocalStoreHoldsWhatOthersWaitFor(t *testing.T) {
	open := func() *filestore.Store {
		st, err := filestore.Open(t.TempDir(), nil)
		must(t, err)
		t.Cleanup(func() { st.Close() })
		return st
	}
	kept := func(st store.Store, o lease.Options) int {
		memory := &sightings{}
		o.Cache = memory
		c := client(t, st, &o)
		if g, err := c.TryAcquire(t.Context(), "job", nil); err == nil {
			mustRelease(t, g)
		} else if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		return len(memory.m)
	}
	st, want := open(), 0
	if _, err := st.Announce(t.Context()); err != nil {
		t.Logf("each grant is worth an observation here: %v", err)
		want = 1
	}
	if n := kept(st, lease.Options{}); n != want {
		t.Errorf("%d observations of a lock that was free all the time, want %d", n, want)
	}
	if n := kept(st, lease.Options{MinInterval: time.Hour}); n != 1 {
		t.Errorf("%d observations of a lock with a time before which it may not be taken, want 1", n)
	}
	if n := kept(open(), lease.Options{NoPresence: true}); n != 1 {
		t.Errorf("%d observations of a grant whose holder cannot be known dead, want 1", n)
	}
	other := open()
	mustTry(t, client(t, other, &lease.Options{ManualRenewal: true}), "job")
	edit(t, other, "job", func(rec *lease.Record) { rec.Process = "ANOTHER" })
	if n := kept(other, lease.Options{}); n != 1 {
		t.Errorf("%d observations of another's grant, want 1", n)
	}
}

// named returns a store that has a name, as everything that remembers needs one.
func named(t *testing.T) store.Store {
	t.Helper()
	return &namedStore{Store: &memstore.Store{}, name: "test:" + t.Name()}
}

type namedStore struct {
	store.Store
	name string
}

func (s *namedStore) Unwrap() store.Store { return s.Store }

func (s *namedStore) Traits() store.Traits {
	traits := store.TraitsOf(s.Store)
	traits.Name = s.name
	return traits
}

// An earlier process has seen the semaphore with another
// number of slots. That refuses no later one: the record has been changed since.
func TestCachedSlotCountRefusesNoHandle(t *testing.T) {
	st := named(t)
	memory := &sightings{}
	process := func() *lease.Session { return open(t, client(t, st, &lease.Options{Cache: memory})) }
	mustRelease(t, mustTake(t, with(t, process(), "job", lease.LockOptions{Slots: 2})))
	// The next process remembers the record as it is now, and the one after it still does.
	if _, err := with(t, process(), "job", lease.LockOptions{Slots: 3}).TryAcquire(t.Context()); !errors.Is(err, lease.ErrSlotCount) {
		t.Fatal(err)
	}
	must(t, errOf(client(t, st, nil).Resize(t.Context(), "job", 3)))
	mustRelease(t, mustTake(t, with(t, process(), "job", lease.LockOptions{Slots: 3})))
}

// loads counts how often a cache that has nothing is asked.
type loads struct {
	lease.Cache
	n atomic.Int32
}

func (l *loads) Load(string, string) (lease.Observation, bool) {
	l.n.Add(1)
	return lease.Observation{}, false
}

// TestCacheIsAskedOnce: before a client has read a lock, it asks a cache that does not know the lock only once.
func TestCacheIsAskedOnce(t *testing.T) {
	st, err := filestore.Open(t.TempDir(), nil)
	must(t, err)
	t.Cleanup(func() { st.Close() })
	mustRelease(t, mustTry(t, client(t, st, nil), "job"))
	cache := &loads{Cache: &sightings{}}
	g, err := client(t, st, &lease.Options{Cache: cache}).Acquire(t.Context(), "job", nil)
	must(t, err)
	mustRelease(t, g)
	if n := cache.n.Load(); n != 1 {
		t.Errorf("the cache was asked %d times, want once", n)
	}
}

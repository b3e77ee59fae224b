package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func open(*testing.T) store.Store { return new(memstore.Store) }

func TestStore(t *testing.T) {
	storetest.Run(t, open, nil)
}

func TestStorePrefixed(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := store.Prefix(memstore.New(), "p")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, &storetest.Options{MaxKey: store.MaxKey - 2, Rounds: 10})
}

func BenchmarkStore(b *testing.B) {
	storetest.Bench(b, func(*testing.B) store.Store { return memstore.New() })
}

// TestApart checks that a version of one store never fits another: a program may keep a
// version longer than the store.
func TestApart(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	v, err := a.Put(t.Context(), "job", "", []byte("same"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "job", "", []byte("same")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "job", v, nil); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a version of another store: got %v, want a conflict", err)
	}
}

func TestEmptyIsNotNil(t *testing.T) {
	s := memstore.New()
	if _, err := s.Put(t.Context(), "job", "", nil); err != nil {
		t.Fatal(err)
	}
	if value, _, err := s.Get(t.Context(), "job"); err != nil || value == nil {
		t.Errorf("got %v, %v, want an empty value that is not nil", value, err)
	}
}

// TestWatchInBubble checks that a waiting watch is durably blocked, so that the clock of a
// bubble advances. It also checks that no goroutine remains, since the bubble would wait
// for it.
func TestWatchInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Hour)
				defer cancel()
				err := s.Watch(ctx, "job", "")
				if i < 5 && !errors.Is(err, context.DeadlineExceeded) || i >= 5 && err != nil {
					t.Errorf("watch %d: %v", i, err)
				}
			})
		}
		time.Sleep(5*time.Hour + time.Minute)
		synctest.Wait()
		if _, waiting := s.Sizes(); waiting != 1 {
			t.Errorf("%d keys are watched, want 1", waiting)
		}
		if _, err := s.Put(t.Context(), "job", "", nil); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if got := time.Now(); got.Minute() == 0 {
			t.Errorf("the watches were not woken by the put but at %v", got)
		}
	})
}

// TestForgetsWatches checks that cancelled watches and deleted registers leave nothing in
// memory.
func TestForgetsWatches(t *testing.T) {
	s := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 1000 {
		wg.Go(func() { _ = s.Watch(ctx, "absent-"+strconv.Itoa(i%100), "") })
		v, err := s.Put(ctx, "job", "", nil)
		if err == nil {
			err = s.Delete(ctx, "job", v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
	if registers, waiting := s.Sizes(); registers != 0 || waiting != 0 {
		t.Errorf("%d registers and %d watched keys are left", registers, waiting)
	}
}

func Example() {
	ctx := context.Background()
	var s memstore.Store
	v, err := s.Put(ctx, "job", "", []byte("one"))
	fmt.Println(err)
	_, err = s.Put(ctx, "job", v, []byte("two"))
	fmt.Println(err)
	_, err = s.Put(ctx, "job", v, []byte("three"))
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// put job in memory: "job" does not have the version that the write requires
}

package trylock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/lease/trylock"
)

// locks is a store with a try-lock, in memory.
type locks struct {
	mu sync.Mutex
	m  map[string]entry
}

type entry struct {
	holder     string
	end        time.Time
	generation uint64
}

func (l *locks) TryLock(_ context.Context, key, holder string, d time.Duration) (uint64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, now := l.m[key], time.Now()
	if e.holder != holder && now.Before(e.end) {
		return 0, false, nil
	}
	if e.holder != holder {
		e.holder, e.generation = holder, e.generation+1
	}
	e.end = now.Add(d)
	l.m[key] = e
	return e.generation, true, nil
}

// Two programs use one store. The second gets the lock after the release of the first.
func Example() {
	ctx := context.Background()
	store := &locks{m: map[string]entry{}}
	mine, err1 := trylock.New(store, "sync", nil)
	theirs, err2 := trylock.New(store, "sync", nil)
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	guard, err := mine.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = theirs.TryAcquire(ctx)
	fmt.Println("held:", errors.Is(err, lease.ErrHeld))
	fmt.Println("token", guard.Token(), "released:", guard.Release(ctx) == nil)

	guard, err = theirs.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("token", guard.Token(), "released:", guard.Release(ctx) == nil)
	// Output:
	// held: true
	// token 1 released: true
	// token 2 released: true
}

// Goroutines of a program share a handle, and each has a guard of its own.
func ExampleHandle() {
	ctx := context.Background()
	handle, err := trylock.New(&locks{m: map[string]entry{}}, "cache", &trylock.Options{TTL: 10 * time.Second})
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err1 := handle.Acquire(ctx)
	second, err2 := handle.Acquire(ctx) // without a request
	if err := errors.Join(err1, err2); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("one grant:", first.Token() == second.Token())
	fmt.Println(errors.Join(first.Release(ctx), second.Release(ctx)))

	again, err := handle.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("a cache is still valid:", again.WasLastHolder())
	fmt.Println(again.Release(ctx))
	// Output:
	// one grant: true
	// <nil>
	// a cache is still valid: true
	// <nil>
}

package lease_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// lookers counts the requests that n waiters of one client send in a minute, through one
// handle or one each.
func lookers(t *testing.T, n int, oneHandle bool) (requests int) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		mustTry(t, client(t, st, nil), "job")
		w := newWire(hidden{st})
		c := client(t, w, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h := handle(t, c, "job")
		var all sync.WaitGroup
		for range n {
			h := h
			if !oneHandle {
				h = handle(t, c, "job")
			}
			all.Go(func() {
				if g, err := h.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) {
					t.Errorf("%v, %v", g, err)
				}
			})
		}
		all.Wait()
		requests = w.requests()
	})
	return requests
}

// Twenty that wait cost the requests of one.
func TestWaitersOfAClientShareReads(t *testing.T) {
	one := lookers(t, 1, true)
	for _, oneHandle := range []bool{true, false} {
		// The random part of the pauses differs: of a tenth of them, and of the first.
		if twenty := lookers(t, 20, oneHandle); one < 30 || twenty > one+one/5 {
			t.Errorf("one handle: %v; 20 waiters send %d requests in a minute, one sends %d", oneHandle, twenty, one)
		}
	}
}

// Each waits for as long as its own context, the first too. The next one continues the pause that
// was begun, and the last continues the watch of the first: it takes over from a dead holder as
// soon as if it had read itself from the beginning.
func TestWaitersEndWithTheirOwnContexts(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		mustTry(t, client(t, st, &lease.Options{ManualRenewal: true}), "job")
		w := newWire(hidden{st})
		looks := 0 // and writes; not counted: the renewals of a session, and the reads of that of the holder
		w.set(func(op *store.Op) fault {
			if op.Key == "lock/job" {
				looks++
			}
			return pass
		})
		c := client(t, w, nil)
		began := time.Now()
		const waiters = 100
		var all sync.WaitGroup
		for i := range waiters {
			h := handle(t, c, "job")
			all.Go(func() {
				limit := time.Duration(i+1) * 250 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				if g, err := h.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lease.ErrHeld) || time.Since(began) != limit {
					t.Errorf("waiter %d: %v, %v after %v", i, g, err, time.Since(began))
				}
			})
		}
		all.Go(func() {
			g, err := handle(t, c, "job").Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if took := time.Since(began); took < ttl || took > ttl+ttl/10 {
				t.Errorf("taken over after %v", took)
			}
			mustRelease(t, g)
		})
		all.Wait()
		w.set(nil)
		if looks > 50 {
			t.Errorf("%d requests for the lock in %v", looks, time.Since(began))
		}
	})
}

// Those who wait have the lock in the order of their coming, also where the holder wants
// it again at once; and each as soon as it is released.
func TestWaitersTakeTurns(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, newWire(hidden{st}), nil)
		var (
			mu    sync.Mutex
			order []int
			all   sync.WaitGroup
		)
		const rounds, handles = 10, 40
		for i := range handles {
			all.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Millisecond)
				h := handle(t, c, "job")
				for range rounds {
					g, err := h.Acquire(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					mustRelease(t, g)
				}
			})
		}
		began := time.Now()
		all.Wait()
		for i := range order {
			if order[i] != i%handles {
				t.Fatalf("the order is %v", order)
			}
		}
		if took := time.Since(began); took > rounds*handles*110*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// When one goroutine of a handle takes the lock, all its waiting goroutines get a guard.
func TestWaitersOfOneHandleJoin(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, hidden{st}, nil)
		held := mustTry(t, client(t, st, nil), "job")
		first := handle(t, c, "job")
		h := handle(t, c, "job")
		var all sync.WaitGroup
		var mu sync.Mutex
		var tokens []uint64
		for i := range 10 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				of := h
				if i == 0 {
					of = first // the goroutine whose turn it is has another handle
				}
				g, err := of.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if i > 0 {
					mu.Lock()
					tokens = append(tokens, g.Token())
					mu.Unlock()
				}
				time.Sleep(time.Second)
				mustRelease(t, g)
			})
		}
		time.Sleep(time.Minute)
		mustRelease(t, held)
		began := time.Now()
		g := mustTake(t, h)
		time.Sleep(100 * time.Millisecond)
		mustRelease(t, g)
		all.Wait()
		if len(tokens) != 9 || len(slices.Compact(tokens)) != 1 || time.Since(began) > 10*time.Second {
			t.Errorf("tokens %v after %v", tokens, time.Since(began))
		}
	})
}

// The store timeout begins for all waiters at once when the store fails.
func TestWaitersStoreTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		for _, f := range []fault{drop, hang} {
			w := newWire(hidden{st})
			w.set(everything(f))
			c := client(t, w, &lease.Options{StoreTimeout: 5 * time.Second})
			began := time.Now()
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					g, err := handle(t, c, "job").Acquire(t.Context())
					if took := time.Since(began); err == nil || took < 5*time.Second || took > 20*time.Second {
						t.Errorf("%v, %v after %v", g, err, took)
					}
				})
			}
			all.Wait()
		}
	})
}

// eager is a store whose watcher and whose word of a death come without reason.
type eager struct {
	store.Store
	watches bool
}

func (e *eager) As(target any) bool {
	switch target := target.(type) {
	case *store.Watcher:
		if e.watches {
			*target = e
		}
		return e.watches
	case *store.Presence:
		*target = e
		return true
	}
	return false
}

func (e *eager) Watch(context.Context, string, store.Version) error { return nil }
func (e *eager) Announce(context.Context) (string, error)           { return "here", nil }
func (e *eager) Liveness(context.Context, string) store.Liveness    { return store.LivenessUnknown }
func (e *eager) WaitLiveness(context.Context, string) error         { return nil }

// brokenWatcher is a watcher that has none left to give.
type brokenWatcher struct{ store.Store }

func (w brokenWatcher) Unwrap() store.Store { return w.Store }

func (w brokenWatcher) Watch(context.Context, string, store.Version) error {
	return errors.New("no watches left")
}

// Where the store's watcher fails, a waiter reads as often as on a store that has none.
func TestWatcherThatFails(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, brokenWatcher{st}, nil)
		for i := range 20 {
			g := mustTry(t, client(t, st, nil), "job")
			var released time.Time
			time.AfterFunc(time.Duration(10+i)*time.Second, func() {
				released = time.Now()
				_ = g.Release(context.Background())
			})
			next := mustAcquire(t, c, "job")
			if took := time.Since(released); took > lease.DefaultMaxPoll {
				t.Errorf("the lock lay idle for %v", took)
			}
			mustRelease(t, next)
		}
	})
}

// A watcher that returns without a change, or a word of a death that is none, costs a
// waiter hardly more requests than none.
func TestWatcherWithoutReason(t *testing.T) {
	for _, watches := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			e := &eager{Store: st, watches: watches}
			held := mustTry(t, client(t, e, nil), "job")
			w := newWire(e)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := client(t, w, nil).Acquire(ctx, "job", nil); !errors.Is(err, lease.ErrHeld) {
				t.Fatal(err)
			}
			if n := w.requests(); n > 60 {
				t.Errorf("watches: %v; %d requests in a minute", watches, n)
			}
			mustRelease(t, held)
		})
	}
}

package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// slowly is st by a network in which a request takes up to most, in each direction, and in which a
// part of the replies to writes is lost.
func slowly(st store.Store, seed uint64, most time.Duration, lost float64) store.Store {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 7))
	draw := func() (there, back time.Duration, loses bool) {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(most))), time.Duration(random.Int64N(int64(most))), random.Float64() < lost
	}
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpWatch {
			return next(ctx, op)
		}
		there, back, loses := draw()
		time.Sleep(there)
		err := next(ctx, op)
		time.Sleep(back)
		if loses && op.Kind.Write() {
			return &store.InDoubtError{Version: op.Version, Err: errNetwork}
		}
		return err
	})
}

// A session, or its client, is closed at any moment while its locks are acquired, waited for,
// asked for, handed over and kept, and a writer waits for readers of its own session. When Close has returned nil no record names a grant
// of it, and another session has each lock at once when the others have left it.
func TestCloseDuringUse(t *testing.T) {
	kinds := []struct {
		name string
		o    lease.LockOptions
	}{
		{"plain", lease.LockOptions{}}, {"fair", lease.LockOptions{Fair: true}},
		{"rw", lease.LockOptions{Shared: true}}, {"rw", lease.LockOptions{Fair: true}}, {"rw", lease.LockOptions{}},
		{"slots", lease.LockOptions{Slots: 2}}, {"kept", lease.LockOptions{Linger: time.Minute}},
	}
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				random := rand.New(rand.NewPCG(seed, 1))
				reached := st
				if seed%2 == 1 {
					reached = hidden{st}
				}
				const way = 30 * time.Millisecond
				c := client(t, slowly(reached, seed, way, 0.1*float64(seed%3)), nil)
				other := client(t, slowly(reached, seed+1000, way, 0), nil)
				s, stays := open(t, c), open(t, other)
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for _, of := range []*lease.Session{s, s, stays} {
					for _, k := range kinds {
						h, r := with(t, of, k.name, k.o), rand.New(rand.NewPCG(random.Uint64(), 1))
						upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
						all.Go(func() {
							for ctx.Err() == nil && of.Err() == nil {
								wait, end := context.WithTimeout(ctx, upTo(2*time.Second))
								_ = h.Do(wait, func(ctx context.Context, g *lease.Guard) error {
									select {
									case <-time.After(upTo(300 * time.Millisecond)):
									case <-ctx.Done():
									}
									return nil
								})
								end()
								time.Sleep(upTo(20 * time.Millisecond))
							}
						})
					}
				}
				all.Go(func() {
					for ctx.Err() == nil {
						for _, k := range kinds {
							_, _ = other.RequestYield(ctx, k.name, nil)
							time.Sleep(50 * time.Millisecond)
						}
					}
				})
				time.Sleep(time.Duration(random.Int64N(int64(8 * time.Second))))
				end := s.Close
				if seed%5 == 0 {
					end = c.Close
				}
				if err := end(t.Context()); err == nil {
					for _, k := range kinds {
						rec := record(t, st, k.name)
						if rec.State == lease.Held && rec.Session == s.ID() {
							t.Errorf("%+v", rec)
						}
						for _, m := range append(rec.Holders, rec.Queue...) {
							if m.Session == s.ID() {
								t.Errorf("%+v", rec)
							}
						}
					}
				} else if seed%3 == 0 { // no reply was lost
					t.Errorf("Close: %v", err)
				}
				time.Sleep(time.Second)
				cancel()
				all.Wait()
				for _, k := range kinds {
					wait, end := context.WithTimeout(t.Context(), 2*lease.DefaultMaxPoll)
					g, err := with(t, stays, k.name, k.o).Acquire(wait)
					end()
					if err != nil {
						t.Errorf("%s: %v; %+v", k.name, err, record(t, st, k.name))
						continue
					}
					mustRelease(t, g)
				}
			})
		})
	}
}

// A release ends its goroutine: a Close that has released nothing returns an error.
func TestCloseOfAReleaseThatEndsItsGoroutine(t *testing.T) {
	st, closing := memstore.New(), false
	c, err := lease.New(store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if closing && op.Kind.Write() {
			runtime.Goexit()
		}
		return next(ctx, op)
	}), nil)
	must(t, err)
	_, err = c.TryAcquire(t.Context(), "job", nil)
	must(t, err)
	closing = true
	if err := c.Close(t.Context()); err == nil {
		t.Error("Close returns nil")
	}
	wantState(t, client(t, st, nil), "job", lease.Held)
}

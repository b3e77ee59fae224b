package lease_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// polledAt is st without reports of changes, at a distance at which a request takes about that
// long.
func polledAt(st store.Store, latency time.Duration) store.Store {
	random := newLuck(uint64(latency), 12)
	return hidden{atDistance(st, func() time.Duration {
		return time.Duration((0.8 + 0.4*random.Float64()) * float64(latency))
	})}
}

// Clients that request the locks of a session, over and over, do not keep it from its renewals.
func TestAskersLoseNoSession(t *testing.T) {
	for _, latency := range []time.Duration{750 * time.Millisecond, 2 * time.Second} {
		t.Run(fmt.Sprint(latency), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				far := polledAt(st, latency)
				s := open(t, client(t, far, nil))
				var askers sync.WaitGroup
				var asked atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				for i := range 10 {
					name := fmt.Sprint("job", i)
					g := mustAcquire(t, s, name)
					defer g.Release(t.Context())
				}
				for i := range 10 {
					name := fmt.Sprint("job", i)
					askers.Go(func() {
						for ctx.Err() == nil && s.Err() == nil {
							c := client(t, far, nil) // a process for each
							if _, err := c.RequestYield(ctx, name, nil); err == nil {
								asked.Add(1)
							} else if ctx.Err() == nil && s.Err() == nil {
								t.Error(err)
							}
						}
					})
				}
				askers.Wait()
				if err := s.Err(); err != nil {
					t.Errorf("after %d requests: %v", asked.Load(), err)
				}
				t.Log(asked.Load(), "asks")
			})
		})
	}
}

// Clients that request many locks of a session at the same time wait for its renewals, for longer
// than a TTL if necessary, although its options leave time for only one conflict.
func TestManyAskersLoseNoSession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		far := polledAt(st, ttl/24)
		o := &lease.Options{Grace: 5 * time.Second, Tuning: lease.Tuning{Margin: 9 * time.Second, RenewInterval: 11 * time.Second}}
		s := open(t, client(t, far, o))
		var guards []*lease.Guard
		var askers sync.WaitGroup
		for i := range 40 {
			g, err := s.Acquire(t.Context(), fmt.Sprint("job", i), nil)
			must(t, err)
			guards = append(guards, g)
		}
		for _, g := range guards {
			c := client(t, far, o)
			askers.Go(func() {
				report(t, errOf(c.RequestYield(t.Context(), g.Name(), nil)))
			})
		}
		askers.Wait()
		time.Sleep(2 * ttl)
		report(t, s.Err())
		for _, g := range guards {
			if _, ok := g.YieldRequest(); !ok {
				t.Errorf("the holder of %s has not read the request to yield", g.Name())
			}
		}
	})
}

// Many that begin to wait at the same time do not keep the holder from its renewals.
func TestManyWaitersLoseNoLease(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 5 * time.Second, 30 * time.Second} {
		parts := []time.Duration{200, 50, 12}
		if ttl > 5*time.Second {
			parts = parts[2:] // the shorter a TTL, the more a request takes of it
		}
		for _, part := range parts {
			for name, o := range map[string]lease.LockOptions{"fair": {Fair: true}, "not fair": {}} {
				t.Run(fmt.Sprint(ttl, " at ", ttl/part, " ", name), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						far := polledAt(st, ttl/part)
						c := client(t, far, &lease.Options{TTL: ttl})
						h := with(t, c, "job", lease.LockOptions{Linger: time.Minute})
						g := acquired(t, h)
						ctx, cancel := context.WithTimeout(t.Context(), 10*ttl)
						defer cancel()
						var waiters sync.WaitGroup
						for range 40 {
							s := open(t, client(t, far, &lease.Options{TTL: ttl}))
							w := with(t, s, "job", o)
							waiters.Go(func() {
								if _, err := w.Acquire(ctx); !errors.Is(err, lease.ErrHeld) {
									t.Error(err)
								}
							})
						}
						waiters.Wait()
						report(t, g.Err())
					})
				})
			}
		}
	}
}

var requestTime = flag.Duration("request", 100*time.Millisecond, "how long a request of TestQueueOfShortWaits takes; above the default, the test checks nothing")

// A queue of many whose waits are short hands the lock out, though each wait writes the record twice. A
// waiter enters it only if its turn comes well before its wait ends.
func TestQueueOfShortWaits(t *testing.T) {
	latency := *requestTime
	for _, pushes := range []bool{false, true} {
		t.Run(fmt.Sprint("pushes ", pushes), func(t *testing.T) {
			grants := map[bool]int{}
			for _, fair := range []bool{true, false} {
				bubble(t, func(t *testing.T, st store.Store) {
					far := polledAt(st, latency)
					if pushes {
						far = atDistance(st, func() time.Duration { return latency })
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					var waiters sync.WaitGroup
					var n atomic.Int32
					for range 40 {
						h := with(t, open(t, client(t, far, nil)), "job", lease.LockOptions{Fair: fair})
						waiters.Go(func() {
							for ctx.Err() == nil {
								wait, end := context.WithTimeout(ctx, 2*time.Second)
								g, err := h.Acquire(wait)
								end()
								if err != nil {
									continue
								}
								n.Add(1)
								time.Sleep(100 * time.Millisecond)
								report(t, g.Release(t.Context()))
							}
						})
					}
					waiters.Wait()
					grants[fair] = int(n.Load())
				})
			}
			t.Logf("requests of %v: %d grants, %d of a lock that is not fair", latency, grants[true], grants[false])
			if 2*grants[true] < grants[false] && latency <= 100*time.Millisecond {
				t.Errorf("%d grants; want half of the %d of a lock that is not fair", grants[true], grants[false])
			}
		})
	}
}

// A waiter with short deadlines that has once seen its queue stand still gets its turn when the
// queue moves again, although it is never empty.
func TestShortWaitsReturnToAQueueThatWasSlow(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		fair := lease.LockOptions{Fair: true}
		g := mustTake(t, with(t, opened(t, st), "job", fair))
		h := with(t, opened(t, st), "job", fair)
		wait, end := context.WithTimeout(t.Context(), time.Minute)
		if _, err := h.Acquire(wait); err == nil {
			t.Fatal("two holders")
		}
		end()
		must(t, g.Release(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		for range 3 {
			other := with(t, opened(t, st), "job", fair)
			go func() {
				for ctx.Err() == nil {
					if g, err := other.Acquire(ctx); err == nil {
						time.Sleep(time.Second)
						_ = g.Release(t.Context())
					}
				}
				done <- true
			}()
		}
		time.Sleep(10 * time.Second)
		since, got := time.Now(), false
		for time.Since(since) < 2*time.Hour && !got {
			wait, end := context.WithTimeout(t.Context(), 30*time.Second)
			g, err := h.Acquire(wait)
			end()
			if got = err == nil; got {
				_ = g.Release(t.Context())
			}
		}
		if !got {
			t.Error("no turn in two hours")
		}
		cancel()
		for range 3 {
			<-done
		}
	})
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// roundTrip is how long a request takes to a store over a network, and back, on average.
const roundTrip = 10 * time.Millisecond

// remoteOf returns st over a network on which each way takes between half and one and a half of its
// average. It reports no changes.
func remoteOf(st store.Store, seed uint64) *wire {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	way := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return roundTrip/4 + time.Duration(random.Int64N(int64(roundTrip/2)))
	}
	return newWire(store.Intercept(hidden{st}, func(ctx context.Context, op *store.Op, next store.Handler) error {
		time.Sleep(way())
		err := next(ctx, op)
		time.Sleep(way())
		return err
	}))
}

// handOver measures waiters whose locks are released after between from and from and a
// half: what one waiter has sent until then, and the median time from the release to
// the grant.
func handOver(t *testing.T, from time.Duration) (requests float64, median time.Duration) {
	const waiters = 100
	took := make([]time.Duration, waiters)
	bubble(t, func(t *testing.T, st store.Store) {
		random := rand.New(rand.NewPCG(2, 3))
		var wires []*wire
		sent := func() (n int) {
			for _, w := range wires {
				n += w.requests()
			}
			return n
		}
		write := func(name string, state lease.State, prev store.Version) store.Version {
			value, err := lease.Encode(&lease.Record{Name: name, State: state, Token: 1, Grant: name, Nonce: name, TTL: time.Hour})
			must(t, err)
			v, err := st.Put(t.Context(), "lock/"+name, prev, value)
			must(t, err)
			return v
		}
		var all sync.WaitGroup
		for i := range waiters {
			name := fmt.Sprint("job", i)
			v := write(name, lease.Held, "")
			// Each has a network and a luck of its own, so that every run is the same.
			w := remoteOf(st, uint64(i))
			wires = append(wires, w)
			c := client(t, w, nil)
			lease.SetRandom(c, newLuck(6, uint64(i)).Float64)
			var released time.Time
			time.AfterFunc(from+time.Duration(random.Int64N(int64(from/2))), func() {
				released = time.Now()
				write(name, lease.Free, v)
			})
			all.Go(func() {
				g, err := c.Acquire(t.Context(), name, nil)
				if err != nil {
					t.Error(err)
					return
				}
				took[i] = time.Since(released)
				mustRelease(t, g)
			})
		}
		time.Sleep(from)
		requests = float64(sent()) / waiters
		all.Wait()
	})
	slices.Sort(took)
	return requests, took[waiters/2]
}

// How long a released lock is idle, and what that costs, on a store that does not report changes.
// dynamolock, measured for comparison in bench, sends 59 requests a minute at any time of a wait, for
// a median of 0.5 s.
func TestPollSchedule(t *testing.T) {
	for _, c := range []struct {
		from     time.Duration
		median   time.Duration
		requests float64
	}{
		{30 * time.Second, 500 * time.Millisecond, 43},
		{time.Minute, 550 * time.Millisecond, 82},
		{3 * time.Minute, 1300 * time.Millisecond, 3 * 59},
		{10 * time.Minute, 1300 * time.Millisecond, 10 * 35},
	} {
		requests, median := handOver(t, c.from)
		t.Logf("after %v: %.0f requests, median %v", c.from, requests, median.Round(time.Millisecond))
		if median > c.median || requests > c.requests {
			t.Errorf("after %v: %.0f requests, and a median of %v; want at most %.0f, and %v", c.from, requests, median, c.requests, c.median)
		}
	}
}

// pausesOf returns the times between the requests of a waiter that waits in vain for the lock job.
func pausesOf(t *testing.T, st store.Store, o *lease.Options, wait time.Duration) (pauses []time.Duration) {
	t.Helper()
	var last time.Time
	w := newWire(hidden{st})
	w.set(func(*store.Op) fault {
		now := time.Now()
		if !last.IsZero() {
			pauses = append(pauses, now.Sub(last))
		}
		last = now
		return pass
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if _, err := client(t, w, o).Acquire(ctx, "job", nil); !errors.Is(err, lease.ErrHeld) {
		t.Fatal(err)
	}
	return pauses
}

// The pause stays below a third of the record's TTL, whatever the waiter's options are.
func TestPollsWithinTheTTL(t *testing.T) {
	for _, o := range []*lease.Options{nil, {Tuning: lease.Tuning{MinPoll: 25 * time.Second, MaxPoll: time.Minute}}} {
		bubble(t, func(t *testing.T, st store.Store) {
			mustTry(t, client(t, st, &lease.Options{TTL: 3 * time.Second}), "job")
			pauses := pausesOf(t, st, o, 10*time.Minute)
			if longest := slices.Max(pauses); longest >= time.Second {
				t.Errorf("a pause of %v", longest)
			}
			if looks := len(pauses) + 1; looks > 700 {
				t.Errorf("%d reads in ten minutes", looks)
			}
		})
	}
}

// greedy takes the lock again as soon as it has released it, until ctx ends, and counts.
func greedy(t *testing.T, ctx context.Context, h *lease.Handle, work time.Duration) (grants int) {
	for {
		g, err := h.Acquire(ctx)
		if err != nil {
			return grants
		}
		grants++
		time.Sleep(work)
		report(t, g.Release(t.Context()))
	}
}

// Processes take one lock again and again at once: none is kept out, on a store that reports
// changes and on one that does not, by short work and by long.
func TestGreedyHolders(t *testing.T) {
	for _, c := range []struct {
		name       string
		holders    int
		work, long time.Duration
		least      int
		reach      func(st store.Store, i int) store.Store
	}{
		{"polling, short", 6, 100 * time.Millisecond, time.Minute, 3, func(st store.Store, i int) store.Store { return remoteOf(st, uint64(i)) }},
		{"polling, long", 6, 3 * time.Second, 10 * time.Minute, 10, func(st store.Store, i int) store.Store { return remoteOf(st, uint64(i)) }},
		// A holder keeps the lock to itself for up to a minute, until it knows of the others.
		{"with reports of changes", 12, 100 * time.Millisecond, 3 * time.Minute, 10, func(st store.Store, i int) store.Store { return st }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				ctx, cancel := context.WithTimeout(t.Context(), c.long)
				defer cancel()
				grants := make([]int, c.holders)
				var all sync.WaitGroup
				for i := range grants {
					h := handle(t, client(t, c.reach(st, i), nil), "job")
					all.Go(func() {
						// The first cannot know of the others.
						time.Sleep(time.Duration(i) * 5 * time.Second / time.Duration(c.holders))
						grants[i] = greedy(t, ctx, h, c.work)
					})
				}
				all.Wait()
				t.Logf("grants in %v: %v", c.long, grants)
				if slices.Min(grants) < c.least {
					t.Errorf("grants in %v: %v", c.long, grants)
				}
			})
		})
	}
}

// After a failed read, a waiter reads as seldom as after a long wait, for a minute: if many programs wait,
// the store refuses their reads.
func TestPausesAfterAFailedRead(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		held := mustTry(t, client(t, st, nil), "job")
		w := newWire(hidden{st})
		var failed time.Time
		var reads []time.Time
		w.set(func(op *store.Op) fault {
			if reads = append(reads, time.Now()); len(reads) == 10 {
				failed = time.Now()
				return drop
			}
			return pass
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := client(t, w, nil).Acquire(ctx, "job", nil); !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		w.set(nil)
		for i := 12; i < len(reads) && reads[i].Before(failed.Add(time.Minute)); i++ {
			if pause := reads[i].Sub(reads[i-1]); pause < lease.DefaultMaxPoll*9/10 {
				t.Errorf("%v after a failed read, a pause of %v", reads[i].Sub(failed), pause)
			}
		}
		mustRelease(t, held)
	})
}

// If the store refuses the claim of a free lock, another client may have the lock by now. The waiter reads
// the record before its next claim, so that the claims of many do not keep the new holder from its renewals.
func TestRefusedClaimIsFollowedByARead(t *testing.T) {
	for _, exists := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			if exists {
				mustRelease(t, mustTry(t, client(t, st, nil), "job"))
			}
			w := newWire(hidden{st})
			read, refused := false, 0
			w.set(func(op *store.Op) fault {
				if !op.Kind.Write() {
					read = true
					return pass
				}
				if refused++; refused > 1 && !read {
					t.Errorf("the record exists: %v; two claims in a row without a read", exists)
				}
				read = false
				return fail
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := client(t, w, &lease.Options{AssumeNew: true}).Acquire(ctx, "job", nil); err == nil || refused < 10 {
				t.Errorf("%v after %d refused claims", err, refused)
			}
			w.set(nil)
		})
	}
}

package s3verstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/compat/s3verstore"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// rounds is how often a campaign is repeated.
func rounds(few, many int) int {
	if os.Getenv("HOLDFAST_TORTURE") == "1" {
		return many
	}
	return few
}

// trouble makes everything go wrong that the assumption allows: requests take their
// time and fail, answers are lost, PUTs are lost, applied twice, or take up to L to
// become visible, out of order.
func trouble(rnd *rand.Rand) func(awstest.Request) awstest.Fault {
	n := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }
	return func(q awstest.Request) awstest.Fault {
		p := awstest.Fault{After: n(300 * time.Millisecond)}
		if rnd.IntN(25) == 0 {
			p.Lose = true
		}
		if q.Op != "PutObject" {
			p.Before = n(300 * time.Millisecond)
			if rnd.IntN(25) == 0 {
				p.Status, p.Code = 503, "SlowDown"
			}
			return p
		}
		switch rnd.IntN(12) {
		case 0:
			p.Drop = true
		case 1:
			// The first duplicate may become visible after the second, and after other entries.
			p.Twice, p.Between, p.After = true, n(2*time.Second), n(time.Second)
			if rnd.IntN(2) == 0 {
				p.Early = n(4500 * time.Millisecond)
			}
		case 2, 3, 4:
			// This entry may become visible after entries that are later in the log.
			p.Before, p.Hidden = n(2400*time.Millisecond), n(2400*time.Millisecond)
		case 5:
			p.After = n(10 * time.Second)
		default:
			p.Before, p.Hidden = n(300*time.Millisecond), n(time.Second)
		}
		return p
	}
}

// TestRegisterHistories: with everything going wrong that may, and listings in pages of a few
// versions, one register explains what all clients saw.
func TestRegisterHistories(t *testing.T) {
	histories(t, rounds(20, 3000), 4, 10, 1, func(t *testing.T, _ int, b *awstest.S3, _ *rand.Rand) func() func() store.Store {
		return func() func() store.Store {
			s := open(t, b, nil)
			return func() store.Store { return s }
		}
	})
}

// histories lets clients make calls on one register, in so many rounds, and demands
// that one register explains what all of them saw. join says for a round how a client
// begins; what that returns is the store of its next call. Each round has random numbers
// of its own, from stream on.
func histories(t *testing.T, seeds, clients, calls int, stream uint64, join func(t *testing.T, seed int, b *awstest.S3, rnd *rand.Rand) func() func() store.Store) {
	var n tally
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			defer drain()
			rnd := newRand(uint64(seed), stream)
			b := newBucket()
			b.Plan(trouble(rnd))
			b.PageSize, b.ULIDs = 2+rnd.IntN(5), rnd.IntN(2) == 0
			begin := join(t, seed, b, rnd)
			var h storetest.History
			var wg sync.WaitGroup
			for c := range clients {
				next := begin()
				own := newRand(uint64(seed), stream+1+uint64(c))
				wg.Go(func() {
					for range calls {
						work(t.Context(), h.Record(next()), own, &n)
						time.Sleep(time.Duration(own.Int64N(int64(3 * time.Second))))
					}
				})
			}
			wg.Wait()
			if err := h.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
	}
	t.Logf("%d writes, %d conflicts, %d unknown, %d reads", n.puts.Load(), n.conflicts.Load(), n.unknown.Load(), n.reads.Load())
	if n.puts.Load() == 0 || n.conflicts.Load() == 0 || n.unknown.Load() == 0 || n.reads.Load() == 0 {
		t.Error("something never happened")
	}
}

// tally counts the outcome of calls.
type tally struct{ puts, conflicts, unknown, reads atomic.Int64 }

// work does one operation, on what a look without a pause shows.
func work(ctx context.Context, s store.Store, rnd *rand.Rand, n *tally) {
	const key = "k"
	if rnd.IntN(3) == 0 {
		if _, _, err := s.Get(ctx, key); err == nil {
			n.reads.Add(1)
		}
		return
	}
	_, v, err := store.GetUncommitted(ctx, s, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return
	}
	value := fmt.Append(nil, rnd.Uint64())
	switch kind := rnd.IntN(5); {
	case kind == 0 && v != "":
		err = s.Delete(ctx, key, v)
	case kind == 1:
		_, err = store.PutUnsynced(ctx, s, key, v, value)
	default:
		_, err = s.Put(ctx, key, v, value)
	}
	switch store.OutcomeOf(err) {
	case store.Applied:
		n.puts.Add(1)
	case store.Unknown:
		n.unknown.Add(1)
	case store.NotApplied:
		n.conflicts.Add(1)
	}
}

// TestBrokenAssumption: PUTs that take effect at any time, long after L, lose no
// write that was acknowledged with a confirmation, and let no client into a lock together with
// its owner; tokens rise. Nothing else is promised then.
func TestBrokenAssumption(t *testing.T) {
	var grants, late atomic.Int64
	for seed := range rounds(4, 1500) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { broken(t, uint64(seed), &grants, &late) })
		})
	}
	t.Logf("%d grants, %d late PUTs", grants.Load(), late.Load())
	if grants.Load() == 0 || late.Load() == 0 {
		t.Error("something never happened")
	}
}

// broken lets three clients fight for a lock while PUTs take effect when they like.
func broken(t *testing.T, seed uint64, grants, late *atomic.Int64) {
	defer drain()
	rnd := newRand(seed, 1)
	b := newBucket()
	ordinary := trouble(rnd)
	b.Plan(func(q awstest.Request) awstest.Fault {
		p := ordinary(q)
		if q.Op == "PutObject" && rnd.IntN(6) == 0 {
			late.Add(1)
			p.Hidden = time.Duration(rnd.Int64N(int64(3 * time.Minute)))
		}
		if q.Op == "PutObject" && rnd.IntN(6) == 0 {
			p.Echo = time.Duration(rnd.Int64N(int64(5 * time.Minute)))
		}
		if q.Op == "PutObject" && rnd.IntN(6) == 0 {
			p = awstest.Fault{Twice: true, Early: time.Duration(rnd.Int64N(int64(20 * time.Second))), Between: time.Duration(rnd.Int64N(int64(3 * time.Second)))}
		}
		return p
	})
	var log fight
	var wg sync.WaitGroup
	for c := range 3 {
		ttl := []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute}[rnd.IntN(3)]
		client := leases(t, b, &lease.Options{TTL: ttl})
		own := newRand(seed, uint64(c+2))
		wg.Go(func() {
			for range 4 {
				log.round(t, client, own)
			}
		})
	}
	wg.Wait()
	grants.Add(int64(log.grants()))

	// When all is well again, the lock can be had.
	drain()
	b.Plan(nil)
	before := log.grants()
	if log.round(t, leases(t, b, nil), rnd); log.grants() == before {
		t.Error("no client gets the lock any more")
	}
}

// fight watches who holds a lock.
type fight struct {
	mu     sync.Mutex
	owner  *lease.Guard
	tokens []uint64
}

func (f *fight) grants() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tokens)
}

// round acquires the lock, holds it for a while, and releases it or leaves it.
func (f *fight) round(t *testing.T, c *lease.Client, rnd *rand.Rand) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	g, err := c.Acquire(ctx, "job", nil)
	if err != nil {
		time.Sleep(10 * time.Second)
		return
	}
	f.mu.Lock()
	if f.owner != nil && f.owner.Err() == nil {
		t.Errorf("token %d was granted while %d is held", g.Token(), f.owner.Token())
	}
	if len(f.tokens) > 0 && g.Token() <= slices.Max(f.tokens) {
		t.Errorf("token %d after %v", g.Token(), f.tokens)
	}
	f.owner = g
	f.tokens = append(f.tokens, g.Token())
	f.mu.Unlock()
	hold := time.NewTimer(time.Duration(rnd.Int64N(int64(4 * time.Minute))))
	defer hold.Stop()
	select {
	case <-hold.C:
	case <-g.Context().Done():
	}
	_ = g.Release(t.Context()) // one that fails is waited out by the others
}

// TestNoSettleDelay is the control of the campaigns: without a pause two writers win from
// one state.
func TestNoSettleDelay(t *testing.T) {
	double := 0
	for seed := range 60 {
		synctest.Test(t, func(t *testing.T) {
			b := newBucket()
			rnd := newRand(uint64(seed), 1)
			b.Latency = 20 * time.Millisecond
			v := mustPut(t, open(t, b, nil), "k", "", "0")
			b.Plan(func(q awstest.Request) awstest.Fault {
				if q.Op != "PutObject" {
					return awstest.Fault{}
				}
				return awstest.Fault{Hidden: time.Duration(rnd.Int64N(int64(200 * time.Millisecond)))}
			})
			var wg sync.WaitGroup
			var wins atomic.Int64
			for range 8 {
				s := open(t, b, &s3verstore.Options{SettleDelay: 1, PutLifetime: time.Hour, UnsafeTimes: true})
				wg.Go(func() {
					if _, err := s.Put(t.Context(), "k", v, []byte("1")); err == nil {
						wins.Add(1)
					}
				})
			}
			wg.Wait()
			if wins.Load() > 1 {
				double++
			}
		})
	}
	t.Logf("in %d of 60 rounds of 8 writers more than one won", double)
	if double == 0 {
		t.Error("without a pause nothing went wrong: this test, and those beside it, would find nothing")
	}
}

// TestWarmAndCold is TestRegisterHistories with a client made again for every operation, or one
// that all share, and listings that show nothing now and then.
func TestWarmAndCold(t *testing.T) {
	histories(t, rounds(4, 1000), 5, 8, 11, func(t *testing.T, seed int, b *awstest.S3, rnd *rand.Rand) func() func() store.Store {
		b.ListNothing = func(q awstest.Request) bool { return !q.URL.Query().Has("key-marker") && rnd.IntN(25) == 0 }
		shared := open(t, b, nil)
		next := func() store.Store { return shared }
		if seed%2 == 0 {
			next = func() store.Store { return open(t, b, nil) }
		}
		return func() func() store.Store { return next }
	})
}

// TestVandal: a person removes versions by hand that others build on, and puts data of
// his own on top. The lock can become unreadable, and then says so; it never has two
// owners. (No client can miss what none has built on.)
func TestVandal(t *testing.T) {
	var grants, removed, corrupt atomic.Int64
	for seed := range rounds(3, 600) {
		synctest.Test(t, func(t *testing.T) {
			defer drain()
			rnd := newRand(uint64(seed), 21)
			b := newBucket()
			b.Plan(trouble(rnd))
			b.PageSize = 3 + rnd.IntN(5)
			var log fight
			var wg sync.WaitGroup
			for c := range 3 {
				client := leases(t, b, &lease.Options{TTL: time.Minute})
				own := newRand(uint64(seed), uint64(c+22))
				wg.Go(func() {
					for range 3 {
						log.round(t, client, own)
					}
				})
			}
			wg.Go(func() { vandal(b, rnd, &removed) })
			wg.Wait()
			grants.Add(int64(log.grants()))
			b.Plan(nil)
			for _, w := range live(b, "lock/job!!") {
				if bytes.HasPrefix(w.Body, []byte("vandal")) {
					b.Remove("bucket", "lock/job!!", w.ID)
				}
			}
			_, _, err := open(t, b, nil).Get(t.Context(), "lock/job")
			if errors.Is(err, store.ErrCorrupt) {
				corrupt.Add(1)
			} else if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	t.Logf("%d grants, %d versions removed, %d locks unreadable", grants.Load(), removed.Load(), corrupt.Load())
	if grants.Load() == 0 || removed.Load() == 0 {
		t.Error("something never happened")
	}
}

// vandal removes versions that others build on, and confirmations.
func vandal(b *awstest.S3, rnd *rand.Rand, removed *atomic.Int64) {
	for range 6 {
		time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Minute))))
		if rnd.IntN(4) == 0 {
			foreign := put(b, "lock/job!!", "vandal's data", nil)
			time.Sleep(time.Duration(rnd.Int64N(int64(30 * time.Second))))
			b.Remove("bucket", "lock/job!!", foreign)
			continue
		}
		all := live(b, "lock/job!!")
		if len(all) == 0 {
			continue
		}
		w := all[rnd.IntN(len(all))]
		fields := bytes.Fields(w.Body)
		built := !bytes.Contains(w.Body, []byte("\nV "))
		for _, other := range all {
			built = built || other.ID != w.ID && len(fields) > 3 && bytes.Count(other.Body, fields[2]) == 1 || bytes.Contains(other.Body, fmt.Appendf(nil, "%q", w.ID))
		}
		if built {
			b.Remove("bucket", "lock/job!!", w.ID)
			removed.Add(1)
		}
	}
}

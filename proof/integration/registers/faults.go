package registers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
	"github.com/holdfast-go/holdfast/store"
)

// counter is a register that several writers increment. It counts the outcomes of the increments.
type counter struct {
	applied, unknown atomic.Int64
}

// increment adds one by a single conditional write. After a lost reply it resolves the outcome. It reports
// whether the increment was applied.
func (c *counter) increment(ctx context.Context, st store.Store) bool {
	value, v, err := st.Get(ctx, "counter")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false
	}
	n, _ := strconv.Atoi(string(value))
	found, _ := store.PutAndResolve(ctx, st, "counter", v, []byte(strconv.Itoa(n+1)))
	switch found.Resolution {
	case store.ResolutionApplied, store.ResolutionSuperseded:
		c.applied.Add(1)
		return true
	case store.ResolutionUnknown, store.ResolutionPending:
		// Other writers have written more often meanwhile than a register remembers, or the server is away.
		c.unknown.Add(1)
	}
	return false
}

// check compares the register with the increments that were acknowledged.
func (c *counter) check(t *testing.T, st store.Store) {
	t.Helper()
	value, _, err := st.Get(t.Context(), "counter")
	counted, _ := strconv.ParseInt(string(value), 10, 64)
	if err != nil || counted < c.applied.Load() || counted > c.applied.Load()+c.unknown.Load() {
		t.Errorf("the register counts %q (%v), after %d increments that were applied and %d of unknown outcome", value, err, c.applied.Load(), c.unknown.Load())
	}
}

// cuts cuts connections before and after the server has carried a request out. No increment of a counter is
// lost or applied twice.
func cuts(t *testing.T, server Server, open Open, oneIn int) {
	var pieces, cuts atomic.Int64
	proxy := servers.NewTCPProxy(t, server.Address, func() (before, after bool) {
		n := rand.IntN(2 * oneIn)
		if pieces.Add(1) <= 2 { // of stores that send requests when they are opened, too
			n = 0
		}
		if n < 2 {
			cuts.Add(1)
		}
		return n == 0, n == 1
	})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	const writers, each = 6, 60
	var c counter
	var wg sync.WaitGroup
	for range writers {
		st := open(t, proxy.Address)
		wg.Go(func() {
			for done := 0; done < each && ctx.Err() == nil; {
				if c.increment(ctx, st) {
					done++
				}
			}
		})
	}
	wg.Wait()
	c.check(t, open(t, server.Address()))
	if c.applied.Load() != writers*each || cuts.Load() < 20 || c.unknown.Load() > cuts.Load()/2 {
		t.Errorf("%d increments were applied, %d outcomes are unknown and %d connections were cut: the test tests little", c.applied.Load(), c.unknown.Load(), cuts.Load())
	}
	t.Logf("%d connections were cut, %d outcomes unknown", cuts.Load(), c.unknown.Load())
}

// kills kills a server with -9 under contenders for a lock and under writers of a counter, and starts it
// again. At no time do two contenders rely on the lock, tokens rise, the lock is granted again, and no
// acknowledged increment is lost.
func kills(t *testing.T, k Kind, ttl time.Duration) {
	server := k.Start(t)
	proxy := servers.NewTCPProxy(t, server.Address, func() (bool, bool) { return false, false })
	open := k.NewSpace(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var believers, grants, highest atomic.Int64
	var c counter
	var wg sync.WaitGroup
	for range 2 {
		st := open(t, proxy.Address)
		wg.Go(func() {
			for ctx.Err() == nil {
				c.increment(ctx, st)
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 6 {
		client, err := lease.New(open(t, proxy.Address), &lease.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer client.Close(context.WithoutCancel(ctx))
			for ctx.Err() == nil {
				guard, err := client.Acquire(ctx, "job", nil)
				if err != nil {
					continue
				}
				if n := believers.Add(1); n != 1 {
					t.Errorf("%d contenders rely on the lock at one time", n)
				}
				if was := highest.Swap(int64(guard.Token())); was >= int64(guard.Token()) && !k.Loses {
					t.Errorf("token %d after %d", guard.Token(), was)
				}
				grants.Add(1)
				for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end) && guard.Err() == nil; {
					time.Sleep(time.Millisecond)
				}
				believers.Add(-1) // before the grant ends, and the next holder begins
				_ = guard.Release(ctx)
			}
		})
	}
	await := func(when string) {
		t.Helper()
		was := grants.Load()
		for end := time.Now().Add(time.Minute); grants.Load() < was+3; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: no grants within a minute", when)
			}
		}
	}
	await("at first")
	for kill := range 3 {
		server.Kill()
		time.Sleep(time.Duration(kill) * time.Second)
		if err := server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(fmt.Sprint("after kill ", kill+1))
	}
	cancel()
	wg.Wait()
	if !k.Loses {
		c.check(t, open(t, server.Address()))
	}
	t.Logf("%d grants, %d increments, %d of unknown outcome", grants.Load(), c.applied.Load(), c.unknown.Load())
}

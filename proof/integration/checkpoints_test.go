package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
)

// keeper opens a keeper of the checkpoints in a target, closed at the end of the test.
func keeper(t *testing.T, at target) *checkpoint.RegisterStore {
	t.Helper()
	st, err := at.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k, err := checkpoint.New(st, &checkpoint.Options{PollInterval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := k.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return k
}

// The suite of checkpoints, on every server.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	eachOf(t, append(kinds(), versioned(2*time.Second)...), func(t *testing.T, k kind) {
		at := k.target(t)
		checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return keeper(t, at) }, &checkpointtest.Options{Parallel: true})
	})
}

// Several processes' worth of keepers move checkpoints on, through a proxy that does
// any fault to one request in six. What was acknowledged is never undone, no reader sees
// a checkpoint go back, and what was refused for certain did not happen.
func TestCheckpointsUnderFaults(t *testing.T) {
	t.Parallel()
	calls := 30
	if torture() {
		calls = 600
	}
	eachKind(t, func(t *testing.T, k kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		const key = "stream"
		at := k.target(t)
		proxy := faultproxy.New(t, at.endpoint())
		var highest, asked, acknowledged, unknown atomic.Uint64 // highest: of what was acknowledged
		raise := func(to *atomic.Uint64, n uint64) {
			for old := to.Load(); n > old && !to.CompareAndSwap(old, n); old = to.Load() {
			}
		}
		var wg sync.WaitGroup
		for worker := range 4 {
			keeper := keeper(t, at.at(proxy.URL))
			// What finds out about the server is not what is tested here.
			if _, err := keeper.Advance(t.Context(), "first", checkpoint.Position{}, nil); err != nil {
				t.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(seed, uint64(worker)))
			wg.Go(func() {
				for range calls {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					before := highest.Load()
					if rnd.IntN(4) == 0 {
						c, err := keeper.Get(ctx, key, nil)
						if err == nil && c.Sequence < before {
							t.Errorf("read %d after %d was acknowledged", c.Sequence, before)
						}
						if errors.Is(err, store.ErrNotFound) && before > 0 {
							t.Errorf("nothing there after %d was acknowledged", before)
						}
						cancel()
						continue
					}
					want := asked.Add(1)
					r, err := keeper.Advance(ctx, key, checkpoint.Position{Sequence: want}, nil)
					cancel()
					switch {
					case err == nil:
						acknowledged.Add(1)
						if r.Status != checkpoint.Advanced && r.Status != checkpoint.Unchanged && r.Status != checkpoint.Behind {
							t.Errorf("advance to %d: %v", want, r.Status)
						}
						if now := r.Current.Sequence; now < max(want, before) {
							t.Errorf("advance to %d: stands at %d, and %d was acknowledged before", want, now, before)
						}
						raise(&highest, r.Current.Sequence)
					case store.OutcomeOf(err) == store.Unknown:
						unknown.Add(1)
					}
				}
			})
		}
		proxy.Inject(faultproxy.Random(seed, 1.0/6, nil, anyFault(time.Second)...))
		wg.Wait()
		proxy.Heal()
		proxy.WaitIdle()
		c, err := keeper(t, at).Get(t.Context(), key, nil)
		if err != nil || c.Sequence < highest.Load() || c.Sequence > asked.Load() {
			t.Errorf("at the end: %+v, %v; %d was acknowledged, %d asked for", c, err, highest.Load(), asked.Load())
		}
		t.Logf("%d calls acknowledged, %d with an unknown outcome, %d requests with faults", acknowledged.Load(), unknown.Load(),
			proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" }))
	})
}

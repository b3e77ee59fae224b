package integration_test

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
	"github.com/holdfast-go/holdfast/proof/integration/faultproxy"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

// anyFault returns faults of every kind, with times that suit a lease.
func anyFault(ttl time.Duration) []faultproxy.Fault {
	return []faultproxy.Fault{
		faultproxy.Lose(),
		faultproxy.Drop(),
		faultproxy.LoseByReset(),
		faultproxy.Delay(ttl / 4),
		faultproxy.DelayReply(ttl / 4),
		faultproxy.Repeat(),
		faultproxy.Echo(ttl / 10),
		faultproxy.Echo(2 * ttl),
		faultproxy.HangLate(ttl / 10),
		faultproxy.Late(ttl / 10),
		faultproxy.Late(2 * ttl),
		faultproxy.Truncate(),
		faultproxy.Refuse(409),
		faultproxy.Refuse(500),
		faultproxy.Refuse(503),
		faultproxy.RefuseAfter(500),
		faultproxy.RefuseAfter(503),
	}
}

// faultsWithin returns faults of every kind after which no request takes effect later
// than life after it was sent.
func faultsWithin(life time.Duration) []faultproxy.Fault {
	return []faultproxy.Fault{
		faultproxy.Lose(),
		faultproxy.Drop(),
		faultproxy.LoseByReset(),
		faultproxy.Delay(life / 4),
		faultproxy.DelayReply(life * 2),
		faultproxy.Repeat(),
		faultproxy.Echo(life / 4),
		faultproxy.Late(life / 4),
		faultproxy.Truncate(),
		faultproxy.Hang(),
		faultproxy.Refuse(500),
		faultproxy.Refuse(503),
		faultproxy.RefuseAfter(500),
		faultproxy.RefuseAfter(503),
	}
}

// Several clients work on a few registers through a proxy that does any fault to
// one request in six. The answers that they got can be explained by one register for each
// key: no version twice, no write lost that was acknowledged, none applied that was
// refused.
func TestHistoryUnderFaults(t *testing.T) {
	t.Parallel()
	calls := 40
	if torture() {
		calls = 400
	}
	all := kinds()
	if torture() {
		all = append(all, versioned(2*time.Second)...)
	}
	eachOf(t, all, func(t *testing.T, k kind) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		at, clients, calls, timeout, faults := k.target(t), 4, calls, 2*time.Second, anyFault(time.Second)
		if at.Kind == "s3versioned" {
			// Each write takes seconds, and nothing may take effect after its life.
			calls, timeout, faults = 12, 30*time.Second, faultsWithin(at.Life)
		}
		proxies := make([]*faultproxy.Proxy, clients)
		for client := range proxies {
			proxies[client] = faultproxy.New(t, at.endpoint())
		}
		var h storetest.History
		var wg sync.WaitGroup
		for client := range clients {
			opened, err := at.at(proxies[client].URL).open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// What finds out about the server is not what is tested here.
			if _, err := opened.Put(t.Context(), fmt.Sprint("first", client), "", nil); err != nil {
				t.Fatal(err)
			}
			st := h.Record(withoutOwnConflicts(t, opened, client, proxies))
			rnd := rand.New(rand.NewPCG(seed, uint64(client)))
			wg.Go(func() {
				for range calls {
					randomCall(t.Context(), timeout, st, rnd, fmt.Sprint("key", rnd.IntN(2)))
				}
			})
		}
		for client, proxy := range proxies {
			proxy.Inject(faultproxy.Random(seed+uint64(client), 1.0/6, nil, faults...))
		}
		wg.Wait()
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		requests, faulty := 0, 0
		for _, proxy := range proxies {
			requests += proxy.Count(nil)
			faulty += proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" })
		}
		t.Logf("%d calls, %d requests, %d of them with faults", h.Len(), requests, faulty)
	})
}

// lineage is the number of earlier writes that a register names, and its last one.
const lineage = 8

// withoutOwnConflicts makes the outcome of a write unknown where a store reports a conflict of a write with itself, as
// docs/lost-replies.md says: the proxy sent the write twice, the client got the answer to the second request, and so
// many other writes followed before the client read the register that it does not name the write any more.
func withoutOwnConflicts(t *testing.T, st store.Store, client int, proxies []*faultproxy.Proxy) store.Store {
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		began := time.Now()
		err := next(ctx, op)
		if !op.Kind.Write() || !errors.Is(err, store.ErrConflict) {
			return err
		}
		writes := faultproxy.All(faultproxy.Writes(), faultproxy.Any(faultproxy.Path(op.Key), faultproxy.Body(op.Key)))
		for _, own := range proxies[client].Calls() { // this client has no other calls now
			if own.Start.Before(began) || own.Fault != faultproxy.Repeat().String() || !writes(own) || len(own.Upstream) != 2 || own.Upstream[0] >= 300 || own.Status < 400 {
				continue
			}
			later := 0
			for _, proxy := range proxies {
				later += proxy.Count(func(c *faultproxy.Call) bool {
					return (c.N != own.N || proxy != proxies[client]) && writes(c) && (c.End.IsZero() || c.End.After(own.Start)) && slices.ContainsFunc(c.Upstream, func(status int) bool { return status < 300 })
				})
			}
			if later >= lineage {
				t.Logf("%d writes followed the write that conflicts with itself: %v", later, own)
				return store.MarkUnknown(errors.New(err.Error()))
			}
		}
		return err
	})
}

// TestRepeatedAndSuperseded: a proxy sends a write twice, and the client sees only the second answer, a refusal. If
// seven other writes follow before the client reads the register, the write succeeds. After eight, the store
// reports a conflict, and TestHistoryUnderFaults recognises it.
func TestRepeatedAndSuperseded(t *testing.T) {
	t.Parallel()
	k := kindNamed(t, "s3/versitygw")
	at := k.target(t)
	for others, want := range map[int][2]store.Outcome{lineage - 1: {store.Applied, store.Applied}, lineage: {store.NotApplied, store.Unknown}} {
		key := fmt.Sprint("after", others)
		proxies := []*faultproxy.Proxy{faultproxy.New(t, at.endpoint()), faultproxy.New(t, at.endpoint())}
		var both [2]store.Store
		for i, p := range proxies {
			opened, err := at.at(p.URL).open(t.Context())
			if err == nil {
				_, err = opened.Put(t.Context(), fmt.Sprint(key, "first", i), "", nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			both[i] = opened
		}
		v, err := both[0].Put(t.Context(), key, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		followed := false
		proxies[0].Inject(
			&faultproxy.Rule{When: faultproxy.Writes(), Times: 1, Do: faultproxy.Repeat()},
			&faultproxy.Rule{When: func(c *faultproxy.Call) bool {
				if followed || !faultproxy.Reads()(c) {
					return false
				}
				followed = true
				_, v, err := both[1].Get(t.Context(), key)
				for range others {
					if err == nil {
						v, err = both[1].Put(t.Context(), key, v, nil)
					}
				}
				if err != nil {
					t.Error(err)
				}
				return false
			}},
		)
		reported := store.Unknown
		inner := store.Intercept(both[0], func(ctx context.Context, op *store.Op, next store.Handler) error {
			err := next(ctx, op)
			reported = store.OutcomeOf(err)
			return err
		})
		_, err = withoutOwnConflicts(t, inner, 0, proxies).Put(t.Context(), key, v, nil)
		if got := [2]store.Outcome{reported, store.OutcomeOf(err)}; got != want {
			t.Errorf("after %d writes: got the outcomes %v, want %v: %v", others, got, want, err)
		}
	}
}

// randomCall reads a register and, mostly, writes to it.
func randomCall(ctx context.Context, timeout time.Duration, st store.Store, rnd *rand.Rand, key string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, v, err := st.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return
	}
	switch n := rnd.IntN(8); {
	case n == 0:
	case n == 1 && v != "":
		_ = st.Delete(ctx, key, v) // the history judges the errors
	default:
		_, _ = st.Put(ctx, key, v, fmt.Appendf(nil, "value %d", rnd.Int()))
	}
}

// Leases of one process are held for a TTL and more, through a proxy that does any
// fault, but to one lock not more than one within half a TTL. None is lost.
func TestLeasesUnderSingleFaults(t *testing.T) {
	t.Parallel()
	hold := pitTTL
	if torture() {
		hold = 12 * pitTTL
	}
	eachKind(t, func(t *testing.T, k kind) {
		const locks = 8
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		s := newScene(t, k, lease.Options{
			OnEvent: func(e lease.Event) {
				if e.Kind == lease.EventLost {
					t.Errorf("%s lost: %v", e.Name, e.Err)
				}
			},
			Tuning: lease.Tuning{RenewInterval: pitTTL / 5},
		})
		var guards []*lease.Guard
		for i := range locks {
			name := fmt.Sprintf("single%d.", i)
			g, err := s.client.TryAcquire(t.Context(), name, nil)
			if err != nil {
				t.Fatal(err)
			}
			guards = append(guards, g)
			when := faultproxy.Any(faultproxy.Path(name), faultproxy.Body(name))
			s.proxy.Inject(faultproxy.Spaced(seed+uint64(i), pitTTL/2, when, anyFault(time.Second)...))
		}
		time.Sleep(hold)
		for _, g := range guards {
			if err := g.Err(); err != nil {
				t.Errorf("%s: %v", g.Name(), err)
			}
		}
		t.Logf("%d requests, %d of them with faults", s.proxy.Count(nil), s.proxy.Count(func(c *faultproxy.Call) bool { return c.Fault != "" }))
	})
}

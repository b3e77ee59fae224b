package lease_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Requests per operation, as the design states them: exact.
func TestHandleRequests(t *testing.T) {
	plain := func(st store.Store) store.Store { return &plainStore{st} }
	for name, c := range map[string]struct {
		wrap                                           func(store.Store) store.Store
		options                                        *lease.Options
		create, contended, renewal, release, again, of int
	}{
		"conflict tells":  {func(st store.Store) store.Store { return st }, nil, 1, 1, 1, 1, 1, 2},
		"plain register":  {plain, nil, 2, 1, 1, 1, 1, 2},
		"plain and fresh": {plain, &lease.Options{AssumeNew: true}, 1, 2, 1, 1, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(c.wrap(st))
				client1, client2 := client(t, w, c.options), client(t, w, c.options)
				check := func(what string, want int) {
					t.Helper()
					if got := w.requests(); got != want {
						t.Errorf("%s: %d requests, want %d", what, got, want)
					}
				}
				h := handle(t, client1, "job")
				g := acquired(t, h)
				check("a new lock", c.create)
				wantHeld(t, client2, "job")
				check("contended", c.contended)
				time.Sleep(client1.Options().RenewInterval * 11 / 10)
				check("renewal", c.renewal)
				mustRelease(t, g)
				check("release", c.release)
				g = acquired(t, h)
				check("again by this handle", c.again)
				mustRelease(t, g)
				w.requests()
				mustRelease(t, mustTry(t, client2, "job"))
				check("an existing lock, cold, with its release", c.of+c.release)
			})
		})
	}
}

// plainStore carries no state in its conflicts.
type plainStore struct{ st store.Store }

func (p *plainStore) Get(ctx context.Context, key string) ([]byte, store.Version, error) {
	return p.st.Get(ctx, key)
}

func (p *plainStore) Put(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	v, err := p.st.Put(ctx, key, prev, value)
	if errors.Is(err, store.ErrConflict) {
		err = &store.ConflictError{Key: key}
	}
	return v, err
}

func (p *plainStore) Delete(ctx context.Context, key string, prev store.Version) error {
	return p.st.Delete(ctx, key, prev)
}

// Many goroutines take a lock through one handle at the same time: they share one grant, which
// costs one request.
func TestGoroutinesOfAHandleShareAGrant(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		w := newWire(st)
		c := client(t, w, nil)
		w.requests() // that opened a session
		h := handle(t, c, "job")
		var wg sync.WaitGroup
		guards := make([]*lease.Guard, 20)
		for i := range guards {
			wg.Go(func() {
				g, err := h.Acquire(t.Context())
				report(t, err)
				guards[i] = g
			})
		}
		wg.Wait()
		if n := w.requests(); n != 1 {
			t.Errorf("20 guards took %d requests", n)
		}
		for _, g := range guards {
			if g.Token() != guards[0].Token() {
				t.Errorf("tokens %d and %d in one grant", g.Token(), guards[0].Token())
			}
			wantState(t, c, "job", lease.Held)
			mustRelease(t, g)
		}
		wantState(t, c, "job", lease.Free)
	})
}

// An acquire that meets a release of the same handle waits for it.
func TestAcquireWaitsForTheReleaseOfItsHandle(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpPut {
				time.Sleep(time.Second)
			}
			return next(ctx, op)
		})
		h := handle(t, client(t, slow, nil), "job")
		old := acquired(t, h)
		go func() { _ = old.Release(t.Context()) }()
		synctest.Wait()
		g := acquired(t, h)
		if g.Token() <= old.Token() {
			t.Errorf("token %d after %d", g.Token(), old.Token())
		}
		mustRelease(t, g)
	})
}

// The work of a lost grant may still be stopping: the same handle does not begin
// again together with it, unless the guard was released.
func TestHandleWaitsOutItsLostGrant(t *testing.T) {
	for _, released := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			w := newWire(st)
			h := handle(t, client(t, w, nil), "job")
			began := time.Now()
			old := acquired(t, h)
			w.set(everything(drop))
			<-old.Context().Done()
			w.set(nil)
			if released {
				_ = old.Release(t.Context())
			}
			g := acquired(t, h)
			if waited := time.Since(began); released != (waited < ttl-time.Millisecond) {
				t.Errorf("released %v: the next grant came after %v", released, waited)
			}
			mustRelease(t, g)
		})
	}
}

func TestReclaimOwnTakesOnlyFromAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, &lease.Options{Holder: "worker-1", ReclaimOwn: true})
		g := mustTry(t, c, "job")
		wantHeld(t, c, "job") // the same process never reclaims from itself
		edit(t, st, "job", func(rec *lease.Record) { rec.Process = "an earlier life" })
		next := mustTry(t, c, "job")
		if next.Token() <= g.Token() {
			t.Errorf("token %d after %d", next.Token(), g.Token())
		}
		mustRelease(t, next)
	})
}

// A set of guards ends with the first of its leases. Its release frees the other locks.
func TestSetEndsWithTheFirstOfItsLeases(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, st, nil)
		set, err := lease.TryAcquireAll(t.Context(), handle(t, c, "x"), handle(t, c, "y"))
		must(t, err)
		breaks(t, st, set.Guard("x"))
		<-set.Context().Done()
		if err := context.Cause(set.Context()); !errors.Is(err, lease.ErrBroken) {
			t.Errorf("the set ended with %v", err)
		}
		if err := set.Release(t.Context()); !errors.Is(err, lease.ErrBroken) {
			t.Errorf("Release = %v", err)
		}
		wantState(t, c, "y", lease.Free)
	})
}

// A lock that is lost while the next one of the set is waited for is taken again.
func TestAcquireAllRetakesALockThatItLost(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		a, b := client(t, st, nil), client(t, st, nil)
		g := mustTry(t, b, "y")
		go func() {
			time.Sleep(time.Minute)
			info, err := b.Inspect(t.Context(), "x")
			report(t, err)
			report(t, errOf(b.Break(t.Context(), "x", info.Record.Token, &lease.BreakOptions{Immediate: true})))
			time.Sleep(time.Minute)
			_ = g.Release(t.Context())
		}()
		set, err := lease.AcquireAll(t.Context(), handle(t, a, "x"), handle(t, a, "y"))
		must(t, err)
		report(t, set.Err())
		report(t, set.Release(t.Context()))
	})
}

// tagged is a store that cannot be compared, though its type can.
type tagged struct {
	described
	tags any
}

// Handles on such stores may be of one lock.
func TestAcquireAllOnStoresThatCannotBeCompared(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		st = tagged{described{&plainStore{st}, store.Traits{}}, []string{"tag"}}
		_, err := lease.TryAcquireAll(t.Context(), handle(t, client(t, st, nil), "job"), handle(t, client(t, st, nil), "job"))
		if !errors.Is(err, lease.ErrHeld) {
			t.Errorf("got %v, want ErrHeld", err)
		}
	})
}

func TestWaiterUsesTheAgeByTheStoresClock(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		dead := client(t, st, &lease.Options{ManualRenewal: true})
		mustTry(t, dead, "job")
		aged := &agedStore{Store: st, age: -1}
		for _, c := range []struct {
			name  string
			age   time.Duration
			later time.Duration // how far the wall clock of this machine has advanced
			off   bool
			open  bool
		}{
			{"not known", -1, time.Hour, false, false},
			{"too young", ttl, time.Hour, false, false},
			{"vetoed by the holder's own clock", time.Hour, 0, false, false},
			{"switched off", time.Hour, time.Hour, true, false},
			{"old enough", time.Hour, time.Hour, false, true},
		} {
			aged.age = c.age
			waiter := client(t, aged, &lease.Options{Tuning: lease.Tuning{IgnoreStoreClock: c.off}})
			clock := newClocks()
			lease.SetClock(waiter, clock.read)
			clock.change(func(cl *clocks) { cl.jumped += c.later })
			g, err := waiter.TryAcquire(t.Context(), "job", nil)
			if c.open != (err == nil) {
				t.Errorf("%s: %v", c.name, err)
			}
			if err == nil {
				mustRelease(t, g)
			}
		}
	})
}

// agedStore is a store with a clock that says what the test wants.
type agedStore struct {
	store.Store
	age time.Duration
}

func (s *agedStore) GetAge(ctx context.Context, key string) ([]byte, store.Version, time.Duration, error) {
	value, v, err := s.Get(ctx, key)
	return value, v, s.age, err
}

func TestDeadProcessIsTakenOverAtOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		p := &presence{Store: st, verdict: store.Alive, died: make(chan struct{})}
		a, b := client(t, p, &lease.Options{ManualRenewal: true}), client(t, p, nil)
		g := mustTry(t, a, "job")
		if rec := wantState(t, a, "job", lease.Held); rec.Presence != "here" {
			t.Errorf("the record names the presence %q", rec.Presence)
		}
		wantHeld(t, b, "job")
		p.set(store.LivenessUnknown)
		wantHeld(t, b, "job")
		began := time.Now()
		go func() {
			time.Sleep(5 * time.Second)
			p.set(store.Dead)
			close(p.died)
		}()
		won := mustAcquire(t, b, "job")
		if waited := time.Since(began); waited != 5*time.Second {
			t.Errorf("taken over after %v", waited)
		}
		mustRelease(t, won)
		if rec := wantState(t, b, "job", lease.Free); rec.Presence != "" {
			t.Errorf("a free record names the presence %q", rec.Presence)
		}
		_ = g.Release(t.Context())
	})
}

type presence struct {
	store.Store
	mu      sync.Mutex
	verdict store.Liveness
	died    chan struct{}
}

func (p *presence) Unwrap() store.Store { return p.Store }

func (p *presence) set(l store.Liveness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.verdict = l
}

func (p *presence) Announce(context.Context) (string, error) { return "here", nil }

func (p *presence) Liveness(_ context.Context, announcement string) store.Liveness {
	p.mu.Lock()
	defer p.mu.Unlock()
	if announcement != "here" {
		return store.LivenessUnknown
	}
	return p.verdict
}

func (p *presence) WaitLiveness(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.died:
		return nil
	}
}

// asked is a presence that calls a function before it is asked whether a process is alive.
type asked struct {
	*presence
	before func()
}

func (p *asked) Liveness(ctx context.Context, announcement string) store.Liveness {
	p.before()
	return p.presence.Liveness(ctx, announcement)
}

// whenAsked returns a store on which all processes are dead. It calls f once, before it says so.
func whenAsked(st store.Store, f func()) store.Store {
	return &asked{&presence{Store: st, verdict: store.Dead, died: make(chan struct{})}, sync.OnceFunc(f)}
}

// A holder that releases the lock and ends, while another client reads the record, has not died with
// the lock.
func TestInspectWhileTheHolderReleases(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var g *lease.Guard
		p := whenAsked(st, func() { mustRelease(t, g) })
		g = mustTry(t, client(t, p, nil), "job")
		wantState(t, client(t, p, nil), "job", lease.Free)
	})
}

// A name that is no key of a store is refused. The error for one that is too long gives its own length,
// not that of the key.
func TestLockNames(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		c := client(t, st, nil)
		for _, bad := range []string{"", "/", "a//b", "../x", "a/../b", ".", "x\xff", strings.Repeat("x", store.MaxKey-4)} {
			if _, err := c.TryAcquire(t.Context(), bad, nil); !errors.Is(err, store.ErrKey) {
				t.Errorf("a lock named %.20q: %v", bad, err)
			}
		}
		_, err := c.TryAcquire(t.Context(), strings.Repeat("n", store.MaxKey-len("lock/")+1), nil)
		if err == nil || !strings.Contains(err.Error(), "508 bytes, at most 507") {
			t.Errorf("the error for a long name: %v", err)
		}
		for _, good := range []string{"a", "a/b", "Größe", "a b", "CON", "%2e%2e", strings.Repeat("x", store.MaxKey-5)} {
			mustRelease(t, mustTry(t, c, good))
		}
	})
}

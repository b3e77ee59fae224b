package leaderlock_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/holdfast-go/holdfast/adapters/leaderlock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// The default times of client-go.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// plainLock is the control: a lock on a register as LeaseLock of client-go is one on Lease objects. It resolves no
// outcome, and accepts each success.
type plainLock struct {
	st       store.Store
	identity string
	seen     store.Version
}

func (l *plainLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	value, version, err := l.st.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, election)
	}
	if err != nil {
		return nil, nil, err
	}
	l.seen = version
	var ler resourcelock.LeaderElectionRecord
	return &ler, []byte(version), json.Unmarshal(value, &ler)
}

func (l *plainLock) put(ctx context.Context, prev store.Version, ler resourcelock.LeaderElectionRecord) error {
	value, err := json.Marshal(ler)
	if err != nil {
		return err
	}
	version, err := l.st.Put(ctx, key, prev, value)
	if err == nil {
		l.seen = version
	}
	return err
}

func (l *plainLock) Create(ctx context.Context, ler resourcelock.LeaderElectionRecord) error {
	return l.put(ctx, "", ler)
}

func (l *plainLock) Update(ctx context.Context, ler resourcelock.LeaderElectionRecord) error {
	return l.put(ctx, l.seen, ler)
}

func (l *plainLock) RecordEvent(string) {}
func (l *plainLock) Identity() string   { return l.identity }
func (l *plainLock) Describe() string   { return key }

// electorOf returns an elector with the default times.
func electorOf(l resourcelock.Interface, started func(context.Context)) (*leaderelection.LeaderElector, error) {
	return leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: l, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: started, OnStoppedLeading: func() {}},
	})
}

// ledger notes who leads, in a bubble of synctest.
type ledger struct {
	candidates []*candidate

	mu       sync.Mutex
	terms    int
	overlaps int // terms that began before the one before them had ended
	highest  uint64
	problems []string
}

// candidate is an elector with its own way to the common store.
type candidate struct {
	faults *faultstore.Store
	lock   resourcelock.Interface

	leads context.Context // of its last term; nil before the first
}

// leading reports whether the candidate leads. The caller holds the mutex of the ledger.
func (c *candidate) leading() bool { return c.leads != nil && c.leads.Err() == nil }

// leads reports whether a candidate leads.
func (b *ledger) leads(c *candidate) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.leading()
}

// hold begins an election on a store in memory. Each elector runs again when it has stopped, until the test ends.
func hold(t *testing.T, candidates int, newLock func(store.Store) resourcelock.Interface) *ledger {
	b := &ledger{}
	st := memstore.New()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range candidates {
		c := &candidate{faults: faultstore.New(st, faultstore.Schedule{})}
		c.lock = newLock(c.faults)
		b.mu.Lock() // an elector that runs already may begin its term
		b.candidates = append(b.candidates, c)
		b.mu.Unlock()
		elector, err := electorOf(c.lock, func(ctx context.Context) { b.begin(ctx, c) })
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				elector.Run(ctx)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, c := range b.candidates {
			c.faults.Close()
		}
	})
	return b
}

// begin notes a new term.
func (b *ledger) begin(ctx context.Context, c *candidate) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.candidates {
		if other != c && other.leading() {
			b.overlaps++
		}
	}
	c.leads = ctx
	b.terms++
	if l, ok := c.lock.(*leaderlock.Lock); ok {
		token, err := l.Token(ctx)
		if err != nil || token <= b.highest {
			b.problems = append(b.problems, fmt.Sprintf("term %d has token %d, %v; the highest before was %d", b.terms, token, err, b.highest))
		}
		b.highest = max(b.highest, token)
	}
}

// leader waits until a candidate leads.
func (b *ledger) leader(t *testing.T) *candidate {
	t.Helper()
	for range 10_000 {
		b.mu.Lock()
		for _, c := range b.candidates {
			if c.leading() {
				b.mu.Unlock()
				return c
			}
		}
		b.mu.Unlock()
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("nobody leads")
	return nil
}

// check reports what must not happen, and returns the number of terms.
func (b *ledger) check(t *testing.T) int {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overlaps > 0 {
		t.Errorf("two candidates led at the same time, %d times", b.overlaps)
	}
	for _, problem := range b.problems {
		t.Error(problem)
	}
	return b.terms
}

func ours(t *testing.T) func(store.Store) resourcelock.Interface {
	return func(st store.Store) resourcelock.Interface { return newLock(t, st) }
}

// plain returns a function that makes control locks.
func plain() func(store.Store) resourcelock.Interface {
	n := 0
	return func(st store.Store) resourcelock.Interface {
		n++
		return &plainLock{st: st, identity: fmt.Sprint("plain", n)}
	}
}

// TestElection: if a leader cannot reach the store, another candidate leads in time, with a higher token, and never two.
func TestElection(t *testing.T) {
	for _, outage := range []string{"* * fail", "* * drop", "* * delay 1h", "* * lose"} {
		t.Run(outage, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := hold(t, 3, ours(t))
				for round := range 20 {
					old := b.leader(t)
					time.Sleep(30 * time.Second)
					if !b.leads(old) {
						t.Fatalf("round %d: the leader has stopped for nothing", round)
					}
					old.faults.Set(faultstore.MustParse(outage))
					time.Sleep(leaseDuration - leaseDuration/10 + time.Millisecond)
					if b.leads(old) {
						t.Errorf("round %d: the leader continues without the store", round)
					}
					// The others see the last renewal at most 2.2 RetryPeriods late, and try again as late.
					time.Sleep(leaseDuration/10 + 9*time.Second)
					if b.leader(t) == old {
						t.Errorf("round %d: no other candidate leads", round)
					}
					old.faults.Set(faultstore.Schedule{})
				}
				b.check(t)
			})
		})
	}
}

// TestStoreIsAway: the store is away for all candidates, at the start and later.
func TestStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := hold(t, 2, ours(t))
		for range 3 {
			for _, c := range b.candidates {
				c.faults.Set(faultstore.MustParse("* * drop"))
			}
			time.Sleep(time.Minute)
			for _, c := range b.candidates {
				if b.leads(c) {
					t.Error("a candidate leads without the store")
				}
				c.faults.Set(faultstore.Schedule{})
			}
			time.Sleep(leaseDuration + 9*time.Second)
			b.leader(t)
		}
		b.check(t)
	})
}

// TestRelease: a leader that ends frees the record, and the next one need not wait.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		ctx, cancel := context.WithCancel(t.Context())
		a, err := electorOf(newLock(t, st), func(context.Context) { cancel() })
		if err != nil {
			t.Fatal(err)
		}
		a.Run(ctx)
		ctx, cancel = context.WithCancel(t.Context())
		began := time.Now()
		next, err := electorOf(newLock(t, st), func(context.Context) { cancel() })
		if err != nil {
			t.Fatal(err)
		}
		next.Run(ctx)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the next leader waited for %v", took)
		}
	})
}

// stays reports whether a leader stays one for ten minutes in which the reply to each of its writes is lost.
func stays(t *testing.T, newLock func(store.Store) resourcelock.Interface) (ok bool) {
	synctest.Test(t, func(t *testing.T) {
		b := hold(t, 2, newLock)
		leader := b.leader(t)
		leader.faults.Set(faultstore.MustParse("write * lose"))
		time.Sleep(10 * time.Minute)
		ok = b.check(t) == 1 && b.leads(leader)
	})
	return ok
}

// TestLostReplies: a leader does not stop because replies are lost.
func TestLostReplies(t *testing.T) {
	if !stays(t, ours(t)) {
		t.Error("the leader has stopped")
	}
	if stays(t, plain()) {
		t.Error("the control: without resolved outcomes the leader stays too, so this test shows nothing")
	}
}

// overlaps returns how often two candidates led at the same time, if a reply to the leader is late, and then no request
// of the leader reaches the store.
func overlaps(t *testing.T, newLock func(store.Store) resourcelock.Interface) (n int) {
	synctest.Test(t, func(t *testing.T) {
		b := hold(t, 3, newLock)
		for range 20 {
			leader := b.leader(t)
			leader.faults.Set(faultstore.MustParse("put * #1 delay-reply 9s; put * #2- drop; read * drop"))
			time.Sleep(40 * time.Second)
			leader.faults.Set(faultstore.Schedule{})
			time.Sleep(20 * time.Second)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		n = b.overlaps
	})
	return n
}

// TestLateReplies: a leader does not count from a late reply. The others count from the write.
func TestLateReplies(t *testing.T) {
	if n := overlaps(t, ours(t)); n > 0 {
		t.Errorf("two candidates led at the same time, %d times", n)
	}
	if n := overlaps(t, plain()); n == 0 {
		t.Error("the control: with a plain lock there is one leader too, so this test shows nothing")
	}
}

// TestRandomFaults: an hour with all kinds of faults.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := hold(t, 3, ours(t))
				for i, c := range b.candidates {
					c.faults.Set(faultstore.Random(3*seed + uint64(i)))
				}
				time.Sleep(time.Hour)
				if b.check(t) == 0 {
					t.Error("nobody has led")
				}
			})
		})
	}
}

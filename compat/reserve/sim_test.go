package reserve_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/compat/reserve"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestSimulation runs writers of this package and one with the rules of object_store, in
// virtual time, on one object of a store without conditions, with a table as that of
// DynamoDB, and with that of [reserve.NewStoreTable]. Replies are lost, the table has outages, rows
// and writes come late, writers die, the table removes old rows, states return. Every write
// that is applied must meet the state that its writer has reserved, and no two operations
// on one state run at the same time.
//
// HOLDFAST_TORTURE=1 runs many more seeds.
func TestSimulation(t *testing.T) {
	t.Run("one row for each state", func(t *testing.T) { simulation(t, false) })
	t.Run("one register for each key", func(t *testing.T) { simulation(t, true) })
}

func simulation(t *testing.T, register bool) {
	seeds := 30
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		seeds = 10_000
	}
	var sum simCounts
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			counts := simulate(t, uint64(seed), register)
			sum.applied += counts.applied
			sum.late += counts.late
			sum.replaced += counts.replaced
			sum.removed += counts.removed
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d runs of %v: %d writes applied, %d of them late; %d rows replaced, %d removed by the table", seeds, simTime, sum.applied, sum.late, sum.replaced, sum.removed)
	if sum.applied < 10*seeds || sum.late < seeds/10 || sum.replaced < seeds || sum.removed < seeds/10 {
		t.Errorf("the simulation does not do what it is for: %+v", sum)
	}
}

const (
	simTime = time.Minute

	// simLate is by how much a write may be applied after the time of its operation: less
	// than Timeout times (Rate-1), for the smallest rate.
	simLate = timeout * 9 / 10
)

type simCounts struct{ applied, late, replaced, removed int }

// sim is the object and what happens to it.
type sim struct {
	t    *testing.T
	seed uint64
	*table
	registers memstore.Store
	end       time.Time

	mu      sync.Mutex
	rng     *rand.Rand
	version object.Version
	running map[object.Version]string // who operates on a state
	next    int
	counts  simCounts
	pending sync.WaitGroup // writes that come late
}

func (s *sim) random(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d) + 1))
}

// one returns true once in n times.
func (s *sim) one(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rng.IntN(n) == 0
}

func (s *sim) current() object.Version {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// apply writes without a condition. This is where a commit would be lost.
func (s *sim) apply(who string, base object.Version, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != base {
		s.t.Errorf("seed %d, after %v: %s writes on state %q, and overwrites state %q", s.seed, simTime-time.Until(s.end), who, base, s.version)
	}
	s.counts.applied++
	if late {
		s.counts.late++
	}
	s.next++
	s.version = object.Version(fmt.Sprint(s.next))
	if s.rng.IntN(4) == 0 {
		s.version = "" // it was a delete: this state has been there before
	}
}

// operate is an operation on the state base, as the network and the store treat it. done
// is closed when the time of the operation is over.
func (s *sim) operate(ctx context.Context, who string, base object.Version) error {
	s.mu.Lock()
	if other := s.running[base]; other != "" {
		s.t.Errorf("seed %d, after %v: %s and %s operate on state %q at the same time", s.seed, simTime-time.Until(s.end), who, other, base)
	}
	s.running[base] = who
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.running, base)
		s.mu.Unlock()
	}()
	unknown := errors.New("no answer")
	deadline, _ := ctx.Deadline()
	later := func(at time.Time) {
		s.pending.Go(func() {
			time.Sleep(time.Until(at))
			s.apply(who, base, true)
		})
	}
	think := s.random(50 * time.Millisecond)
	if s.one(6) {
		think = s.random(timeout)
	}
	time.Sleep(think)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case s.one(8):
		return errNothingDone
	case s.one(8): // it is never applied, and the caller cannot know
		return unknown
	case s.one(8):
		later(deadline.Add(s.random(simLate)))
		return unknown
	case s.one(8):
		later(deadline.Add(s.random(simLate)))
		<-ctx.Done()
		return context.Cause(ctx)
	}
	time.Sleep(s.random(30 * time.Millisecond))
	s.apply(who, base, false)
	time.Sleep(s.random(30 * time.Millisecond))
	switch {
	case s.one(8): // the answer is late
		<-ctx.Done()
	case s.one(8):
		return unknown
	}
	return nil
}

func (s *sim) check(base object.Version) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(s.random(10 * time.Millisecond))
		now := s.current()
		time.Sleep(s.random(10 * time.Millisecond))
		if s.one(200) {
			return store.ErrUnavailable
		}
		if now != base {
			return &object.ConflictError{Key: "k", HasCurrent: true, Version: now}
		}
		return nil
	}
}

func simulate(t *testing.T, seed uint64, register bool) simCounts {
	s := &sim{t: t, seed: seed, table: newTable(), end: time.Now().Add(simTime), rng: rand.New(rand.NewPCG(seed, 0)), running: make(map[object.Version]string)}
	if register {
		s.inner = reserve.NewStoreTable(&s.registers)
	}
	s.fault = func(_ int, op string) fault {
		f := fault{before: s.random(20 * time.Millisecond), after: s.random(20 * time.Millisecond)}
		switch {
		case time.Until(s.end)%(15*time.Second) < 3*time.Second && !s.one(10): // an outage of the table
			f.lose = s.one(2)
			f.fail = !f.lose
		case s.one(30):
			f.lose = true
		case s.one(30):
			f.fail = true
		case s.one(30):
			f.before = s.random(timeout)
		case s.one(30):
			f.after = s.random(timeout)
		}
		return f
	}
	var all sync.WaitGroup
	for i := range 4 {
		r, err := reserve.New(s.table, &reserve.Options{Timeout: timeout, MaxClockSkewRate: 2 + i%2, ReleaseApplied: i/2 == 1})
		if err != nil {
			t.Fatal(err)
		}
		for g := range 1 + i%2 { // some share a Reserver
			who := fmt.Sprintf("writer %d.%d", i, g)
			all.Go(func() {
				for time.Now().Before(s.end) {
					base := s.current()
					time.Sleep(s.random(50 * time.Millisecond))
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					if s.one(10) {
						cancel()
						ctx, cancel = context.WithTimeout(context.Background(), s.random(time.Second))
					}
					_ = r.Do(ctx, "k", base, s.check(base), func(ctx context.Context) error { return s.operate(ctx, who, base) })
					cancel()
				}
			})
		}
	}
	if !register {
		all.Go(func() {
			for time.Now().Before(s.end) {
				base := s.current()
				time.Sleep(s.random(50 * time.Millisecond))
				_ = objectStore(s.table, "k", base, timeout, s.check(base), func(ctx context.Context) error { return s.operate(ctx, "object_store", base) })
			}
		})
	}
	all.Go(func() {
		for time.Now().Before(s.end) {
			time.Sleep(s.random(5 * time.Second))
			s.sweep()
		}
	})
	all.Wait()
	s.pending.Wait()
	for _, op := range s.reset() {
		if op == "replace" {
			s.counts.replaced++
		}
	}
	return s.counts
}

// sweep removes a row which is so old that the writes of its holder can no longer come:
// rows are, when their time to live is over.
func (s *sim) sweep() {
	if s.inner != nil {
		s.sweepRegister()
		return
	}
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	for name, row := range s.table.rows {
		written := time.Unix(row.TTL, 0).Add(-time.Hour)
		if time.Since(written) > 2*timeout+simLate {
			delete(s.table.rows, name)
			s.mu.Lock()
			s.counts.removed++
			s.mu.Unlock()
			return
		}
	}
}

func (s *sim) sweepRegister() {
	_, v, err := s.registers.Get(s.t.Context(), register)
	s.table.mu.Lock()
	released := s.released
	s.table.mu.Unlock()
	// A released row is missing in the register, but a writer can have checked the object before the release.
	if err != nil || time.Since(released) <= timeout {
		return
	}
	for row, err := range s.inner.(reserve.Lister).Rows(s.t.Context()) {
		if err != nil {
			s.t.Error(err)
		}
		if written := time.Unix(row.TTL, 0).Add(-time.Hour); time.Since(written) <= 2*timeout+simLate {
			return
		}
	}
	if s.registers.Delete(s.t.Context(), register, v) == nil {
		s.mu.Lock()
		s.counts.removed++
		s.mu.Unlock()
	}
}

package lease_test

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

// simCrowds is how many crowds TestSimulationOfCrowds has, each with a seed of its own.
func simCrowds() uint64 {
	switch {
	case os.Getenv("HOLDFAST_TORTURE") != "":
		return 1000
	case raceEnabled:
		return 4
	}
	return 20
}

// TestSimulationOfCrowds lets 20 to 39 programs begin at the same instant to ask for the locks of
// one holder, or to enter their wait queues, over and over. The store is healthy. Each request takes
// nearly as long as a healthy store may take, so that most writes meet a conflict. The holder has a
// plain lease, or ten locks under one session, and loses none.
func TestSimulationOfCrowds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	total := simStats{}
	for seed := *simFirst; seed < *simFirst+simCrowds(); seed++ {
		s := newSim(seed)
		for _, what := range s.runCrowd(t) {
			t.Error(what)
		}
		total.add(s.stats)
	}
	t.Logf("%d requests to yield, %d entries into wait queues, %d writes", total.Asks, total.Queued, total.WritesChecked)
	if total.Asks == 0 || total.Queued == 0 {
		t.Error("the simulation is vacuous: no crowd has asked, or none has waited")
	}
}

// runCrowd runs one crowd in a bubble of its own, and returns what was wrong.
func (s *sim) runCrowd(t *testing.T) []string {
	s.calm, s.scale = true, 10
	synctest.Test(t, func(t *testing.T) {
		s.over, s.healed, s.ledger = make(chan struct{}), make(chan struct{}), newLedger(s)
		machines := make([]*process, 4)
		for i := range machines {
			machines[i] = newProcess(s, i)
		}
		s.crowd(t, machines)
		close(s.healed) // for the handlers of events that block
	})
	return s.broken
}

// crowd lets a holder on the first of these machines hold locks for four TTLs, while programs on all
// of them ask and wait.
func (s *sim) crowd(t *testing.T, machines []*process) {
	ttl := 2 * time.Second * s.scale
	start := func(i int) *life {
		for p := machines[i%len(machines)]; ; {
			if l := p.start(t, ttl); !l.client.Options().ManualRenewal {
				l.far = true
				return l
			}
		}
	}
	holder := start(0)
	defer holder.close(t)
	k, n := claimKind{under: s.rnd.IntN(2) == 0}, 1
	if k.under {
		n = 10
		holder.open(t, ttl)
	}
	work := &actor{p: holder.p, rnd: s.rnd}
	var held []*belief
	for i := range n {
		k.name = fmt.Sprint("crowd/", i)
		g, err := work.handle(holder, k).Acquire(t.Context())
		if err != nil {
			s.fail("%q is free, and the store is healthy: %v", k.name, err)
			return
		}
		held = append(held, work.holds(holder, k, g))
	}
	begin, end := time.Now().Add(ttl/2), time.Now().Add(4*ttl) // all have opened their sessions when they begin
	var others sync.WaitGroup
	for i := range 20 + s.rnd.IntN(20) {
		name, asks := held[i%n].name, s.rnd.IntN(4) == 0 != k.under
		wait, rest := 4*ttl, machines[0].seconds(2)/10
		if s.rnd.IntN(4) > 0 {
			wait = ttl / 4
		}
		others.Go(func() {
			l := start(i)
			defer l.close(t)
			l.open(t, ttl)
			for time.Sleep(time.Until(begin)); time.Now().Before(end) && s.going(); time.Sleep(rest) {
				s.member(t, l, name, asks, min(wait, time.Until(end)))
			}
		})
	}
	others.Wait()
	for _, b := range held {
		if err := b.guard.Err(); err != nil {
			s.fail("a crowd has ended a lease on a healthy store: %v, options %+v", err, holder.client.Options())
		}
		_ = b.guard.Release(t.Context())
		if _, err := b.guard.Handle().Acquire(t.Context()); err != nil {
			s.fail("%q is free after a crowd, and the store is healthy: %v", b.name, err)
		}
	}
}

// member is one step of a program of a crowd: it asks for the lock, or waits in its queue for a time.
func (s *sim) member(t *testing.T, l *life, name string, asks bool, wait time.Duration) {
	ctx, cancel := bounded(t, wait)
	defer cancel()
	if asks { // a request that has waited too long for its turn to write fails
		if _, err := l.client.RequestYield(t.Context(), name, nil); err == nil {
			s.count(func(s *simStats) { s.Asks++ })
		}
		return
	}
	h, err := l.session.Handle(name, &lease.LockOptions{Fair: true})
	if err != nil {
		s.fail("%v", err)
		return
	}
	if g, err := h.Acquire(ctx); err == nil {
		s.fail("a crowd has ended a lease on a healthy store: a waiter has %q with token %d", name, g.Token())
	}
}

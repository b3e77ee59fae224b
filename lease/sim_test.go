package lease_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

var simSeed = flag.Uint64("sim.seed", 0, "replay the simulation of this seed")

// TestSimulation lets contenders with drifting clocks fight for locks over networks
// that fail in every way, in virtual time. At no instant do two of them believe;
// tokens rise; a fenced register never goes back; and when the network heals, all
// get their turn. HOLDFAST_TORTURE=1 runs 100,000 lease-hours of it.
func TestSimulation(t *testing.T) {
	// The jitter is seeded; one processor keeps the order of events nearly so.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	hours := 1000.0
	if raceEnabled {
		hours = 300
	}
	if os.Getenv("HOLDFAST_TORTURE") != "" {
		hours = 100_000
	}
	first := uint64(1)
	if *simSeed != 0 {
		first, hours = *simSeed, 0
	}
	total := simStats{}
	seed := first
	for began := time.Now(); ; seed++ {
		s := newSim(seed)
		s.run(t)
		total.add(s.stats)
		if t.Failed() {
			t.Fatalf("seed %d failed: go test ./lease -run 'TestSimulation$' -sim.seed %d", seed, seed)
		}
		if total.hours >= hours {
			t.Logf("%d seeds, %.0f s: %v", seed-first+1, time.Since(began).Seconds(), total)
			break
		}
	}
	if *simSeed == 0 && (total.takeovers == 0 || total.lost == 0 || total.stale == 0 || total.faults == 0) {
		t.Errorf("the simulation is vacuous: %v", total)
	}
}

// simStats counts what a simulation met.
type simStats struct {
	hours     float64 // of leases held or fought for
	grants    int
	takeovers int
	lost      int
	stale     int // writes that the fence refused
	faults    int
}

func (s *simStats) add(o simStats) {
	s.hours += o.hours
	s.grants += o.grants
	s.takeovers += o.takeovers
	s.lost += o.lost
	s.stale += o.stale
	s.faults += o.faults
}

func (s simStats) String() string {
	return fmt.Sprintf("%.0f lease-hours, %d grants, %d taken over, %d lost, %d stale writes refused, %d faults", s.hours, s.grants, s.takeovers, s.lost, s.stale, s.faults)
}

// sim is one fight for one lock.
type sim struct {
	seed  uint64
	rnd   *rand.Rand
	scale time.Duration // of all times but those of the network's faults
	st    memstore.Store

	mu        sync.Mutex
	guards    map[int]*lease.Guard // what each contender holds, or believes to
	lastToken uint64
	healed    atomic.Bool

	// counting guards stats. Asking a guard whether it believes can send an event,
	// so that events must not need mu.
	counting sync.Mutex
	stats    simStats
}

func (s *sim) count(f func(*simStats)) {
	s.counting.Lock()
	defer s.counting.Unlock()
	f(&s.stats)
}

// luck is a source of random numbers for several goroutines: a contender's work, its
// renewals and its network draw from the same.
type luck struct {
	mu  sync.Mutex
	src rand.Source
}

func newLuck(seed, stream uint64) *rand.Rand {
	return rand.New(&luck{src: rand.NewPCG(seed, stream)})
}

func (l *luck) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.src.Uint64()
}

func newSim(seed uint64) *sim {
	s := &sim{seed: seed, rnd: newLuck(seed, 1), scale: 10, guards: map[int]*lease.Guard{}}
	if seed%8 == 1 {
		s.scale = 1 // leases of seconds, and the rest of minutes
	}
	return s
}

func (s *sim) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		span := 2 * time.Hour * s.scale
		contenders := 2 + s.rnd.IntN(4)
		var wg sync.WaitGroup
		end := time.Now().Add(span)
		for i := range contenders {
			// Each has a generator of its own, so that one's luck is not another's.
			c := &contender{s: s, id: i, rnd: newLuck(s.seed, uint64(i+2))}
			wg.Go(func() { c.live(t, end) })
		}
		// A sample now and then, besides the one at each acquire.
		for time.Now().Before(end) {
			time.Sleep(time.Duration(1+s.rnd.IntN(20)) * time.Second * s.scale)
			s.mu.Lock()
			s.believers(t)
			s.mu.Unlock()
		}
		s.healed.Store(true)
		wg.Wait()
		s.stats.hours = span.Hours() * float64(contenders)
	})
}

// believers checks that at most one contender believes, now.
func (s *sim) believers(t *testing.T) {
	holding := ""
	for id, g := range s.guards {
		if g.Err() != nil {
			continue
		}
		if holding != "" {
			t.Errorf("seed %d, at %v: two believe: %s and %d with token %d", s.seed, time.Now(), holding, id, g.Token())
		}
		holding = fmt.Sprintf("%d with token %d", id, g.Token())
	}
}

// contender is one process with a clock and a network of its own.
type contender struct {
	s    *sim
	id   int
	rnd  *rand.Rand
	wire *wire

	mu   sync.Mutex
	bad  fault // what the network does now
	odds float64
}

// network is the script of the contender's wire.
func (c *contender) network(op *store.Op) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.healed.Load() || op.Kind == store.OpWatch || c.rnd.Float64() >= c.odds {
		return pass
	}
	c.s.count(func(s *simStats) { s.faults++ })
	if c.bad != pass {
		return c.bad
	}
	return []fault{fail, refuse, lose, repeat, hang, late}[c.rnd.IntN(6)]
}

// weather changes the network.
func (c *contender) weather() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.rnd.IntN(6) {
	case 0: // nothing gets through
		c.bad, c.odds = []fault{fail, hang, late}[c.rnd.IntN(3)], 1
	case 1: // replies get lost
		c.bad, c.odds = lose, 0.7
	case 2, 3: // of everything a little
		c.bad, c.odds = pass, 0.3
	default:
		c.bad, c.odds = pass, 0
	}
}

func (c *contender) live(t *testing.T, end time.Time) {
	const rho = 0.01
	w := newWire(&c.s.st)
	c.wire = w
	w.set(c.network)
	o := &lease.Options{
		TTL: time.Duration(2+c.rnd.IntN(28)) * time.Second * c.s.scale, Rho: rho, Holder: strconv.Itoa(c.id),
		OnEvent: func(e lease.Event) {
			c.s.count(func(s *simStats) {
				switch e.Kind {
				case lease.EventTakenOver:
					s.takeovers++
				case lease.EventLost:
					s.lost++
				}
			})
		},
	}
	client, err := lease.New(w, o)
	if err != nil {
		t.Error(err)
		return
	}
	// A clock that is as wrong as it may be, or somewhere between.
	clock := newClocks()
	clock.rate = 1 + rho*[]float64{-1, 1, 2*c.rnd.Float64() - 1}[c.rnd.IntN(3)]
	lease.SetClock(client, clock.read)
	lease.SetRandom(client, newLuck(c.s.seed, uint64(c.id+100)).Float64)
	h, err := client.Handle("job")
	if err != nil {
		t.Error(err)
		return
	}
	for time.Now().Before(end) {
		c.weather()
		c.turn(t, h, time.Duration(1+c.rnd.IntN(300))*time.Second*c.s.scale)
	}
	for !c.s.healed.Load() {
		time.Sleep(time.Second)
	}
	// Everything works again: everybody gets the lock in reasonable time.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute*c.s.scale)
	defer cancel()
	if g, err := h.Acquire(ctx); err != nil {
		t.Errorf("seed %d: contender %d did not get its turn after the store healed: %v", c.s.seed, c.id, err)
	} else {
		c.s.acquired(t, c.id, g)
		if err := g.Release(ctx); err != nil {
			t.Errorf("seed %d: release on a good network: %v", c.s.seed, err)
		}
	}
	w.after.Wait()
	_ = client.Close(t.Context())
}

// turn is one attempt, and the work that follows it.
func (c *contender) turn(t *testing.T, h *lease.Handle, patience time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g, err := h.Acquire(ctx)
	if err != nil {
		return
	}
	c.s.acquired(t, c.id, g)
	for range c.rnd.IntN(6) {
		c.weather()
		time.Sleep(time.Duration(c.rnd.IntN(20_000)) * time.Millisecond * c.s.scale)
		// Work does not look before it writes: the fence alone protects.
		c.s.fenced(t, g)
	}
	switch c.rnd.IntN(4) {
	case 0: // the process dies: nothing leaves it any more
		c.mu.Lock()
		c.bad, c.odds = fail, 1
		c.mu.Unlock()
		select {
		case <-g.Context().Done():
		case <-time.After(time.Minute * c.s.scale): // the network healed meanwhile
		}
		time.Sleep(time.Minute * c.s.scale)
	}
	_ = g.Release(t.Context())
}

func (s *sim) acquired(t *testing.T, id int, g *lease.Guard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(func(s *simStats) { s.grants++ })
	if g.Token() <= s.lastToken {
		t.Errorf("seed %d: token %d after %d", s.seed, g.Token(), s.lastToken)
	}
	s.lastToken = g.Token()
	s.guards[id] = g
	s.believers(t)
}

// fenced writes under the guard's token to a register that refuses older ones.
func (s *sim) fenced(t *testing.T, g *lease.Guard) {
	errStale := errors.New("stale")
	_, err := store.Update(context.Background(), &s.st, "data", func(value []byte) ([]byte, error) {
		seen, _ := strconv.ParseUint(string(value), 10, 64)
		if g.Token() < seen {
			return nil, errStale
		}
		return []byte(strconv.FormatUint(g.Token(), 10)), nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, errStale):
		s.count(func(s *simStats) { s.stale++ })
		if g.Err() == nil {
			t.Errorf("seed %d: the fence refused a holder that believes, token %d", s.seed, g.Token())
		}
	case err != nil:
		t.Error(err)
	case g.Token() < s.lastToken && g.Err() == nil:
		t.Errorf("seed %d: a holder of token %d believes although %d was granted", s.seed, g.Token(), s.lastToken)
	}
}

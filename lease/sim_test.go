package lease_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/memstore"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "replay the simulation of this seed")
	simFirst = flag.Uint64("sim.first", 1, "begin the simulation with this seed")
	simHours = flag.Float64("sim.hours", 100_000, "lease-hours of a torture")
)

// TestSimulation lets processes with drifting clocks fight for locks over networks that fail in
// every way, in virtual time. Their actors mix all kinds on the same names and under the same
// sessions: plain leases, exclusive ones under a session, readers, slots of a semaphore that is
// resized, fair handles, handles that linger, functions that step down when asked or refuse,
// elections, sets, and tickets with copies of them. Processes die, stop, are cut off, and close;
// their options are drawn at random from those that are accepted, their handlers of events
// block, and calls of their stores ignore their contexts. The rules that hold at each write and
// for each belief are in ledger. When the network heals all actors get their turn, and no lock
// stays taken that no actor holds. HOLDFAST_TORTURE=1 runs 100,000 lease-hours of it.
func TestSimulation(t *testing.T) {
	// The jitter is seeded; one processor keeps the order of events nearly so.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	hours := 300.0
	if raceEnabled {
		hours = 10
	}
	long := os.Getenv("HOLDFAST_TORTURE") != ""
	if long {
		hours = *simHours
	}
	first := *simFirst
	if *simSeed != 0 {
		first, hours = *simSeed, 0
	}
	total := simStats{}
	seed := first
	for began := time.Now(); ; seed++ {
		s := newSim(seed)
		broken := s.run(t)
		total.add(s.stats)
		for _, what := range broken {
			t.Error(what)
		}
		if t.Failed() {
			t.Fatalf("seed %d failed: go test ./lease -run 'TestSimulation$' -sim.seed %d", seed, seed)
		}
		enough := total.Hours >= hours
		if enough || long && (seed-first)%20 == 19 {
			t.Logf("%d seeds, %.0f s: %v", seed-first+1, time.Since(began).Seconds(), total)
		}
		if enough {
			break
		}
	}
	if *simSeed == 0 {
		for _, name := range total.never(total.Hours >= 10_000) {
			t.Errorf("the simulation is vacuous: %s never happened", name)
		}
	}
}

// simStats counts what happened in a simulation.
type simStats struct {
	Hours            float64 // that actors held locks or waited for them
	Faults           int     // of the network
	DeafCalls        int     `sim:"rare"` // of these, calls that ignored their contexts
	Grants           int
	GrantsOnCalm     int // on a healthy store
	Takeovers        int `sim:"rare"`
	Losses           int `sim:"rare"`
	Silences         int `sim:"rare"` // waits that they ended
	StaleWrites      int `sim:"rare"` // that the fence refused
	Plain            int
	UnderSessions    int
	Readers          int
	Slots            int
	Fair             int
	Lingering        int `sim:"rare"`
	Rejoined         int `sim:"rare"` // grants that were kept, and used again
	Sets             int `sim:"rare"`
	Functions        int // of a Do
	StepsDown        int `sim:"rare"`
	Refusals         int `sim:"rare"`
	Asks             int `sim:"rare"`
	AsksOfSeveral    int `sim:"rare"` // that name more than one holder
	HeardBySeveral   int `sim:"rare"` // looks of readers and slots that were asked
	Tries            int // short ones, each with a handle of its own
	Abandoned        int `sim:"rare"` // grants of these that were left to their TTL
	Terms            int `sim:"rare"` // of leaders
	Proclaimed       int `sim:"rare"`
	Observed         int `sim:"rare"`
	Expired          int `sim:"rare"` // leaders that an observer heard to be over
	Overdue          int `sim:"rare"` // leaders that were asked for when they seemed to be over
	OtherKinds       int `sim:"rare"` // refused, since the lock is a semaphore
	OtherSlots       int `sim:"rare"` // refused, since it has another number of slots
	Resized          int `sim:"rare"`
	Queued           int // entered the queue of a lock
	HandedOver       int // from there
	Attached         int `sim:"rare"`
	TicketsRefused   int `sim:"rare"`
	Breaks           int `sim:"rare"`
	Surveys          int `sim:"rare"` // listings in place of looks
	Data             int `sim:"rare"`
	Sessions         int
	SessionsFenced   int `sim:"rare"`
	ClientsClosed    int
	Deaths           int `sim:"rare"`
	Sleeps           int `sim:"rare"`
	ClockJumps       int `sim:"rare"`
	WritesChecked    int
	BeliefsChecked   int
	TurnsAfterHealed int
}

func (s *simStats) add(o simStats) {
	sum, other := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	s.Hours += o.Hours
	for i := 1; i < sum.NumField(); i++ {
		sum.Field(i).SetInt(sum.Field(i).Int() + other.Field(i).Int())
	}
}

// never returns the names of what never happened; in a short run what is rare may not.
func (s simStats) never(long bool) (names []string) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if v.Field(i).IsZero() && (long || f.Tag.Get("sim") != "rare") {
			names = append(names, f.Name)
		}
	}
	return names
}

func (s simStats) String() string {
	v := reflect.ValueOf(s)
	parts := []string{fmt.Sprintf("%.0f lease-hours, %.0f faults each", s.Hours, float64(s.Faults)/s.Hours)}
	for i := 1; i < v.NumField(); i++ {
		parts = append(parts, fmt.Sprint(v.Type().Field(i).Name, " ", v.Field(i).Int()))
	}
	return strings.Join(parts, ", ")
}

// The locks of a simulation, and its semaphore.
var simLocks = []string{"a", "b"}

const simSemaphore = "s"

// simTried is the lock that is taken by short tries alone, and whose holders die.
const simTried = "t"

// simRho is how wrong the clocks may be.
const simRho = 0.01

// sim is one fight for the same locks.
type sim struct {
	seed   uint64
	rnd    *rand.Rand
	scale  time.Duration // of all times
	calm   bool          // the store is healthy, if at some distance; its scale is 10
	pushes bool          // the store reports changes
	wrong  *wrongRule    // nil but for a control
	st     memstore.Store
	wakes  *wakes // st, where it reports changes
	ledger *ledger
	healed chan struct{}
	over   chan struct{} // closed when a rule was broken, too

	mu      sync.Mutex
	tickets []lease.Ticket // all that there ever were, used or not
	slots   int            // of the semaphore, as the last Resize had it
	broken  []string       // rules that did not hold
	stats   simStats
}

// count changes the statistics. The caller may hold the mutex of the ledger.
func (s *sim) count(f func(*simStats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// fail notes that a rule did not hold. The first one ends the simulation early.
func (s *sim) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.broken) == 0 {
		close(s.over)
	}
	if len(s.broken) < 10 {
		s.broken = append(s.broken, fmt.Sprintf("seed %d, at %v: ", s.seed, time.Now().Format(time.RFC3339Nano))+fmt.Sprintf(format, args...))
	}
}

// luck is a source of random numbers for several goroutines: a process's actors, its
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

// newSim draws what does not change. A request on a healthy store takes up to 100 ms times the scale.
// At a scale of 60 that is longer than the default of ReleaseTimeout, so that releases rightly fail.
func newSim(seed uint64) *sim {
	s := &sim{seed: seed, rnd: newLuck(seed, 1), scale: 10, calm: seed%4 == 2, pushes: seed%3 > 0, slots: 2}
	random := newLuck(seed, 3)
	s.wakes = &wakes{Store: &s.st, calls: map[string]func(){}, lost: func() bool { return random.IntN(3) == 0 }}
	switch {
	case seed%16 == 1:
		s.scale = 1 // leases of seconds, and the rest of minutes
	case seed%2 == 1:
		s.scale = 60
	}
	return s
}

// simSpan is for how long the network is bad, times the scale.
func simSpan() time.Duration {
	if raceEnabled {
		return 30 * time.Minute
	}
	return 2 * time.Hour
}

// simRounds is how often the network heals.
const simRounds = 4

// run runs the simulation in a bubble of its own, and returns what was wrong.
func (s *sim) run(t *testing.T) []string {
	synctest.Test(t, func(t *testing.T) {
		s.over = make(chan struct{})
		s.ledger = newLedger(s)
		all := make([]*process, 2+s.rnd.IntN(3))
		for i := range all {
			all[i] = newProcess(s, i)
		}
		for range simRounds {
			s.round(t, all)
		}
		if s.going() {
			together(all, func(p *process) { p.renew(t) })
			s.lastTurns(t, all)
		}
		together(all, func(p *process) { p.end(t) })
		if s.going() {
			s.ledger.wantNoneHeld("after all have closed", func(string) bool { return true })
		}
	})
	return s.broken
}

// round lets the network be bad for a time, and heals it. When all actors have ended what they
// were at, and what is under way has arrived, no session that lives holds a lock.
func (s *sim) round(t *testing.T, all []*process) {
	if !s.going() {
		return
	}
	s.mu.Lock()
	s.healed = make(chan struct{})
	s.mu.Unlock()
	var processes sync.WaitGroup
	end := time.Now().Add(simSpan() * s.scale / simRounds)
	for _, p := range all {
		processes.Go(func() { p.run(t, end) })
	}
	// Beliefs are checked now and then, besides at each write.
	for time.Now().Before(end) && s.going() {
		time.Sleep(time.Duration(1+s.rnd.IntN(20)) * time.Second * s.scale)
		s.ledger.look()
	}
	close(s.healed)
	processes.Wait()
	if s.going() {
		time.Sleep(10 * time.Minute * s.scale)
	}
	if s.going() {
		s.ledger.wantNoneHeld("by a session that lives, although no actor holds it", func(session string) bool {
			l := s.ledger.sessions[session]
			return l != nil && l.owner.lives()
		})
	}
}

// heals is closed when the network heals.
func (s *sim) heals() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healed
}

// together does f for all processes at the same time.
func together(all []*process, f func(*process)) {
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() { f(p) })
	}
	wg.Wait()
}

// going reports whether no rule was broken yet.
func (s *sim) going() bool {
	select {
	case <-s.over:
		return false
	default:
		return true
	}
}

// isHealed reports whether the network works for good.
func (s *sim) isHealed() bool {
	select {
	case <-s.heals():
		return true
	default:
		return false
	}
}

// lastTurns lets each actor of each process take each name, all at the same time; then one takes
// all, so that what the dead hold is cleared away.
func (s *sim) lastTurns(t *testing.T, all []*process) {
	if _, err := all[0].now().client.Resize(t.Context(), simSemaphore, 2); err != nil && s.ledger.locks[simSemaphore] != nil {
		s.fail("Resize on a good network: %v", err)
	}
	s.slots = 2
	var turns sync.WaitGroup
	for _, p := range all {
		for _, a := range p.actors {
			turns.Go(func() { a.lastTurn(t) })
		}
	}
	turns.Wait()
	session := all[0].now().session
	for i, name := range []string{simLocks[0], simLocks[1], simTried, simSemaphore, simSemaphore} {
		o := lease.LockOptions{Fair: true}
		if i > 2 {
			o.Slots = 2
		}
		h, err := session.Handle(name, &o)
		if err != nil {
			s.fail("%v", err)
			return
		}
		ctx, cancel := bounded(t, 30*time.Minute*s.scale)
		defer cancel()
		guard, err := h.Acquire(ctx)
		if err != nil {
			s.fail("the last holder did not get %q: %v", name, err)
			return
		}
		defer func() { _ = guard.Release(t.Context()) }()
	}
}

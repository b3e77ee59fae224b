package lease_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "replay the simulation of this seed")
	simFirst = flag.Uint64("sim.first", 1, "begin the simulation with this seed")
	simHours = flag.Float64("sim.hours", 100_000, "lease-hours of a torture")
)

// TestSimulation lets contenders with drifting clocks fight for locks over networks
// that fail in every way, in virtual time. Their options are drawn at random from those
// that are accepted, their handlers of events block, calls of their stores ignore their
// contexts, they take locks plain and under sessions, and they break, detach, attach (with copies of tickets, too), write data and
// close at any time. At no instant do two of them believe; tokens rise; a fenced register
// never goes back; data that was stored is there; no lease is lost on a healthy store;
// and when the network heals, all get their turn. HOLDFAST_TORTURE=1 runs 100,000
// lease-hours of it.
func TestSimulation(t *testing.T) {
	// The jitter is seeded; one processor keeps the order of events nearly so.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	hours := 300.0
	if raceEnabled {
		hours = 25
	}
	if os.Getenv("HOLDFAST_TORTURE") != "" {
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
	if *simSeed == 0 && slices.Contains([]int{
		total.takeovers, total.lost, total.stale, total.faults, total.attached, total.broken, total.closed, total.data, total.deaf, total.calm,
		total.sessions, total.fenced, total.under,
	}, 0) {
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
	deaf      int // of these, calls that ignored their contexts
	attached  int
	refused   int // uses of tickets that were refused
	broken    int
	closed    int // clients, with or without a lease
	data      int
	calm      int // grants on a healthy store
	sessions  int // opened
	fenced    int // of these, by another client
	under     int // grants under them
}

func (s *simStats) add(o simStats) {
	s.hours += o.hours
	s.grants += o.grants
	s.takeovers += o.takeovers
	s.lost += o.lost
	s.stale += o.stale
	s.faults += o.faults
	s.deaf += o.deaf
	s.attached += o.attached
	s.refused += o.refused
	s.broken += o.broken
	s.closed += o.closed
	s.data += o.data
	s.calm += o.calm
	s.sessions += o.sessions
	s.fenced += o.fenced
	s.under += o.under
}

func (s simStats) String() string {
	return fmt.Sprintf("%.0f lease-hours, %d grants (%d on a healthy store), %d taken over, %d lost, %d stale writes refused, %d faults (%d calls that ignored their contexts), %d tickets attached and %d refused, %d broken, %d clients closed, %d times data, %d sessions opened and %d fenced, %d grants under them",
		s.hours, s.grants, s.calm, s.takeovers, s.lost, s.stale, s.faults, s.deaf, s.attached, s.refused, s.broken, s.closed, s.data, s.sessions, s.fenced, s.under)
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
	tickets   []lease.Ticket  // all that there ever were, used or not
	data      map[string]bool // what may stand in the record
	healed    chan struct{}

	calm bool // the store is healthy, if at some distance

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
	s := &sim{seed: seed, rnd: newLuck(seed, 1), scale: 10, guards: map[int]*lease.Guard{}, data: map[string]bool{"": true}, calm: seed%4 == 2}
	if seed%8 == 1 {
		s.scale = 1 // leases of seconds, and the rest of minutes
	}
	return s
}

func (s *sim) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s.healed = make(chan struct{})
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
		close(s.healed)
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
	s     *sim
	id    int
	rnd   *rand.Rand
	wire  *wire
	clock *clocks

	client  *lease.Client
	session *lease.Session // that h is under, or nil
	h       *lease.Handle

	mu   sync.Mutex
	bad  fault // what the network does now
	odds float64
}

func (s *sim) over() bool {
	select {
	case <-s.healed:
		return true
	default:
		return false
	}
}

// network is the script of the contender's wire.
func (c *contender) network(op *store.Op) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.s.calm || c.s.over() || op.Kind == store.OpWatch || c.rnd.Float64() >= c.odds {
		return pass
	}
	f := c.bad
	if f == pass {
		f = []fault{drop, fail, lose, repeat, hang, hangLate, deaf}[c.rnd.IntN(7)]
	}
	c.s.count(func(s *simStats) {
		s.faults++
		if f == deaf {
			s.deaf++
		}
	})
	return f
}

// weather changes the network.
func (c *contender) weather() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.rnd.IntN(6) {
	case 0: // nothing gets through
		c.bad, c.odds = []fault{drop, hang, hangLate, deaf}[c.rnd.IntN(4)], 1
	case 1: // replies get lost
		c.bad, c.odds = lose, 0.7
	case 2, 3: // of everything a little
		c.bad, c.odds = pass, 0.3
	default:
		c.bad, c.odds = pass, 0
	}
}

// seconds is a time of up to n seconds, scaled.
func (c *contender) seconds(n int) time.Duration {
	return time.Duration(c.rnd.IntN(n*1000)) * time.Millisecond * c.s.scale
}

// handler is a handler of events that blocks now and then, and sometimes for good.
func (c *contender) handler(e lease.Event) {
	c.s.count(func(s *simStats) {
		switch e.Kind {
		case lease.EventTakenOver:
			s.takeovers++
		case lease.EventLost:
			s.lost++
		case lease.EventFenced:
			s.fenced++
		}
	})
	switch c.rnd.IntN(300) {
	case 0:
		<-c.s.healed
	case 1, 2, 3:
		select {
		case <-c.s.healed:
		case <-time.After(c.seconds(300)):
		}
	}
}

// blockingLog blocks as the handler does.
type blockingLog struct {
	slog.Handler
	c *contender
}

func (b blockingLog) Enabled(context.Context, slog.Level) bool { return true }

func (b blockingLog) Handle(context.Context, slog.Record) error {
	b.c.handler(lease.Event{})
	return nil
}

// open makes a client with options drawn at random from those that are accepted.
func (c *contender) open(t *testing.T, ttl time.Duration) *lease.Client {
	const rho = 0.01
	maybe := func(d time.Duration) time.Duration {
		if c.rnd.IntN(2) == 0 {
			return 0
		}
		return d
	}
	least := 100 * time.Millisecond
	if c.s.calm {
		least = time.Second * c.s.scale // a request or two on a healthy store
	}
	for {
		o := &lease.Options{
			TTL:      ttl,
			Holder:   strconv.Itoa(c.id),
			OnEvent:  c.handler,
			Grace:    maybe(time.Duration(c.rnd.Int64N(int64(ttl)/3))) - time.Duration(c.rnd.IntN(2)),
			Patience: maybe(time.Second + c.seconds(60)),
			Manual:   c.rnd.IntN(10) == 0,
			Fresh:    c.rnd.IntN(4) == 0,
			Tuning: lease.Tuning{
				Rho:            rho,
				Renew:          maybe(ttl/20 + time.Duration(c.rnd.Int64N(int64(ttl)/2))),
				Margin:         maybe(time.Duration(c.rnd.Int64N(int64(ttl) / 3))),
				ReleaseTimeout: maybe(least + c.seconds(30)),
				MinPoll:        maybe(time.Millisecond + c.seconds(2)),
			},
		}
		if c.rnd.IntN(3) == 0 {
			o.Log = slog.New(blockingLog{slog.DiscardHandler, c})
		}
		client, err := lease.New(c.wire, o)
		if errors.Is(err, store.ErrInvalid) {
			continue
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		lease.SetClock(client, c.clock.read)
		lease.SetRandom(client, c.rnd.Float64)
		return client
	}
}

// restart makes a new client and a handle, and closes the ones before.
func (c *contender) restart(t *testing.T) {
	if c.client != nil {
		c.close(t, c.client)
	}
	c.client = c.open(t, time.Duration(2+c.rnd.IntN(28))*time.Second*c.s.scale)
	c.session = nil
	handle := c.client.Handle
	if c.rnd.IntN(2) == 0 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+c.seconds(30))
		defer cancel()
		if s, err := c.client.OpenSession(ctx); err == nil {
			c.s.count(func(s *simStats) { s.sessions++ })
			c.session, handle = s, s.Handle
		}
	}
	h, err := handle("job")
	if err != nil {
		t.Error(err)
	}
	c.h = h
}

// close closes a client, and checks that it does so in time.
func (c *contender) close(t *testing.T, client *lease.Client) {
	c.s.count(func(s *simStats) { s.closed++ })
	began := time.Now()
	_ = client.Close(t.Context())
	if took, bound := time.Since(began), client.Options().ReleaseTimeout+3*time.Second; took > bound {
		t.Errorf("seed %d: Close took %v; at most %v are allowed", c.s.seed, took, bound)
	}
}

func (c *contender) live(t *testing.T, end time.Time) {
	c.wire = newWire(described{store.Intercept(&c.s.st, c.distance), store.Traits{}})
	c.wire.deafness = func() time.Duration { return c.seconds(400) }
	c.wire.set(c.network)
	// A clock that is as wrong as it may be, or somewhere between.
	c.clock = newClocks()
	c.clock.rate = 1 + 0.01*[]float64{-1, 1, 2*c.rnd.Float64() - 1}[c.rnd.IntN(3)]
	c.restart(t)
	for time.Now().Before(end) {
		c.weather()
		switch c.rnd.IntN(20) {
		case 0:
			c.restart(t)
		case 1, 2, 3:
			c.useTicket(t)
		case 4:
			c.breakIt(t)
		}
		if c.session != nil && c.session.Err() != nil {
			c.restart(t)
		}
		c.turn(t, time.Duration(1+c.rnd.IntN(300))*time.Second*c.s.scale)
	}
	<-c.s.healed
	time.Sleep(10 * time.Minute * c.s.scale) // what is under way arrives
	// Everything works again: each contender gets the lock in reasonable time. A session that
	// no one renews would end while it waits.
	c.restart(t)
	for c.session != nil && c.client.Options().Manual {
		c.restart(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute*c.s.scale)
	defer cancel()
	if g, err := c.h.Acquire(ctx); err != nil {
		t.Errorf("seed %d: contender %d did not get its turn after the store healed: %v", c.s.seed, c.id, err)
	} else {
		c.s.acquired(t, c.id, g, false)
		if err := g.Release(ctx); err != nil {
			t.Errorf("seed %d: release on a good network: %v", c.s.seed, err)
		}
	}
	c.wire.after.Wait()
	c.close(t, c.client)
	for c.client.Stats().Calls > 0 {
		t.Errorf("seed %d: a call is left behind on a good network", c.s.seed)
		time.Sleep(time.Minute)
	}
}

// distance is what a request takes on a healthy store: up to a tenth of the shortest TTL.
func (c *contender) distance(ctx context.Context, op *store.Op, next store.Handler) error {
	if !c.s.calm || op.Kind == store.OpWatch {
		return next(ctx, op)
	}
	whole := c.seconds(2) / 10
	if err := pause(ctx, whole/2); err != nil {
		return err
	}
	err := next(ctx, op)
	if err := pause(ctx, whole/2); err != nil {
		return err
	}
	return err
}

// turn is one attempt, and the work that follows it.
func (c *contender) turn(t *testing.T, patience time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	g, err := c.h.Acquire(ctx)
	o := c.client.Options()
	if took, bound := time.Since(began), patience+o.ReleaseTimeout+2*time.Second; took > bound {
		t.Errorf("seed %d: Acquire took %v; at most %v are allowed", c.s.seed, took, bound)
	}
	if err != nil {
		return
	}
	if c.session != nil {
		c.s.count(func(s *simStats) { s.under++ })
	}
	c.s.acquired(t, c.id, g, false)
	c.work(t, g, o)
}

// work is what happens under a lease, until its end.
func (c *contender) work(t *testing.T, g *lease.Guard, o lease.Options) {
	s := c.s
	for range c.rnd.IntN(6) {
		c.weather()
		time.Sleep(c.seconds(20))
		// Work does not look before it writes: the fence alone protects.
		s.fenced(t, g)
		switch c.rnd.IntN(6) {
		case 0:
			ctx, cancel := context.WithTimeout(t.Context(), c.seconds(10))
			s.setData(ctx, t, g, strconv.FormatUint(c.rnd.Uint64(), 36))
			cancel()
		case 1:
			_ = g.Renew(t.Context())
		}
	}
	if err := g.Err(); s.calm && !o.Manual && errors.Is(err, lease.ErrLost) {
		t.Errorf("seed %d: a lease was lost on a healthy store: %v, options %+v", s.seed, err, o)
	}
	began, bound := time.Now(), o.ReleaseTimeout+2*time.Second
	switch c.rnd.IntN(7) {
	case 0: // the process dies: nothing leaves it any more
		c.mu.Lock()
		c.bad, c.odds = drop, 1
		c.mu.Unlock()
		select {
		case <-g.Context().Done():
		case <-time.After(time.Minute * s.scale): // the network healed meanwhile
		}
		time.Sleep(time.Minute * s.scale)
		began = time.Now()
	case 1, 2:
		ticket, err := g.Detach(t.Context())
		if took := time.Since(began); took > bound {
			t.Errorf("seed %d: Detach took %v; at most %v are allowed", s.seed, took, bound)
		}
		if err == nil {
			s.keep(ticket)
			if c.rnd.IntN(3) > 0 {
				time.Sleep(c.seconds(5))
				c.useTicket(t)
			}
		}
		began = time.Now()
	case 3:
		c.restart(t)
		began = time.Now()
	case 4:
		if c.session != nil {
			_ = c.session.Close(t.Context())
			if took := time.Since(began); took > bound {
				t.Errorf("seed %d: Close of a session took %v; at most %v are allowed", s.seed, took, bound)
			}
			began = time.Now()
		}
	}
	_ = g.Release(t.Context())
	if took := time.Since(began); took > bound {
		t.Errorf("seed %d: Release took %v; at most %v are allowed", s.seed, took, bound)
	}
}

// keep keeps a ticket for ever.
func (s *sim) keep(t lease.Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets = append(s.tickets, t)
}

// useTicket uses one of the last tickets, which may have been used before.
func (c *contender) useTicket(t *testing.T) {
	c.s.mu.Lock()
	n := len(c.s.tickets)
	var ticket lease.Ticket
	if n > 0 {
		ticket = c.s.tickets[max(0, n-1-c.rnd.IntN(4))]
	}
	c.s.mu.Unlock()
	if n == 0 {
		return
	}
	client := c.open(t, ticket.TTL)
	defer c.close(t, client)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second+c.seconds(30))
	defer cancel()
	var err error
	switch c.rnd.IntN(4) {
	case 0:
		var next lease.Ticket
		next, err = client.RenewTicket(ctx, ticket, func(next lease.Ticket) error {
			c.s.keep(next)
			return nil
		})
		if err == nil {
			c.s.keep(next)
		}
	case 1:
		err = client.ReleaseTicket(ctx, ticket)
	default:
		var g *lease.Guard
		if g, err = client.Attach(ctx, ticket); err == nil {
			c.s.acquired(t, c.id, g, true)
			c.work(t, g, client.Options())
		}
	}
	if err != nil {
		c.s.count(func(s *simStats) { s.refused++ })
	}
	if changed := new(lease.TicketError); errors.As(err, &changed) {
		c.s.keep(changed.Ticket)
	}
}

// breakIt breaks the grant that stands, where a loss proves nothing.
func (c *contender) breakIt(t *testing.T) {
	if c.s.calm {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second+c.seconds(30))
	defer cancel()
	info, err := c.client.Inspect(ctx, "job")
	if err != nil {
		return
	}
	if _, err := c.client.Break(ctx, "job", info.Record.Token, nil); err == nil {
		c.s.count(func(s *simStats) { s.broken++ })
	}
}

func (s *sim) acquired(t *testing.T, id int, g *lease.Guard, attached bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(func(s *simStats) {
		if attached {
			s.attached++
		} else {
			s.grants++
		}
	})
	if s.calm {
		s.count(func(s *simStats) { s.calm++ })
	}
	if g.Token() < s.lastToken || g.Token() == s.lastToken && !attached {
		t.Errorf("seed %d: token %d after %d", s.seed, g.Token(), s.lastToken)
	}
	if !s.data[string(g.Data())] {
		t.Errorf("seed %d: data %q; it can be one of %v", s.seed, g.Data(), s.data)
	}
	if !attached {
		// Requests still under way name a record that was replaced.
		s.data = map[string]bool{string(g.Data()): true}
	}
	s.lastToken = g.Token()
	s.guards[id] = g
	s.believers(t)
}

// setData stores data, and notes what may stand in the record then.
func (s *sim) setData(ctx context.Context, t *testing.T, g *lease.Guard, data string) {
	note := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if g.Token() == s.lastToken {
			f()
		}
	}
	note(func() { s.data[data] = true })
	err := g.SetData(ctx, []byte(data))
	switch {
	case err == nil:
		s.count(func(s *simStats) { s.data++ })
		note(func() {
			if string(g.Data()) != data {
				t.Errorf("seed %d: data %q was stored, the guard has %q", s.seed, data, g.Data())
			}
			s.data = map[string]bool{data: true}
		})
	case store.OutcomeOf(err) == store.NotApplied:
		note(func() { delete(s.data, data) })
	}
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

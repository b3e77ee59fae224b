package lease_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

func bounded(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// process is a machine with a clock, a network, and a program with several actors. When the
// program dies or is closed, another one is started.
type process struct {
	s      *sim
	id     int
	rnd    *rand.Rand
	clock  *driftingClock
	actors []*actor
	closes sync.WaitGroup // of programs that have died

	mu    sync.Mutex
	life  *life
	lives []*life // all that there were
	bad   fault   // what the network does now
	alone bool    // to writes, and not to reads
	odds  float64
	awake time.Time // when the machine wakes up that is asleep
	erred time.Time // when the last fault was

	trouble atomic.Int64 // when a fault, or the beginning or end of a request that took long, was last, as Unix time in ns
	flying  sync.Map     // the requests that are under way: *store.Op to the time when each was sent
}

// life is one program, from its start until it is closed or dies.
type life struct {
	p       *process
	wire    *wire
	client  *lease.Client
	session *lease.Session // nil if it has none
	far     bool           // its requests take nearly as long as a healthy store allows
	dead    atomic.Bool    // no request leaves it any more
	closed  atomic.Bool
}

func newProcess(s *sim, id int) *process {
	// Each has a generator of its own, so that one's luck is not another's.
	p := &process{s: s, id: id, rnd: newLuck(s.seed, uint64(id+2))}
	// A clock that is as wrong as it may be, or somewhere between.
	wrong := simRho * []float64{-1, 1, 2*p.rnd.Float64() - 1}[p.rnd.IntN(3)]
	if s.wrong != nil && s.wrong.clocks > 0 {
		wrong = s.wrong.clocks * []float64{-1, 1}[id%2]
	}
	p.clock = &driftingClock{start: time.Now(), rate: 1 + wrong}
	for i := range 1 + p.rnd.IntN(4) {
		p.actors = append(p.actors, &actor{p: p, id: i, rnd: newLuck(s.seed, uint64(1000*(id+1)+i))})
	}
	return p
}

// driftingClock is the clock of a machine that runs at a rate of its own, sleeps and jumps.
type driftingClock struct {
	mu     sync.Mutex
	start  time.Time
	rate   float64
	jumped time.Duration // of the wall clock
	slept  time.Duration // by the machine's own clock
	asleep time.Time     // since when it sleeps; zero: it does not
}

func (c *driftingClock) read() lease.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := func(since time.Time) time.Duration { return time.Duration(c.rate * float64(time.Since(since))) }
	slept := c.slept
	if !c.asleep.IsZero() {
		slept += passed(c.asleep)
	}
	now := c.start.Add(passed(c.start))
	return lease.Reading{Mono: now.Add(-slept), Wall: now.Add(c.jumped).Round(0), Suspended: slept}
}

func (c *driftingClock) sleep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asleep = time.Now()
}

func (c *driftingClock) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slept += time.Duration(c.rate * float64(time.Since(c.asleep)))
	c.asleep = time.Time{}
}

func (c *driftingClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jumped += d
}

// now returns the program that runs.
func (p *process) now() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// lives reports whether the program runs, and its session is trusted.
func (l *life) lives() bool {
	return !l.dead.Load() && !l.closed.Load() && l.session != nil && l.session.Err() == nil
}

// network is the script of the wire of a life.
func (l *life) network(op *store.Op) fault {
	p := l.p
	if l.dead.Load() && op.Kind != store.OpWatch {
		return drop
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.s.calm || p.s.isHealed() || op.Kind == store.OpWatch {
		return pass
	}
	f := p.bad
	if time.Now().Before(p.awake) {
		f = deaf // it leaves when the machine wakes up
	} else if p.rnd.Float64() >= p.odds || p.alone && !op.Kind.Write() {
		return pass
	}
	if f == pass {
		f = []fault{drop, fail, lose, repeat, hang, hangLate, deaf}[p.rnd.IntN(7)]
	}
	p.erred = time.Now()
	p.trouble.Store(time.Now().UnixNano())
	p.s.count(func(s *simStats) {
		s.Faults++
		if f == deaf {
			s.DeafCalls++
		}
	})
	return f
}

// well returns since when the machine is awake, and its network has no faults.
func (p *process) well() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.awake.After(p.erred) {
		return p.awake
	}
	return p.erred
}

// deafness is how long a call takes that ignores its context.
func (p *process) deafness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.awake); left > 0 {
		return left + time.Duration(p.rnd.IntN(1000))*time.Millisecond
	}
	return p.seconds(400)
}

// weather changes the network.
func (p *process) weather() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone = false
	switch p.rnd.IntN(7) {
	case 0: // nothing gets through
		p.bad, p.odds = []fault{drop, hang, hangLate, deaf}[p.rnd.IntN(4)], 1
	case 6: // writes alone fail
		p.bad, p.odds, p.alone = []fault{fail, drop, hang}[p.rnd.IntN(3)], 1, true
	case 1: // replies get lost
		p.bad, p.odds = lose, 0.7
	case 2, 3: // of everything a little
		p.bad, p.odds = pass, 0.3
	default:
		p.bad, p.odds = pass, 0
	}
}

// seconds is a time of up to n seconds, scaled.
func (p *process) seconds(n int) time.Duration {
	return time.Duration(p.rnd.IntN(n*1000)) * time.Millisecond * p.s.scale
}

// wait waits that long, or until the network has healed.
func (p *process) wait(d time.Duration) {
	select {
	case <-p.s.heals():
	case <-p.s.over:
	case <-time.After(d):
	}
}

// handler is a handler of events that blocks now and then, and sometimes for good.
func (p *process) handler(e lease.Event) {
	p.s.count(func(s *simStats) {
		switch e.Kind {
		case lease.EventTakenOver:
			s.Takeovers++
		case lease.EventLost:
			s.Losses++
		}
	})
	switch p.rnd.IntN(300) {
	case 0:
		<-p.s.heals()
	case 1, 2, 3:
		p.wait(p.seconds(300))
	}
}

// blockingLog blocks as the handler does.
type blockingLog struct {
	slog.Handler
	p *process
}

func (b blockingLog) Enabled(context.Context, slog.Level) bool { return true }

func (b blockingLog) Handle(context.Context, slog.Record) error {
	b.p.handler(lease.Event{})
	return nil
}

// start makes a program, whose client has options drawn at random from those that are accepted.
func (p *process) start(t *testing.T, ttl time.Duration) *life {
	l := &life{p: p}
	var st store.Store = &p.s.st
	if p.s.pushes {
		st = p.s.wakes
	}
	st = store.Intercept(st, p.distance(l, p.s.ledger.carry(l)))
	if !p.s.pushes && p.id%2 == 0 {
		st = listedOf(st)
	} else if !p.s.pushes {
		st = hidden{st}
	}
	l.wire = newWire(described{st, store.Traits{}})
	l.wire.deafness = p.deafness
	l.wire.set(l.network)
	sent := store.Intercept(l.wire, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind == store.OpListTags {
			p.s.count(func(s *simStats) { s.Surveys++ })
		}
		return next(context.WithValue(ctx, sentKey{}, time.Now()), op)
	})
	maybe := func(d time.Duration) time.Duration {
		if p.rnd.IntN(2) == 0 {
			return 0
		}
		return d
	}
	least := 100 * time.Millisecond
	if p.s.calm || p.s.isHealed() {
		least = time.Second * p.s.scale // a request or two on a healthy store
	}
	for {
		o := &lease.Options{
			TTL:           ttl,
			Holder:        strconv.Itoa(p.id),
			OnEvent:       p.handler,
			Grace:         maybe(time.Duration(p.rnd.Int64N(int64(ttl)/3))) - time.Duration(p.rnd.IntN(2)),
			StoreTimeout:  maybe(time.Second + p.seconds(60)),
			ManualRenewal: p.rnd.IntN(10) == 0 && !p.s.isHealed(),
			AssumeNew:     p.rnd.IntN(4) == 0,
			Tuning: lease.Tuning{
				MaxClockDrift:  simRho,
				RenewInterval:  maybe(ttl/20 + time.Duration(p.rnd.Int64N(int64(ttl)/2))),
				Margin:         maybe(time.Duration(p.rnd.Int64N(int64(ttl) / 3))),
				ReleaseTimeout: maybe(least + p.seconds(30)),
				MinPoll:        time.Millisecond + p.seconds(2),
				MaxPoll:        maybe(ttl / 4),
			},
		}
		if p.s.isHealed() {
			o.StoreTimeout = 0
		}
		if p.rnd.IntN(3) == 0 {
			o.Logger = slog.New(blockingLog{slog.DiscardHandler, p})
		}
		client, err := lease.New(sent, o)
		if errors.Is(err, store.ErrInvalid) {
			continue
		}
		if err != nil {
			p.s.fail("%v", err)
		}
		lease.SetClock(client, p.clock.read)
		lease.SetRandom(client, p.rnd.Float64)
		lease.BatchPollsAlways(client)
		l.client = client
		p.mu.Lock()
		p.lives = append(p.lives, l)
		p.mu.Unlock()
		return l
	}
}

// distance carries a request out after the time that it takes. On a healthy store that is up to
// a twentieth of the shortest TTL, so that a renewal that meets an ask is through in time, too.
// Elsewhere a reply takes long now and then.
func (p *process) distance(l *life, carry func(context.Context, *store.Op, store.Handler) error) func(context.Context, *store.Op, store.Handler) error {
	return func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind != store.OpWatch {
			sent := time.Now()
			p.flying.Store(op, sent)
			defer func() {
				if p.flying.Delete(op); time.Since(sent) > p.long() {
					p.trouble.Store(time.Now().UnixNano())
				}
			}()
		}
		there, back := time.Duration(0), time.Duration(0)
		switch {
		case op.Kind == store.OpWatch, p.s.isHealed():
		case l.far:
			there = time.Duration(35+p.rnd.IntN(15)) * time.Millisecond * p.s.scale
			back = there
		case p.s.calm:
			there = p.seconds(2) / 40
			back = there
		case p.rnd.IntN(10) == 0:
			back = min(p.seconds(10), time.Duration(p.rnd.IntN(30_000))*time.Millisecond)
			p.trouble.Store(time.Now().UnixNano())
		}
		if there > 0 && pause(ctx, there) != nil {
			return context.Cause(ctx)
		}
		err := carry(ctx, op, next)
		if back > 0 && pause(ctx, back) != nil {
			return context.Cause(ctx)
		}
		return err
	}
}

// long is longer than a request takes on a healthy store.
func (p *process) long() time.Duration { return 200 * time.Millisecond * p.s.scale }

// quietFor reports whether all requests of the process were answered soon, and without a fault, for that
// time. Goroutines of a program share the reads of a lock and of a session: one slow request can hold up
// all of them, and so can the pause of up to MaxPoll after an error.
func (p *process) quietFor(d time.Duration) bool {
	quiet := time.Since(time.Unix(0, p.trouble.Load())) > d
	p.flying.Range(func(_, sent any) bool {
		quiet = quiet && time.Since(sent.(time.Time)) <= p.long()
		return quiet
	})
	return quiet
}

// restart starts another program, and returns the one before.
func (p *process) restart(t *testing.T) *life {
	l := p.start(t, time.Duration(2+p.rnd.IntN(28))*time.Second*p.s.scale)
	l.open(t, time.Second+p.seconds(30))
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.life
	p.life = l
	return before
}

// open opens a session, if that takes no longer than d.
func (l *life) open(t *testing.T, d time.Duration) {
	ctx, cancel := bounded(t, d)
	defer cancel()
	s, err := l.client.OpenSession(ctx)
	if err != nil {
		return
	}
	l.p.s.count(func(s *simStats) { s.Sessions++ })
	l.session = s
}

// close closes the program, and checks that it does so in time.
func (l *life) close(t *testing.T) {
	s := l.p.s
	s.count(func(s *simStats) { s.ClientsClosed++ })
	l.closed.Store(true)
	began := time.Now()
	_ = l.client.Close(t.Context())
	if took, bound := time.Since(began), l.client.Options().ReleaseTimeout+3*time.Second; took > bound {
		s.fail("Close took %v; at most %v are allowed", took, bound)
	}
}

// run runs the process until the network has healed, and then until its actors have ended what
// they were at.
func (p *process) run(t *testing.T, end time.Time) {
	if p.now() == nil {
		p.restart(t)
	}
	var actors, observers sync.WaitGroup
	for _, a := range p.actors {
		actors.Go(func() { a.run(t) })
	}
	for time.Now().Before(end) && p.s.going() {
		p.weather()
		p.wait(p.seconds(200))
		if l := p.now(); l.session == nil || l.session.Err() != nil {
			p.replace(t)
		}
		p.chore(t, &observers)
	}
	<-p.s.heals()
	observers.Wait()
	actors.Wait()
}

// renew starts a program whose session lives, when everything works again.
func (p *process) renew(t *testing.T) {
	for p.replace(t); p.now().session == nil && p.s.going(); p.replace(t) {
	}
}

// replace closes the program and starts another.
func (p *process) replace(t *testing.T) {
	if before := p.restart(t); before != nil {
		before.close(t)
	}
}

// end closes all that is left, and waits for it.
func (p *process) end(t *testing.T) {
	l := p.now()
	if l.close(t); p.s.going() && l.wire.abandoned.Abandoned() > 0 {
		p.s.fail("a call is left behind on a good network")
	}
	p.closes.Wait()
	for _, l := range p.lives { // what was sent before arrives late
		for l.wire.abandoned.Abandoned() > 0 {
			time.Sleep(time.Minute)
		}
		l.wire.after.Wait()
	}
}

// chore does one thing besides the work of the actors.
func (p *process) chore(t *testing.T, observers *sync.WaitGroup) {
	l := p.now()
	ctx, cancel := bounded(t, time.Second+p.seconds(60))
	defer cancel()
	switch p.rnd.IntN(20) {
	case 0:
		p.replace(t)
	case 1: // the program dies: no request leaves it any more
		if p.s.calm {
			return
		}
		p.s.count(func(s *simStats) { s.Deaths++ })
		l.dead.Store(true)
		p.restart(t)
		p.closes.Go(func() {
			p.wait(p.seconds(600))
			l.close(t)
		})
	case 2: // the machine sleeps
		if p.s.calm {
			return
		}
		p.s.count(func(s *simStats) { s.Sleeps++ })
		d := p.seconds(120)
		p.mu.Lock()
		p.awake = time.Now().Add(d)
		p.mu.Unlock()
		p.clock.sleep()
		time.Sleep(d)
		p.clock.wake()
	case 3:
		if p.s.calm {
			return
		}
		p.s.count(func(s *simStats) { s.ClockJumps++ })
		p.clock.jump(time.Duration(p.rnd.IntN(7200)-3600) * time.Second)
	case 4:
		if p.s.calm {
			return
		}
		name := anyName(p.rnd)
		if info, err := l.client.Inspect(ctx, name); err == nil {
			if _, err := l.client.Break(ctx, name, info.Record.Token, nil); err == nil {
				p.s.count(func(s *simStats) { s.Breaks++ })
			}
		}
	case 5, 6, 7, 8, 9:
		p.ask(t, l, anyName(p.rnd))
	case 10:
		n := 1 + p.rnd.IntN(4)
		if _, err := l.client.Resize(ctx, simSemaphore, n); err == nil {
			p.s.count(func(s *simStats) { s.Resized++; p.s.slots = n })
		}
	case 11:
		if l.session != nil {
			began, bound := time.Now(), l.client.Options().ReleaseTimeout+2*time.Second
			_ = l.session.Close(t.Context())
			if took := time.Since(began); took > bound {
				p.s.fail("Close of a session took %v; at most %v are allowed", took, bound)
			}
		}
	case 12, 13:
		p.useTicket(t)
	case 14, 15:
		observers.Go(func() { p.observe(t, l, append([]string{simTried}, simLocks...)[p.rnd.IntN(3)]) })
	case 16, 17:
		observers.Go(func() { p.tries(t, l) })
	}
}

// ask asks the holders of a lock to give way.
func (p *process) ask(t *testing.T, l *life, name string) {
	patience := time.Second + p.seconds(60)
	o := &lease.YieldOptions{Reason: "a simulation", Wait: p.rnd.IntN(2) == 0}
	if p.s.calm { // the holder works for minutes, and a request takes up to a twentieth of a TTL
		patience = 20 * time.Minute * p.s.scale
	}
	ctx, cancel := bounded(t, patience)
	defer cancel()
	_, err := l.client.RequestYield(ctx, name, o)
	switch {
	case err == nil:
		p.s.count(func(s *simStats) { s.Asks++ })
	case errors.Is(err, lease.ErrYieldRefused), errors.Is(err, lease.ErrNotHeld), errors.Is(err, store.ErrNotFound), errors.Is(err, lease.ErrClosed):
	case p.s.calm && !p.s.isHealed():
		p.s.fail("an ask on a healthy store: %v", err)
	}
}

// observe observes an election for a while. Each leader that it hears of is in the ledger with
// that value, no token is lower than the one before, and none that has died is named for long.
func (p *process) observe(t *testing.T, l *life, name string) {
	watch := l
	if p.s.wrong != nil && p.s.wrong.timeless {
		watch = p.start(t, l.client.Options().TTL)
		still := p.clock.read()
		lease.SetClock(watch.client, func() lease.Reading { return still })
		defer watch.close(t)
	}
	ctx, cancel := bounded(t, p.seconds(1200))
	defer cancel()
	last, o := uint64(0), p.s.ledger.observes(watch)
	told := func(leader lease.Leader, err error) {
		o.hears(name, leader, err)
		if err != nil {
			return
		}
		p.s.count(func(s *simStats) { s.Observed++ })
		if !p.s.ledger.had(name, leader.Token, string(leader.Value)) {
			p.s.fail("a leader of %q is told with token %d and value %q, which never stood together", name, leader.Token, leader.Value)
		}
		if leader.Token < last {
			p.s.fail("a leader of %q with token %d is told after %d", name, leader.Token, last)
		}
		last = leader.Token
	}
	for leader, err := range watch.client.Observe(ctx, name) {
		told(leader, err)
		if p.s.isHealed() || !p.s.going() {
			break
		}
	}
	if o.ends(); p.s.isHealed() || !p.s.going() {
		return
	}
	ctx, cancel = bounded(t, p.seconds(60))
	defer cancel()
	overdue := p.s.ledger.overdue(l, name)
	leader, err := l.client.Leader(ctx, name)
	if told(leader, err); err == nil && overdue != "" && overdue == p.s.ledger.overdue(l, name) {
		p.s.fail("a question names a leader of %q that has not renewed its lease for its TTL, by the wall clocks too: %+v", name, leader)
	}
	o.ends()
}

// tries takes simTried again and again by tries that are short, each with a handle of its own, and
// often leaves it to its TTL, as one does that has died. A client that has seen the same write of a
// holder for the TTL takes the lock, however many handles have seen it.
func (p *process) tries(t *testing.T, l *life) {
	end, every := time.Now().Add(p.seconds(1200)), l.client.Options().TTL/time.Duration(4+p.rnd.IntN(8))
	var mark string         // of the holder's write that was met last
	var since, by time.Time // when it was met first, and when the lock is taken at the latest
	for time.Now().Before(end) && !p.s.isHealed() && p.s.going() && !l.dead.Load() && !l.closed.Load() {
		of := l
		if p.s.wrong != nil && p.s.wrong.forgets {
			of = p.start(t, l.client.Options().TTL)
		}
		began := time.Now()
		err := p.try(t, of, every)
		now := p.clock.read().Mono
		var held *lease.HeldError
		switch {
		case err == nil:
			mark = ""
		case !errors.As(err, &held) || held.Record.State != lease.Held || !p.quietFor(time.Since(began)+of.client.Options().Tuning.MaxPoll):
		case mark != cmp.Or(held.Record.HolderNonce, held.Record.Nonce):
			mark, since = cmp.Or(held.Record.HolderNonce, held.Record.Nonce), now
			by = now.Add(time.Duration(float64(held.Record.TTL)*(1+simRho)/(1-simRho)) + 2*every)
		case now.After(by):
			p.s.fail("%v: a client that tries every %v meets the same write of a dead holder for %v, and the TTL is %v: %v (session %q)", l, every, now.Sub(since), held.Record.TTL, err, held.Record.Session)
		}
		if of != l {
			of.close(t)
		}
		p.wait(every)
	}
}

// try takes simTried by one short try.
func (p *process) try(t *testing.T, l *life, most time.Duration) error {
	ctx, cancel := bounded(t, most)
	defer cancel()
	p.s.count(func(s *simStats) { s.Tries++ })
	work := &actor{p: p, rnd: p.rnd}
	holds := func(g *lease.Guard) *belief { return work.holds(l, claimKind{name: simTried}, g) }
	f := func(_ context.Context, g *lease.Guard) error {
		work.step(t, holds(g))
		return nil
	}
	var g *lease.Guard
	var err error
	switch p.rnd.IntN(6) {
	case 0:
		return l.client.Do(ctx, simTried, f, &lease.LockOptions{NoWait: true})
	case 1:
		_, err := l.client.Once(ctx, simTried, lease.Every(time.Minute), f, &lease.LockOptions{NoWait: true, Retries: 3})
		return err
	case 2, 3:
		g, err = l.client.Acquire(ctx, simTried, nil)
	default:
		g, err = l.client.TryAcquire(ctx, simTried, nil)
	}
	if err != nil {
		return err
	}
	b := holds(g)
	if _, err := g.Detach(t.Context()); err == nil {
		p.s.count(func(s *simStats) { s.Abandoned++ })
		return nil
	}
	work.leave(t, b)
	return nil
}

// keep keeps a ticket for ever.
func (s *sim) keep(t lease.Ticket) {
	s.ledger.ticketed(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tickets = append(s.tickets, t)
}

// useTicket uses one of the last tickets, which may have been used before.
func (p *process) useTicket(t *testing.T) {
	p.s.mu.Lock()
	n := len(p.s.tickets)
	var ticket lease.Ticket
	if n > 0 {
		ticket = p.s.tickets[max(0, n-1-p.rnd.IntN(4))]
	}
	p.s.mu.Unlock()
	if n == 0 {
		return
	}
	l := p.start(t, ticket.TTL)
	defer l.close(t)
	ctx, cancel := bounded(t, time.Second+p.seconds(30))
	defer cancel()
	var err error
	switch p.rnd.IntN(4) {
	case 0:
		var next lease.Ticket
		next, err = l.client.RenewTicket(ctx, ticket, func(next lease.Ticket) error {
			p.s.keep(next)
			return nil
		})
		if err == nil {
			p.s.keep(next)
		}
	case 1:
		err = l.client.ReleaseTicket(ctx, ticket)
	default:
		var g *lease.Guard
		if g, err = l.client.Attach(ctx, ticket); err == nil {
			p.s.count(func(s *simStats) { s.Attached++ })
			b := &belief{guard: g, name: ticket.Name, life: l, mode: lease.ModeExclusive, again: true}
			p.s.ledger.believes(b)
			work := &actor{p: p, rnd: p.rnd}
			work.work(t, b)
			work.leave(t, b)
		}
	}
	if err != nil {
		p.s.count(func(s *simStats) { s.TicketsRefused++ })
	}
	if changed := new(lease.TicketError); errors.As(err, &changed) {
		p.s.keep(changed.Ticket)
	}
}

func (l *life) String() string { return fmt.Sprintf("process %d", l.p.id) }

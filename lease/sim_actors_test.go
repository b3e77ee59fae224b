package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
)

func parseToken(value []byte) uint64 {
	token, _ := strconv.ParseUint(string(value), 10, 64)
	return token
}

func formatToken(token uint64) []byte { return strconv.AppendUint(nil, token, 10) }

// actor is a part of a program that takes one lock after the other, of any kind. The actors of a
// program share its client and its session.
type actor struct {
	p   *process
	id  int
	rnd *rand.Rand

	of      *life // whose handles these are
	handles map[claimKind]*lease.Handle
	last    map[string]claimKind // what was taken last, by names
}

// claimKind is what an actor takes.
type claimKind struct {
	name  string
	under bool
	o     lease.LockOptions
}

func (k claimKind) mode() lease.Mode {
	switch {
	case k.o.Shared:
		return lease.ModeShared
	case k.o.Slots > 0:
		return lease.ModeSlot
	}
	return lease.ModeExclusive
}

// kind draws a kind at random, or the one that was taken last.
func (a *actor) kind(name string) claimKind {
	if k, ok := a.last[name]; ok && a.rnd.IntN(3) > 0 {
		return k
	}
	k := claimKind{name: name, under: a.rnd.IntN(4) > 0}
	if name == simSemaphore {
		a.p.s.count(func(*simStats) { k.o.Slots = a.p.s.slots })
		k.under = true
	} else if k.under {
		k.o.Shared = a.rnd.IntN(2) == 0
	}
	k.o.Fair = k.under && a.rnd.IntN(3) == 0
	if !k.o.Fair && !k.o.Shared && k.o.Slots == 0 && a.rnd.IntN(3) == 0 {
		k.o.Linger = min(lease.MaxLinger, time.Minute*a.p.s.scale)
	}
	if a.rnd.IntN(2) == 0 {
		k.o.OnYieldRequest = lease.IgnoreYieldRequests
	}
	return k
}

// anyName draws a name at random.
func anyName(rnd *rand.Rand) string {
	return append([]string{simSemaphore}, simLocks...)[rnd.IntN(1+len(simLocks))]
}

// handle returns the actor's handle for a kind, nil if the program cannot have one.
func (a *actor) handle(l *life, k claimKind) *lease.Handle {
	if a.of != l || a.last == nil {
		a.of, a.handles, a.last = l, map[claimKind]*lease.Handle{}, map[string]claimKind{}
	}
	a.last[k.name] = k
	if h := a.handles[k]; h != nil {
		return h
	}
	with := l.client.Handle
	if k.under {
		if l.session == nil {
			return nil
		}
		with = l.session.Handle
	}
	h, err := with(k.name, &k.o)
	if err != nil {
		if !l.client.Options().ManualRenewal {
			a.p.s.fail("%v", err)
		}
		return nil
	}
	a.handles[k] = h
	return h
}

// run takes one lock after the other until the network has healed.
func (a *actor) run(t *testing.T) {
	for !a.p.s.isHealed() && a.p.s.going() {
		began := time.Now()
		a.turn(t)
		if time.Since(began) < time.Second { // the client is closed, or the lock is of another kind
			a.p.wait(a.p.seconds(10))
		}
		d := time.Since(began)
		a.p.s.count(func(s *simStats) { s.Hours += d.Hours() })
	}
}

// turn is one attempt, and the work that follows it.
func (a *actor) turn(t *testing.T) {
	l, name := a.p.now(), anyName(a.rnd)
	ctx, cancel := bounded(t, time.Duration(1+a.rnd.IntN(300))*time.Second*a.p.s.scale)
	defer cancel()
	switch n := a.rnd.IntN(16); {
	case n == 0:
		a.useAsAnother(t, l)
	case n == 1 && name != simSemaphore:
		a.lead(t, ctx, l, name)
	case n < 5:
		a.do(t, ctx, l, a.kind(name))
	case n == 5:
		a.takeAll(t, ctx, l)
	default:
		a.take(t, ctx, l, a.kind(name))
	}
}

// take takes a lock, works, and leaves it.
func (a *actor) take(t *testing.T, ctx context.Context, l *life, k claimKind) {
	h := a.handle(l, k)
	if h == nil {
		return
	}
	acquire := h.Acquire
	if a.rnd.IntN(6) == 0 {
		acquire = h.TryAcquire
	}
	g, err := acquire(ctx)
	a.checkTime(ctx, l, "Acquire")
	if err != nil {
		a.refused(err)
		return
	}
	b := a.holds(l, k, g)
	a.work(t, b)
	a.leave(t, b)
}

// checkTime checks that a call that waits ended soon after its context.
func (a *actor) checkTime(ctx context.Context, l *life, call string) {
	deadline, _ := ctx.Deadline()
	if late, most := time.Since(deadline), l.client.Options().ReleaseTimeout+2*time.Second; late > most {
		a.p.s.fail("%s returned %v after the end of its context; at most %v are allowed", call, late, most)
	}
}

// refused counts why an attempt failed, and takes note of the number of slots.
func (a *actor) refused(err error) {
	var slots *lease.SlotCountError
	switch {
	case errors.As(err, &slots):
		a.p.s.count(func(s *simStats) { s.OtherSlots++; a.p.s.slots = slots.Have })
	case errors.Is(err, lease.ErrWrongKind):
		a.p.s.count(func(s *simStats) { s.OtherKinds++ })
	case errors.Is(err, lease.ErrUnresponsive) && a.p.s.calm:
		a.p.s.fail("a healthy store is called silent: %v", err)
	case errors.Is(err, lease.ErrUnresponsive):
		a.p.s.count(func(s *simStats) { s.Silences++ })
	}
}

// holds notes a guard that was handed out.
func (a *actor) holds(l *life, k claimKind, g *lease.Guard) *belief {
	a.p.s.count(func(s *simStats) {
		switch {
		case k.o.Slots > 0:
			s.Slots++
		case k.o.Shared:
			s.Readers++
		case k.under:
			s.UnderSessions++
		default:
			s.Plain++
		}
		if k.o.Fair {
			s.Fair++
		}
		if k.o.Linger > 0 {
			s.Lingering++
			if g.WasLastHolder() {
				s.Rejoined++
			}
		}
	})
	if slot := g.Slot(); (slot > 0) != (k.o.Slots > 0) {
		a.p.s.fail("a guard of %+v has slot %d", k, slot)
	}
	b := &belief{guard: g, name: k.name, life: l, under: k.under, mode: k.mode(), again: k.o.Linger > 0}
	a.p.s.ledger.believes(b)
	return b
}

// work is what happens under a lease, until its end.
func (a *actor) work(t *testing.T, b *belief) {
	s, g := a.p.s, b.guard
	for range a.rnd.IntN(6) {
		a.p.wait(a.p.seconds(20))
		a.step(t, b)
	}
	if err := g.Err(); s.calm && !b.life.client.Options().ManualRenewal && errors.Is(err, lease.ErrLost) {
		s.fail("a lease was lost on a healthy store: %v, options %+v", err, b.life.client.Options())
	}
}

// step is one piece of work.
func (a *actor) step(t *testing.T, b *belief) {
	g := b.guard
	_, asked := g.YieldRequest()
	if asked {
		a.p.s.ledger.heard(b)
	}
	if b.mode == lease.ModeExclusive {
		// Work does not look before it writes: the fence alone protects.
		a.p.s.ledger.fenced(b)
	}
	ctx, cancel := bounded(t, a.p.seconds(10))
	defer cancel()
	switch a.rnd.IntN(8) {
	case 0:
		if b.mode == lease.ModeExclusive {
			a.set(b, strconv.FormatUint(a.rnd.Uint64(), 36), func(data string) error { return g.SetData(ctx, []byte(data)) })
		}
	case 1:
		_ = g.Renew(ctx)
	case 2:
		if asked {
			a.refuse(ctx, b)
		}
	}
}

// set writes data, which is in the record if there is no error.
func (a *actor) set(b *belief, data string, write func(data string) error) {
	if err := write(data); err == nil {
		a.p.s.count(func(s *simStats) { s.Data++ })
		if !a.p.s.ledger.had(b.name, b.guard.Token(), data) {
			a.p.s.fail("data was stored, and stood at no time in the record")
		}
	}
}

// refuse answers an ask. Of several holders none can.
func (a *actor) refuse(ctx context.Context, b *belief) {
	switch err := b.guard.RefuseYield(ctx, "there is work to do"); {
	case b.mode != lease.ModeExclusive:
		if err == nil {
			a.p.s.fail("one of several holders refuses")
		}
	case err == nil:
		a.p.s.count(func(s *simStats) { s.Refusals++ })
	}
}

// leave ends a lease.
func (a *actor) leave(t *testing.T, b *belief) {
	g, s := b.guard, a.p.s
	bound := b.life.client.Options().ReleaseTimeout + 2*time.Second
	began := time.Now()
	if !b.under && a.rnd.IntN(3) == 0 {
		ticket, err := g.Detach(t.Context())
		if took := time.Since(began); took > bound {
			s.fail("Detach took %v; at most %v are allowed", took, bound)
		}
		if err == nil {
			s.keep(ticket)
			if a.rnd.IntN(3) > 0 {
				a.p.wait(a.p.seconds(5))
				a.p.useTicket(t)
			}
		}
		began = time.Now()
	}
	err := g.Release(t.Context())
	if took := time.Since(began); took > bound {
		s.fail("Release took %v; at most %v are allowed", took, bound)
	}
	if s.isHealed() && err != nil && !errors.Is(err, lease.ErrLost) && g.Err() == nil {
		s.fail("release on a good network: %v", err)
	}
}

// do runs a function under a lock, which steps down when it is asked, or refuses.
func (a *actor) do(t *testing.T, ctx context.Context, l *life, k claimKind) {
	h := a.handle(l, k)
	if h == nil {
		return
	}
	var began time.Time
	err := h.Do(ctx, func(ctx context.Context, g *lease.Guard) error {
		a.p.s.count(func(s *simStats) { s.Functions++ })
		b := a.holds(l, k, g)
		defer func() { began = time.Now() }()
		for range a.rnd.IntN(8) {
			select {
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), lease.ErrYieldRequested) {
					a.p.s.count(func(s *simStats) { s.StepsDown++ })
					a.p.s.ledger.heard(b)
					if k.o.OnYieldRequest == lease.IgnoreYieldRequests {
						a.p.s.fail("a function that ignores asks was stopped by one")
					}
				}
				return context.Cause(ctx)
			case <-time.After(a.p.seconds(20)):
			}
			if a.step(t, b); k.o.OnYieldRequest == lease.IgnoreYieldRequests {
				if _, asked := g.YieldRequest(); asked {
					a.refuse(ctx, b)
				}
			}
		}
		return nil
	})
	if took, bound := time.Since(began), l.client.Options().ReleaseTimeout+2*time.Second; !began.IsZero() && took > bound {
		a.p.s.fail("the end of Do took %v; at most %v are allowed", took, bound)
	}
	if a.p.s.calm && !l.client.Options().ManualRenewal && (errors.Is(err, lease.ErrLost) && !began.IsZero() || errors.Is(err, lease.ErrReleaseFailed)) {
		a.p.s.fail("Do on a healthy store: %v", err)
	}
	a.refused(err)
}

// lead campaigns, and leads for a while.
func (a *actor) lead(t *testing.T, ctx context.Context, l *life, name string) {
	k := claimKind{name: name, under: l.session != nil && a.rnd.IntN(2) == 0}
	candidate := l.client.Election
	if k.under {
		candidate = l.session.Election
	}
	e, err := candidate(name, nil)
	if err != nil {
		a.p.s.fail("%v", err)
		return
	}
	value := func() string { return "leader " + strconv.FormatUint(a.rnd.Uint64(), 36) }
	mine := value()
	g, err := e.Campaign(ctx, []byte(mine))
	if err != nil {
		a.refused(err)
		return
	}
	a.p.s.count(func(s *simStats) { s.Terms++ })
	b := a.holds(l, k, g)
	if !a.p.s.ledger.had(name, g.Token(), mine) {
		a.p.s.fail("a leader's value %q stood at no time with its token %d", mine, g.Token())
	}
	a.work(t, b)
	proclaim, cancel := bounded(t, a.p.seconds(10))
	defer cancel()
	a.set(b, value(), func(data string) error {
		err := e.Proclaim(proclaim, []byte(data))
		if err == nil {
			a.p.s.count(func(s *simStats) { s.Proclaimed++ })
		}
		return err
	})
	began, bound := time.Now(), l.client.Options().ReleaseTimeout+2*time.Second
	_ = e.Resign(t.Context())
	if took := time.Since(began); took > bound {
		a.p.s.fail("Resign took %v; at most %v are allowed", took, bound)
	}
}

// takeAll takes all names, of any kinds.
func (a *actor) takeAll(t *testing.T, ctx context.Context, l *life) {
	var handles []*lease.Handle
	var kinds []claimKind
	for _, name := range append([]string{simSemaphore}, simLocks...) {
		k := a.kind(name)
		k.o.Linger = 0
		h := a.handle(l, k)
		if h == nil {
			return
		}
		handles, kinds = append(handles, h), append(kinds, k)
	}
	set, err := lease.AcquireAll(ctx, handles...)
	if err != nil {
		a.refused(err)
		return
	}
	a.p.s.count(func(s *simStats) { s.Sets++ })
	var all []*belief
	for _, k := range kinds {
		all = append(all, a.holds(l, k, set.Guard(k.name)))
	}
	for _, b := range all {
		a.work(t, b)
	}
	began, bound := time.Now(), l.client.Options().ReleaseTimeout+2*time.Second
	_ = set.Release(t.Context())
	if took := time.Since(began); took > bound {
		a.p.s.fail("Release of a set took %v; at most %v are allowed", took, bound)
	}
}

// useAsAnother uses the semaphore as a lock, which is refused once it is a semaphore.
func (a *actor) useAsAnother(t *testing.T, l *life) {
	ctx, cancel := bounded(t, time.Second+a.p.seconds(10))
	defer cancel()
	s := a.p.s
	s.ledger.mu.Lock()
	isSemaphore := s.ledger.entry(simSemaphore).rec.Slots > 0
	s.ledger.mu.Unlock()
	if !isSemaphore {
		return
	}
	g, err := l.client.TryAcquire(ctx, simSemaphore, nil)
	if err == nil {
		s.fail("a semaphore was taken as a lock, with token %d", g.Token())
	}
	a.refused(err)
}

// lastTurn takes each name once on a good network, where each actor has its turn.
func (a *actor) lastTurn(t *testing.T) {
	l := a.p.now()
	a.last = nil // its semaphore may have had another number of slots
	for _, name := range append([]string{simSemaphore}, simLocks...) {
		k := a.kind(name)
		h := a.handle(l, k)
		if h == nil {
			a.p.s.fail("no handle for %+v", k)
			return
		}
		ctx, cancel := bounded(t, 30*time.Minute*a.p.s.scale)
		g, err := h.Acquire(ctx)
		if err != nil {
			a.p.s.fail("process %d, actor %d did not get its turn after the store healed: %+v: %v", a.p.id, a.id, k, err)
		} else {
			a.p.s.count(func(s *simStats) { s.TurnsAfterHealed++ })
			b := a.holds(l, k, g)
			time.Sleep(a.p.seconds(2))
			if err := g.Release(ctx); err != nil {
				a.p.s.fail("release on a good network: %v", err)
			}
			_ = b
		}
		cancel()
	}
}

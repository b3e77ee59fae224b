package lease_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// pipeline are the options of leases that go from process to process.
func pipeline(ttl time.Duration) *lease.Options {
	return &lease.Options{TTL: ttl, NoPresence: true, ManualRenewal: true}
}

func mustDetach(t *testing.T, g *lease.Guard) lease.Ticket {
	t.Helper()
	ticket, err := g.Detach(t.Context())
	if err != nil {
		t.Fatalf("Detach: %v", err)
	}
	return ticket
}

func mustAttach(t *testing.T, c *lease.Client, ticket lease.Ticket) *lease.Guard {
	t.Helper()
	g, err := c.Attach(t.Context(), ticket)
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	return g
}

// A stale copy of a ticket, fresh or expired, frees nothing and attaches to nothing.
func TestTicketStaleCopyLeavesTheLeaseAlone(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a, b, c := client(t, st, pipeline(time.Minute)), client(t, st, pipeline(time.Minute)), client(t, st, pipeline(time.Minute))
		ticket := mustDetach(t, mustTry(t, a, "job"))
		g := mustAttach(t, b, ticket)
		for i := range 10 { // five minutes
			if again, err := c.Attach(t.Context(), ticket); !errors.Is(err, lease.ErrLost) {
				t.Fatalf("Attach of the old ticket after %d renewals = %v, %v", i, again, err)
			}
			wantHeld(t, c, "job")
			if err := g.Renew(t.Context()); err != nil {
				t.Fatalf("the living holder, after %d renewals: %v", i, err)
			}
			time.Sleep(30 * time.Second)
		}
		// A renewal is still good for a while, when the ticket is long expired.
		must(t, g.Err())
		mustRelease(t, g)
		wantState(t, a, "job", lease.Free)
	})
}

// Of all that attach with one ticket one believes, however they meet.
func TestTicketIsGoodOnce(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a := client(t, st, pipeline(time.Minute))
		for round := range 30 {
			ticket := mustDetach(t, mustTry(t, a, "job"))
			var (
				wg     sync.WaitGroup
				mu     sync.Mutex
				guards []*lease.Guard
			)
			for i := range 4 {
				w := newWire(st)
				slow := store.Intercept(w, func(ctx context.Context, op *store.Op, next store.Handler) error {
					time.Sleep(time.Duration((round*7+i*3)%5) * time.Millisecond)
					return next(ctx, op)
				})
				if i == round%4 {
					w.set(nth(1, []fault{pass, lose, repeat, drop}[round/4%4]))
				}
				c := client(t, slow, pipeline(time.Minute))
				wg.Go(func() {
					g, err := c.Attach(t.Context(), ticket)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						guards = append(guards, g)
					} else if !errors.Is(err, lease.ErrLost) {
						t.Errorf("round %d: %v", round, err)
					}
				})
			}
			wg.Wait()
			if len(guards) != 1 || guards[0].Err() != nil {
				t.Fatalf("round %d: %d believe", round, len(guards))
			}
			report(t, guards[0].Renew(t.Context()))
			mustRelease(t, guards[0])
		}
	})
}

// What a ticket says is checked: the record says for how long a lease is believed.
func TestAlteredTicketIsRefused(t *testing.T) {
	changes := map[string]func(*lease.Ticket){
		"a longer TTL":            func(t *lease.Ticket) { t.TTL = time.Hour },
		"a shorter TTL":           func(t *lease.Ticket) { t.TTL = 10 * time.Second },
		"another token":           func(t *lease.Ticket) { t.Token++ },
		"another grant":           func(t *lease.Ticket) { t.Grant = "G" },
		"no grant":                func(t *lease.Ticket) { t.Grant = "" },
		"another version":         func(t *lease.Ticket) { t.Version = "V" },
		"no version":              func(t *lease.Ticket) { t.Version = "" },
		"another nonce":           func(t *lease.Ticket) { t.Nonce = "N" },
		"no nonce":                func(t *lease.Ticket) { t.Nonce = "" },
		"another lock":            func(t *lease.Ticket) { t.Name = "other" },
		"no lock":                 func(t *lease.Ticket) { t.Name = "../x" },
		"a time in the future":    func(t *lease.Ticket) { t.Sent = t.Sent.Add(24 * time.Hour) },
		"a boot time to come":     func(t *lease.Ticket) { t.SentBoot = 1<<63 - 1 },
		"a time before the world": func(t *lease.Ticket) { t.Sent = time.Time{} },
		"a boot time before all":  func(t *lease.Ticket) { t.SentBoot = -1 << 63 },
	}
	if runtime.GOOS != "linux" { // other systems have no clock that counts the time of a suspension
		delete(changes, "a boot time to come")
		delete(changes, "a boot time before all")
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				a := client(t, st, pipeline(30*time.Second))
				ticket := mustDetach(t, mustTry(t, a, "job"))
				altered := ticket
				change(&altered)
				ttl := altered.TTL
				if g, err := client(t, st, pipeline(ttl)).Attach(t.Context(), altered); err == nil {
					t.Errorf("attached, with a trust of %v", g.Remaining())
				}
				if name == "a time before the world" || name == "a boot time before all" {
					wantState(t, a, "job", lease.Free) // it is only too late
					return
				}
				wantState(t, a, "job", lease.Held)
				mustRelease(t, mustAttach(t, a, ticket))
			})
		})
	}
}

// An expired lease does not come to life by a ticket whose time was altered.
func TestTicketExpiresByTheRecordToo(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a := client(t, st, pipeline(30*time.Second))
		ticket := mustDetach(t, mustTry(t, a, "job"))
		time.Sleep(29 * time.Second)
		ticket.Sent, ticket.Epoch = time.Now(), ""
		if _, err := a.Attach(t.Context(), ticket); !errors.Is(err, lease.ErrExpired) {
			t.Errorf("Attach = %v", err)
		}
		wantState(t, a, "job", lease.Free)
	})
}

// After Attach the record names the process that holds now, and nothing of the one
// that detached.
func TestTicketIdentityMovesWithAttach(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		named := func(holder string) *lease.Options {
			o := pipeline(time.Minute)
			o.Holder = holder
			return o
		}
		a, b := client(t, st, named("first")), client(t, st, named("worker"))
		ticket := mustDetach(t, mustTry(t, a, "job"))
		// The process that detached was another one, of the same holder.
		edit(t, st, "job", func(rec *lease.Record) { rec.Process, rec.Holder = "the first process", "worker" })
		_, ticket.Version = stored(t, st, "lock/job")
		g := mustAttach(t, b, ticket)
		for range 2 {
			now := wantState(t, b, "job", lease.Held)
			if now.Process == "the first process" || now.Process == "" || now.Holder != "worker" || now.Token != ticket.Token {
				t.Errorf("the record names %q of %q, token %d", now.Process, now.Holder, now.Token)
			}
			reclaim := client(t, st, &lease.Options{Holder: "worker", ReclaimOwn: true})
			wantHeld(t, reclaim, "job")
			must(t, g.Renew(t.Context()))
		}
		mustRelease(t, g)
	})
}

// machine is a store that knows which of the processes on one machine are dead.
type machine struct {
	mu   sync.Mutex
	dead map[string]bool
}

func (m *machine) kill(process string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead[process] = true
}

type onMachine struct {
	store.Store
	m    *machine
	name string
}

func (p *onMachine) Unwrap() store.Store { return p.Store }

func (p *onMachine) Announce(context.Context) (string, error) { return p.name, nil }

func (p *onMachine) Liveness(_ context.Context, announcement string) store.Liveness {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.m.dead[announcement] {
		return store.Dead
	}
	return store.Alive
}

func (p *onMachine) WaitLiveness(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// The presence of the process that detached does not decide over the lease of the one
// that attached, and that of the latter does.
func TestTicketPresenceMovesWithAttach(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		m := &machine{dead: map[string]bool{}}
		process := func(name string, o lease.Options) *lease.Client {
			o.TTL, o.ManualRenewal = time.Minute, true
			return client(t, &onMachine{st, m, name}, &o)
		}
		a, b, c := process("a", lease.Options{}), process("b", lease.Options{}), process("c", lease.Options{NoPresence: true})
		third := process("third", lease.Options{})

		ticket := mustDetach(t, mustTry(t, a, "job"))
		if rec := wantState(t, a, "job", lease.Held); rec.Presence != "" {
			t.Errorf("a lease that no process holds names the presence %q", rec.Presence)
		}
		g := mustAttach(t, b, ticket)
		m.kill("a")
		wantHeld(t, third, "job")
		if rec := wantState(t, b, "job", lease.Held); rec.Presence != "b" {
			t.Errorf("the record names the presence %q", rec.Presence)
		}
		g = mustAttach(t, c, mustDetach(t, g))
		if rec := wantState(t, c, "job", lease.Held); rec.Presence != "" {
			t.Errorf("with NoPresence the record names %q", rec.Presence)
		}
		m.kill("b")
		m.kill("c")
		wantHeld(t, third, "job")
		g = mustAttach(t, process("d", lease.Options{}), mustDetach(t, g))
		wantHeld(t, third, "job")
		m.kill("d")
		mustRelease(t, mustTry(t, third, "job"))
		_ = g.Release(t.Context())
	})
}

// A renewal that was in flight at Detach and lands late does not make the ticket void.
func TestTicketOfARenewalInFlight(t *testing.T) {
	for name, what := range map[string]fault{"late": hangLate, "lost": lose, "never": hang} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				a := client(t, w, &lease.Options{TTL: time.Minute, NoPresence: true})
				g := mustTry(t, a, "job")
				w.set(func(op *store.Op) fault {
					if op.Kind.Write() {
						return what
					}
					return hang // nothing can be read either
				})
				time.Sleep(23 * time.Second) // a renewal is under way
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				ticket, err := g.Detach(ended)
				must(t, err)
				// The late write lands between its read and its write.
				slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
					if op.Kind.Write() {
						time.Sleep(4 * time.Second)
					}
					return next(ctx, op)
				})
				b := client(t, slow, pipeline(time.Minute))
				next := mustAttach(t, b, ticket)
				if next.Token() != g.Token() {
					t.Errorf("token %d, it was %d", next.Token(), g.Token())
				}
				w.after.Wait()
				report(t, next.Renew(t.Context()))
				mustRelease(t, next)
			})
		})
	}
}

// A renewal that was sent over a request to yield, and was in flight at Detach, is applied between the
// read and the write of Attach.
func TestTicketOfARenewalOverARequest(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var requested atomic.Bool
		var mu sync.Mutex
		var late func() error // applies the renewal
		conflicted := false
		a := client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			mu.Lock()
			first := requested.Load() && op.Kind.Write() && !conflicted
			conflicted = conflicted || first
			if requested.Load() && op.Kind.Write() && !first && late == nil {
				sent := *op
				late = func() error { return next(context.WithoutCancel(ctx), &sent) }
			}
			mu.Unlock()
			if first || !requested.Load() {
				return next(ctx, op)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}), &lease.Options{TTL: time.Minute, NoPresence: true})
		g := mustTry(t, a, "job")
		mustAsk(t, client(t, st, nil), "")
		requested.Store(true)
		time.Sleep(23 * time.Second) // a renewal is under way
		ticket := mustDetach(t, g)
		b := client(t, store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			var apply func() error
			if op.Kind.Write() {
				mu.Lock()
				apply, late = late, nil
				mu.Unlock()
			}
			if apply != nil {
				report(t, apply())
			}
			return next(ctx, op)
		}), pipeline(time.Minute))
		mustRelease(t, mustAttach(t, b, ticket))
	})
}

// The last renewal of a guard is volatile where the store has that: a ticket rests on
// a write that survives a power cut.
func TestTicketRestsOnADurableWrite(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		var last store.Kind
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() {
				last = op.Kind
			}
			return pass
		})
		volatile := &volatileStore{Store: w}
		a := client(t, volatile, &lease.Options{TTL: 30 * time.Second, NoPresence: true})
		g := mustTry(t, a, "job")
		time.Sleep(15 * time.Second)
		if volatile.puts.Load() == 0 {
			t.Fatal("no renewal was volatile")
		}
		w.requests()
		ticket := mustDetach(t, g)
		if n := w.requests(); n != 1 || last != store.OpPut {
			t.Errorf("Detach sent %d requests, the last write was a %s", n, last)
		}
		mustRelease(t, mustAttach(t, client(t, st, pipeline(30*time.Second)), ticket))
	})
}

// An Attach that is lost in its first write leaves nothing behind in the client.
func TestTicketLostAttachIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a := client(t, st, pipeline(time.Minute))
		w := newWire(st)
		b, err := lease.New(w, pipeline(time.Minute))
		must(t, err)
		ticket := mustDetach(t, mustTry(t, a, "job"))
		broken := false
		w.set(func(op *store.Op) fault {
			if op.Kind.Write() && !broken { // another was faster
				broken = true
				report(t, errOf(a.Break(t.Context(), "job", ticket.Token, &lease.BreakOptions{Immediate: true})))
			}
			return pass
		})
		if _, err := b.Attach(t.Context(), ticket); !errors.Is(err, lease.ErrBroken) {
			t.Errorf("Attach = %v", err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// Tickets that were altered at random, while another attached with the right one: no
// second one believes, and the first keeps its lease.
func TestTicketAlteredAtRandom(t *testing.T) {
	const ttl = 10 * time.Second
	rnd := newLuck(7, 8)
	rounds := 1000
	if raceEnabled {
		rounds = 100
	}
	for round := range rounds {
		bubble(t, func(t *testing.T, st store.Store) {
			c := client(t, st, pipeline(ttl))
			right := mustDetach(t, mustTry(t, c, "job"))
			holder := mustAttach(t, client(t, st, &lease.Options{TTL: ttl}), right)
			time.Sleep(time.Duration(rnd.IntN(30)) * time.Second)
			info, err := c.Inspect(t.Context(), "job")
			must(t, err)
			// All but the nonce of what is there: with it this would be the holder's own.
			texts := []string{"", "job", "x", right.Nonce, right.Grant, string(right.Version), string(info.Version)}
			text := func() string { return texts[rnd.IntN(len(texts))] }
			when := func() time.Time {
				return []time.Time{{}, time.Now(), time.Now().Add(ttl), time.Now().Add(-time.Hour), time.Unix(math.MaxInt64/2, 0), time.Unix(math.MinInt64/2, 0)}[rnd.IntN(6)]
			}
			span := func() time.Duration {
				return []time.Duration{0, 1, -1, ttl, time.Hour, math.MaxInt64, math.MinInt64}[rnd.IntN(7)]
			}
			altered := right
			for range 1 + rnd.IntN(4) {
				switch rnd.IntN(9) {
				case 0:
					altered.Token = []uint64{0, 1, right.Token + 1, math.MaxUint64}[rnd.IntN(4)]
				case 1:
					altered.Grant = text()
				case 2:
					altered.Version = store.Version(text())
				case 3:
					altered.Nonce = text()
				case 4:
					altered.TTL = span()
				case 5:
					altered.Sent = when()
				case 6:
					altered.SentBoot = span()
				case 7:
					for range rnd.IntN(70) {
						altered.PendingWrites = append(altered.PendingWrites, lease.PendingWrite{Nonce: text(), Sent: when(), Epoch: right.Epoch, SentBoot: span()})
					}
				case 8:
					altered.Name = text()
				}
			}
			other := client(t, st, pipeline(ttl))
			switch rnd.IntN(3) {
			case 0:
				if g, err := other.Attach(t.Context(), altered); err == nil {
					t.Errorf("round %d: attached, with a trust of %v, with %+v", round, g.Remaining(), altered)
				}
			case 1:
				_, _ = other.RenewTicket(t.Context(), altered, nil)
			case 2:
				_ = other.ReleaseTicket(t.Context(), altered)
			}
			if err := holder.Renew(t.Context()); err != nil {
				t.Errorf("round %d: the holder lost its lease to %+v: %v", round, altered, err)
			}
		})
		if t.Failed() {
			return
		}
	}
}

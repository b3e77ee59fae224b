package leasetest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
)

// env is what a case works with: two handles on a fresh key space, and helpers that expect success.
// A helper that fails ends the case; so call it only on the goroutine of the case.
type env struct {
	*suitetest.Recorder
	Options // TTL is that of leases that are to expire

	long    time.Duration // the TTL of all others, which no slow machine lets expire, and twice what a release may take
	ctx     context.Context
	cancel  context.CancelFunc
	a, b    store.Store // the same space, through two handles or one
	clients []*lease.Client
}

// store returns the handle of the goroutine i.
func (e *env) store(i int) store.Store { return [...]store.Store{e.a, e.b}[i%2] }

const (
	job = "job"      // the lock of most cases
	key = "lock/job" // the key of its record

	maxClockDrift = lease.DefaultMaxClockDrift
)

// higher reports a token that is not higher than the token before.
func (e *env) higher(token, before uint64) {
	if token <= before {
		e.Errorf("the new grant has token %d, the grant before had token %d; want a higher token", token, before)
	}
}

// await waits for the end of a channel.
func (e *env) await(end <-chan struct{}, otherwise string) {
	select {
	case <-end:
	case <-e.ctx.Done():
		e.Fatalf("%s", otherwise)
	}
}

// end releases what the case took. The errors are those of leases that the case has lost on
// purpose.
func (e *env) end() {
	e.cancel()
	for _, c := range e.clients {
		_ = c.Close(context.Background())
	}
}

// client makes a client with options that fit the suite; change may adapt them.
func (e *env) client(st store.Store, change func(*lease.Options)) *lease.Client {
	o := &lease.Options{
		TTL:    e.long,
		Grace:  -1,
		Holder: "leasetest",
		Tuning: lease.Tuning{MinPoll: 10 * time.Millisecond, MaxPoll: 250 * time.Millisecond, ReleaseTimeout: e.long / 2},
	}
	if change != nil {
		change(o)
	}
	// The default on a store that is reached over a network is too long for short leases.
	o.Margin = cmp.Or(o.Margin, min(o.TTL/10, time.Second))
	c, err := lease.New(st, o)
	e.Must("lease.New", err)
	e.clients = append(e.clients, c)
	return c
}

// short makes the leases of a client expire within the time of a case.
func (e *env) short(o *lease.Options) { o.TTL = e.TTL }

// silent makes a client whose holders do not renew, like one that has lost its network.
func (e *env) silent(o *lease.Options) { o.TTL, o.ManualRenewal, o.NoPresence = e.TTL, true, true }

// faulty is a handle on the space over a network with faults.
func (e *env) faulty() *faultstore.Store { return faultstore.New(e.a, faultstore.Schedule{}) }

// first is a schedule in which the first call of a kind fails.
func first(op store.Kind, action faultstore.Action) faultstore.Schedule {
	return faultstore.Schedule{Rules: []faultstore.Rule{{Op: op, First: 1, Last: 1, Action: action}}}
}

// every is a schedule in which every call of a kind on a key fails.
func every(op store.Kind, key string, action faultstore.Action) faultstore.Schedule {
	return faultstore.Schedule{Rules: []faultstore.Rule{{Op: op, Key: key, First: 1, Action: action}}}
}

// readBack ends the case on stores whose unknown writes cannot be recognised.
func (e *env) readBack() {
	if store.TraitsOf(e.a).Delayed() {
		e.Absent("a read of this store does not show whether a write was applied")
	}
}

// expiry is how long a waiter has to watch a record with this TTL.
func expiry(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ttl) * ((1 + maxClockDrift) / (1 - maxClockDrift))))
}

// between checks that something took at least a time, and, where time is not real,
// at most another. A real machine may be slow.
func (e *env) between(what string, took, least, most time.Duration) {
	if took < least {
		e.Errorf("%s after %v: too early, want at least %v", what, took, least)
	}
	if e.Bubble && took > most {
		e.Errorf("%s after %v: too late, want at most %v", what, took, most)
	}
}

func (e *env) handle(c *lease.Client, name string) *lease.Handle {
	h, err := c.Handle(name, nil)
	e.Must("handle", err)
	return h
}

func (e *env) try(c *lease.Client, name string) *lease.Guard {
	return e.free("TryAcquire of a free lock", func() (*lease.Guard, error) { return c.TryAcquire(e.ctx, name, nil) })
}

// free takes a lock that is free. A busy server may not answer within the short TTL of a case. That
// breaks no rule, so free tries again until it has an answer. A try without an answer may have taken
// the lock, which is then held until the lease of that try expires.
func (e *env) free(what string, take func() (*lease.Guard, error)) *lease.Guard {
	for unanswered := false; ; {
		g, err := take()
		if err == nil {
			return g
		}
		late := errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
		unanswered = unanswered || late
		if again := late || unanswered && errors.Is(err, lease.ErrHeld); !again || e.ctx.Err() != nil {
			e.Fatalf("%s: %v", what, err)
		}
		e.pause(10 * time.Millisecond)
	}
}

func (e *env) acquire(c *lease.Client, name string) *lease.Guard {
	g, err := c.Acquire(e.ctx, name, nil)
	e.Must("Acquire", err)
	return g
}

func (e *env) release(g *lease.Guard) { e.Must("Release", g.Release(e.ctx)) }

// held checks that the lock cannot be taken, and returns what the error says of its holder.
func (e *env) held(c *lease.Client, name string) *lease.HeldError {
	g, err := c.TryAcquire(e.ctx, name, nil)
	var held *lease.HeldError
	if !errors.As(err, &held) || !errors.Is(err, lease.ErrHeld) {
		if err == nil {
			e.Fatalf("TryAcquire of a held lock succeeded, with token %d", g.Token())
		}
		e.Fatalf("TryAcquire of a held lock: got %v, want a HeldError", err)
	}
	return held
}

// state checks the state of the lock in the store.
func (e *env) state(name string, want lease.State) lease.Record {
	value, _, err := e.b.Get(e.ctx, "lock/"+name)
	e.Must("read the record", err)
	info, err := e.client(e.b, nil).Inspect(e.ctx, name)
	e.Must("Inspect", err)
	if info.Record.State != want {
		e.Fatalf("the record has the state %q, want %q: %s", info.Record.State, want, value)
	}
	return info.Record
}

// holds checks that a guard is trusted and its grant is in the store.
func (e *env) holds(g *lease.Guard) {
	e.Must("the lease has ended", g.Err())
	if rec := e.state(g.Name(), lease.Held); rec.Token != g.Token() {
		e.Fatalf("the guard has token %d, but the record has token %d", g.Token(), rec.Token)
	}
}

// lost checks that a lease has ended for a reason, and that its context has that cause.
func (e *env) lost(g *lease.Guard, reason error) {
	err := g.Err()
	if !errors.Is(err, lease.ErrLost) || !errors.Is(err, reason) {
		e.Fatalf("the lease ended with %v; want a loss with the reason %v", err, reason)
	}
	if ctx := g.Context(); ctx.Err() == nil || context.Cause(ctx) != err {
		e.Fatalf("the context of a lost lease has the cause %v, want %v", context.Cause(ctx), err)
	}
}

// pause sleeps, or until the case has no time left.
func (e *env) pause(d time.Duration) {
	e.Must("the case has reached its timeout", backoff.Sleep(e.ctx, d))
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/faultstore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// fault is what a scripted network does to one request. Drop, fail and lose are those of
// package faultstore.
type fault = faultstore.Action

const (
	pass     fault = ""
	drop           = faultstore.Drop // not applied; the caller does not learn that
	fail           = faultstore.Fail // not applied, and the error proves it
	lose           = faultstore.Lose // applied, and the reply is lost
	repeat   fault = "repeat"        // applied, and sent again by the transport: it conflicts with itself
	hang     fault = "hang"          // never arrives; the caller waits until its context ends
	hangLate fault = "hang-late"     // the caller waits until its context ends; applied two seconds later
	deaf     fault = "deaf"          // ignores its context; applied when wire.deafness has passed
)

// ttl is the TTL of leases where the options do not say.
const ttl = lease.DefaultTTL

var errNetwork = errors.New("network fault")

// wire is a store over a scripted network that counts requests.
type wire struct {
	store.Store
	mu     sync.Mutex
	script func(op *store.Op) fault
	counts map[store.Kind]int
	after  sync.WaitGroup

	deafness  func() time.Duration // how long a call that ignores its context takes
	abandoned abandon.Calls        // of these
}

func newWire(st store.Store) *wire {
	w := &wire{counts: map[store.Kind]int{}}
	w.Store = store.Intercept(st, w.carry)
	return w
}

// Unwrap lets the abilities through, which the script sees as well.
func (w *wire) Unwrap() store.Store { return w.Store }

// set replaces the script; nil passes everything.
func (w *wire) set(script func(op *store.Op) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.script = script
}

// requests returns how many requests were sent since the last call.
func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for kind, k := range w.counts {
		if kind != store.OpWatch {
			n += k
		}
	}
	w.counts = map[store.Kind]int{}
	return n
}

func (w *wire) carry(ctx context.Context, op *store.Op, next store.Handler) error {
	w.mu.Lock()
	w.counts[op.Kind]++
	f := pass
	if w.script != nil {
		f = w.script(op)
	}
	w.mu.Unlock()
	switch f {
	case drop:
		return errNetwork
	case fail:
		return store.MarkNotApplied(errNetwork)
	case lose:
		if err := next(ctx, op); err == nil && op.Kind.Write() {
			return &store.InDoubtError{Version: op.Version, Err: errNetwork}
		}
		return errNetwork
	case repeat:
		_ = next(ctx, op)
		again := *op
		if err := next(ctx, &again); ctx.Err() == nil {
			return err
		}
		return context.Cause(ctx) // that the second one was not sent proves nothing of the first
	case hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case hangLate:
		<-ctx.Done()
		copied := *op
		w.after.Go(func() {
			time.Sleep(2 * time.Second)
			_ = next(context.WithoutCancel(ctx), &copied)
		})
		return context.Cause(ctx)
	}
	if f == deaf {
		return hangs(ctx, &w.abandoned, op, next, func() { time.Sleep(w.deafness()) })
	}
	return next(ctx, op)
}

// leftBehind returns how many calls are abandoned and have not returned.
func (w *wire) leftBehind() int { return w.abandoned.Abandoned() }

// hangs carries out a call on a disk that hangs until wait returns, as a file store does: it ends
// with its context, and what it left behind is carried out later.
func hangs(ctx context.Context, left *abandon.Calls, op *store.Op, next store.Handler, wait func()) error {
	own, key := *op, op.Key
	if op.Kind == store.OpWatch {
		key = "watch " + key
	}
	done, err := abandon.Do(ctx, left, key, func() (store.Op, error) {
		wait()
		err := next(context.WithoutCancel(ctx), &own)
		return own, err
	})
	if done.Kind != "" {
		*op = done
	}
	return err
}

// reads reports whether the request reads the state of a register.
func reads(op *store.Op) bool { return op.Kind == store.OpGet || op.Kind == store.OpResolve }

// nth makes a script that does f to the n-th write, counted from 1.
func nth(n int, f fault) func(*store.Op) fault {
	count := 0
	return func(op *store.Op) fault {
		if op.Kind.Write() {
			if count++; count == n {
				return f
			}
		}
		return pass
	}
}

// only makes a script that does f to the requests that match.
func only(match func(op *store.Op) bool, f fault) func(*store.Op) fault {
	return func(op *store.Op) fault {
		if match(op) {
			return f
		}
		return pass
	}
}

// keyed matches the requests for a key.
func keyed(key string) func(*store.Op) bool {
	return func(op *store.Op) bool { return op.Key == key }
}

// on makes a script that does f to the writes of a key.
func on(key string, f fault) func(*store.Op) fault {
	return only(func(op *store.Op) bool { return op.Key == key && op.Kind.Write() }, f)
}

// writes makes a script that does f to the writes.
func writes(f fault) func(*store.Op) fault {
	return only(func(op *store.Op) bool { return op.Kind.Write() }, f)
}

// everything makes a script that does f to every request but watches.
func everything(f fault) func(*store.Op) fault {
	return only(func(op *store.Op) bool { return op.Kind != store.OpWatch }, f)
}

// longest is the most virtual time that a test takes, and ages the same for tests in which days and
// years pass. A test that waits in vain while leases are renewed would run until its time is over.
const (
	longest = 12 * time.Hour
	ages    = 3 * 366 * 24 * time.Hour
)

// bubble runs f in virtual time, with a memory store.
func bubble(t *testing.T, f func(t *testing.T, st store.Store)) {
	t.Helper()
	bubbleFor(t, longest, f)
}

// bubbleFor is bubble for a test that takes no more than that virtual time.
func bubbleFor(t *testing.T, most time.Duration, f func(t *testing.T, st store.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		end := time.AfterFunc(most, func() {
			debug.SetTraceback("all")
			panic(fmt.Sprintf("%s is not over after %v of virtual time", t.Name(), most))
		})
		t.Cleanup(func() { end.Stop() })
		var st memstore.Store
		f(t, &st)
	})
}

// client makes a client that is closed at the end of the test.
func client(t *testing.T, st store.Store, o *lease.Options) *lease.Client {
	t.Helper()
	c, err := lease.New(st, o)
	must(t, err)
	lease.SetClock(c, bubbleClocks)
	t.Cleanup(func() {
		end(c)
		for d, ok := store.As[interface{ leftBehind() int }](st); ok && d.leftBehind() > 0; {
			time.Sleep(time.Second)
		}
	})
	return c
}

// bubbleClocks reads the clocks that do not move in a bubble while its goroutines run. The time
// that the machine has slept comes from real clocks, with an error of nanoseconds: that would
// change what a client believes between two reads.
func bubbleClocks() lease.Reading {
	now := time.Now()
	return lease.Reading{Mono: now, Wall: now.Round(0)}
}

// events collects the events of a client in a bubble.
type events struct {
	mu  sync.Mutex
	all []lease.Event
}

// add is an Options.OnEvent.
func (l *events) add(e lease.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// of returns the events so far of these kinds, in order.
func (l *events) of(kinds ...lease.EventKind) (found []lease.Event) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if slices.Contains(kinds, e.Kind) {
			found = append(found, e)
		}
	}
	return found
}

// end closes a client.
func end(c *lease.Client) { _ = c.Close(context.Background()) }

// must ends the test on an error. Only the goroutine of the test may call it.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// report fails the test on an error. Any goroutine may call it.
func report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// errOf returns the error of a call whose other result does not matter.
func errOf[T any](_ T, err error) error { return err }

func handle(t *testing.T, c locker, name string) *lease.Handle {
	t.Helper()
	return with(t, c, name, lease.LockOptions{})
}

// with returns a handle with options.
func with(t *testing.T, c locker, name string, o lease.LockOptions) *lease.Handle {
	t.Helper()
	h, err := c.Handle(name, &o)
	must(t, err)
	return h
}

func mustAcquire(t *testing.T, c locker, name string) *lease.Guard {
	t.Helper()
	return acquired(t, handle(t, c, name))
}

// acquired waits for the lock of a handle.
func acquired(t *testing.T, h *lease.Handle) *lease.Guard {
	t.Helper()
	g, err := h.Acquire(t.Context())
	if err != nil {
		t.Fatalf("Acquire(%q): %v", h.Name(), err)
	}
	return g
}

func mustTry(t *testing.T, c locker, name string) *lease.Guard {
	t.Helper()
	g, err := c.TryAcquire(t.Context(), name, nil)
	if err != nil {
		t.Fatalf("TryAcquire(%q): %v", name, err)
	}
	return g
}

func mustRelease(t *testing.T, g *lease.Guard) {
	t.Helper()
	if err := g.Release(t.Context()); err != nil {
		t.Fatalf("Release: %v", err)
	}
}

func wantHeld(t *testing.T, c locker, name string) {
	t.Helper()
	g, err := c.TryAcquire(t.Context(), name, nil)
	if !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("TryAcquire(%q) = %v, %v; want it held", name, g, err)
	}
}

// inspector reads the records of locks.
type inspector interface {
	Inspect(ctx context.Context, name string) (lease.Info, error)
}

func wantState(t *testing.T, c inspector, name string, state lease.State) lease.Record {
	t.Helper()
	info, err := c.Inspect(t.Context(), name)
	if err != nil {
		t.Fatalf("Inspect: %v", err)
	}
	if info.Record.State != state {
		t.Fatalf("the lock is %s; want it %s", info.Record.State, state)
	}
	return info.Record
}

func wantLost(t *testing.T, g *lease.Guard, reason error) {
	t.Helper()
	err := g.Err()
	if !errors.Is(err, lease.ErrLost) || !errors.Is(err, reason) {
		t.Fatalf("Err() = %v; want it lost: %v", err, reason)
	}
	if cause := context.Cause(g.Context()); cause != err || g.Context().Err() == nil {
		t.Fatalf("the context ended with %v; want %v", cause, err)
	}
}

// clocks are clocks of a machine that a test sets.
type clocks struct {
	mu        sync.Mutex
	jumped    time.Duration // how far the wall clock is ahead of the monotonic one
	suspended time.Duration
	rate      float64
	start     time.Time
}

func newClocks() *clocks { return &clocks{rate: 1, start: time.Now()} }

func (c *clocks) read() lease.Reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := time.Duration(c.rate * float64(time.Since(c.start)))
	now := c.start.Add(passed)
	return lease.Reading{Mono: now, Wall: now.Add(c.jumped).Round(0), Suspended: c.suspended}
}

func (c *clocks) change(f func(*clocks)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

// hidden is a store without the abilities of the one below it.
type hidden struct{ store.Store }

// volatileStore offers volatile puts, and counts them.
type volatileStore struct {
	store.Store
	puts atomic.Int64
}

func (s *volatileStore) Unwrap() store.Store { return s.Store }

func (s *volatileStore) PutUnsynced(ctx context.Context, key string, prev store.Version, value []byte) (store.Version, error) {
	s.puts.Add(1)
	return s.Put(ctx, key, prev, value)
}

// locker takes locks: a client, or a session of one.
type locker interface {
	Handle(name string, o *lease.LockOptions) (*lease.Handle, error)
	Acquire(ctx context.Context, name string, o *lease.LockOptions) (*lease.Guard, error)
	TryAcquire(ctx context.Context, name string, o *lease.LockOptions) (*lease.Guard, error)
	Do(ctx context.Context, name string, f func(context.Context, *lease.Guard) error, o *lease.LockOptions) error
}

// party is a client that takes its locks plain, or all of them under a session.
type party struct {
	*lease.Client
	locker
}

func (p *party) Handle(name string, o *lease.LockOptions) (*lease.Handle, error) {
	return p.locker.Handle(name, o)
}

func (p *party) Acquire(ctx context.Context, name string, o *lease.LockOptions) (*lease.Guard, error) {
	return p.locker.Acquire(ctx, name, o)
}

func (p *party) TryAcquire(ctx context.Context, name string, o *lease.LockOptions) (*lease.Guard, error) {
	return p.locker.TryAcquire(ctx, name, o)
}

func (p *party) Do(ctx context.Context, name string, f func(context.Context, *lease.Guard) error, o *lease.LockOptions) error {
	return p.locker.Do(ctx, name, f, o)
}

// newParty makes a party that is closed at the end of the test.
type newParty func(t *testing.T, st store.Store, o *lease.Options) *party

// bothWays runs f as bubble does, once with parties that take their locks plain and once with
// parties that take them under a session: f is about what both promise. Where f names its
// parameter client, all of its clients are such parties.
//
// These promises differ, so that their tests are for plain leases, and those of sessions have
// tests of their own:
//
//   - A guard under a session cannot be detached, and a ticket is for a plain lease.
//   - When a session is lost it takes no lock again, and its handles say so; a plain handle takes
//     the lock again.
//   - A session costs a request when it is opened, and then its renewals, whatever it holds; a
//     plain lease renews the record of its lock. A store that does not answer keeps a session from
//     being opened, before any lock is waited for.
//   - A session reads of a break with its next renewal, and the lock is free soon after; of a plain
//     lease that was broken others wait for the end. ReclaimOwn revokes the session of an earlier
//     process, and takes its lock only then.
//   - Close of a session frees all of its locks by one write, although the record of one lock
//     cannot be written.
//   - The loss of a session has an event of its own, apart from those of its locks.
//   - The clocks of a client are set before it opens a session.
func bothWays(t *testing.T, f func(t *testing.T, st store.Store, client newParty)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { plainly(t, f) })
	t.Run("under a session", func(t *testing.T) {
		bubble(t, func(t *testing.T, st store.Store) {
			f(t, st, func(t *testing.T, st store.Store, o *lease.Options) *party {
				c := client(t, st, o)
				return &party{c, open(t, c)}
			})
		})
	})
}

// plainly is bothWays for plain leases alone.
func plainly(t *testing.T, f func(t *testing.T, st store.Store, client newParty)) {
	t.Helper()
	bubble(t, func(t *testing.T, st store.Store) {
		f(t, st, func(t *testing.T, st store.Store, o *lease.Options) *party {
			c := client(t, st, o)
			return &party{c, c}
		})
	})
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/abandon"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// disk is a store that can freeze: then its calls ignore their contexts, and are carried
// out when it thaws.
type disk struct {
	store.Store
	mu     sync.Mutex
	frozen chan struct{} // nil: it works
	after  int           // writes that still pass, when it is to freeze
	calls  atomic.Int64  // that were made

	abandoned abandon.Calls
}

func newDisk() *disk {
	d := &disk{}
	d.Store = store.Intercept(memstore.New(), func(ctx context.Context, op *store.Op, next store.Handler) error {
		d.calls.Add(1)
		d.mu.Lock()
		frozen := d.frozen
		if frozen != nil && d.after > 0 && op.Kind.Write() {
			d.after--
			frozen = nil
		}
		d.mu.Unlock()
		if frozen == nil {
			return next(ctx, op)
		}
		return hangs(ctx, &d.abandoned, op, next, func() { <-frozen })
	})
	return d
}

func (d *disk) Unwrap() store.Store { return d.Store }

// freeze lets so many writes pass, and every read before them, and then nothing.
func (d *disk) freeze(writes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen, d.after = make(chan struct{}), writes
}

func (d *disk) thaw() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.frozen != nil {
		close(d.frozen)
		d.frozen = nil
	}
}

// frozen runs f in virtual time with a disk, which thaws at the end.
func frozen(t *testing.T, f func(t *testing.T, d *disk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		t.Cleanup(func() { time.Sleep(time.Hour) }) // whatever was left behind ends
		f(t, d)
		d.thaw()
	})
}

// within fails if f takes longer than limit.
func within(t *testing.T, what string, limit time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v; want at most %v", what, took, limit)
	}
}

// moment is what a call may take longer than its bound: for the requests that are left
// behind in the end.
const moment = time.Second

// Every call returns in its time on a disk that is frozen and ignores contexts, and what
// it leaves behind, which is carried out when the disk thaws, does no harm: the lock is
// free in the end, or a TTL later, and no other holder loses its lease.
func TestFrozenCallsEnd(t *testing.T) {
	const timeout = 2 * time.Second
	o := lease.Options{StoreTimeout: time.Minute, Tuning: lease.Tuning{ReleaseTimeout: timeout}}
	deadline := func(ctx context.Context, f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		return f(ctx)
	}
	for _, tt := range []struct {
		name  string
		bound time.Duration
		call  func(ctx context.Context, c *lease.Client, g *lease.Guard) error
	}{
		{"Release", timeout, func(ctx context.Context, _ *lease.Client, g *lease.Guard) error { return g.Release(ctx) }},
		{"Close", timeout, func(ctx context.Context, c *lease.Client, _ *lease.Guard) error { return c.Close(ctx) }},
		{"Acquire", 3*time.Second + timeout, func(ctx context.Context, c *lease.Client, _ *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error { _, err := c.Acquire(ctx, "other", nil); return err })
		}},
		{"TryAcquire", 3*time.Second + timeout, func(ctx context.Context, c *lease.Client, _ *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error { _, err := c.TryAcquire(ctx, "other", nil); return err })
		}},
		{"Renew", 3 * time.Second, func(ctx context.Context, _ *lease.Client, g *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error { return g.Renew(ctx) })
		}},
		{"SetData", 3 * time.Second, func(ctx context.Context, _ *lease.Client, g *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error { return g.SetData(ctx, []byte("x")) })
		}},
		{"Inspect", 3 * time.Second, func(ctx context.Context, c *lease.Client, _ *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error { _, err := c.Inspect(ctx, "job"); return err })
		}},
		{"Break", 3 * time.Second, func(ctx context.Context, c *lease.Client, g *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error { _, err := c.Break(ctx, "job", g.Token(), nil); return err })
		}},
		{"Sweep", 3 * time.Second, func(ctx context.Context, c *lease.Client, _ *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) error {
				_, err := c.Sweep(ctx, &lease.SweepOptions{OlderThan: time.Hour})
				return err
			})
		}},
		{"Watch", 3 * time.Second, func(ctx context.Context, c *lease.Client, _ *lease.Guard) error {
			return deadline(ctx, func(ctx context.Context) (last error) {
				for _, last = range c.Watch(ctx, "job") {
				}
				return last
			})
		}},
	} {
		for _, passing := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s after %d writes", tt.name, passing), func(t *testing.T) {
				frozen(t, func(t *testing.T, d *disk) {
					c := client(t, d, &o)
					g := mustTry(t, c, "job")
					synctest.Wait()
					d.freeze(passing)
					if passing > 0 { // with a renewal in flight
						time.Sleep(c.Options().RenewInterval + 2*time.Second)
					}
					within(t, tt.name, tt.bound+moment, func() {
						err := tt.call(t.Context(), c, g)
						if err == nil && d.abandoned.Abandoned() > 0 && tt.name != "Release" && tt.name != "Close" {
							t.Error("it succeeded on a frozen disk")
						}
					})
					within(t, "Close", timeout+2*moment, func() { _ = c.Close(t.Context()) })
					d.thaw()
					time.Sleep(time.Second)
					if n := d.abandoned.Abandoned(); n != 0 {
						t.Errorf("%d calls are left behind after the thaw", n)
					}
					for _, name := range []string{"job", "other"} {
						next := client(t, d, nil)
						ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
						after, err := next.Acquire(ctx, name, nil)
						cancel()
						if err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						time.Sleep(time.Minute)
						if err := after.Err(); err != nil {
							t.Errorf("%s: the next holder was hurt: %v", name, err)
						}
					}
				})
			})
		}
	}
}

// Detach ends in time, too, and its ticket is good if nothing landed late.
func TestDetachEndsOnAFrozenStore(t *testing.T) {
	frozen(t, func(t *testing.T, d *disk) {
		o := &lease.Options{NoPresence: true, Tuning: lease.Tuning{ReleaseTimeout: 2 * time.Second}}
		c := client(t, d, o)
		g := mustTry(t, c, "job")
		d.freeze(0)
		time.Sleep(12 * time.Second) // a renewal is in flight
		within(t, "Detach", 2*time.Second+moment, func() {
			report(t, errOf(g.Detach(t.Context())))
		})
	})
}

// A store that never answers costs a bounded number of goroutines, however long it lasts.
func TestFrozenStoreCostsFewGoroutines(t *testing.T) {
	frozen(t, func(t *testing.T, d *disk) {
		c := client(t, d, &lease.Options{TTL: 5 * time.Second})
		g := mustTry(t, c, "job")
		d.freeze(0)
		<-g.Context().Done()
		var waiting sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			waiting.Go(func() { _, _ = c.Acquire(ctx, "job", nil) })
		}
		time.Sleep(6 * time.Hour)
		if n := d.abandoned.Abandoned(); n < 10 || n > 20 {
			t.Errorf("%d calls are left behind", n)
		}
		cancel()
		waiting.Wait()
		d.thaw()
		within(t, "Acquire after the thaw", 6*time.Second, func() {
			report(t, errOf(c.Acquire(t.Context(), "job", nil)))
		})
	})
}

// frozenMemory is a memory that answers nothing until it thaws.
type frozenMemory struct{ thaw chan struct{} }

func (m frozenMemory) Load(string, string) (lease.Observation, bool) {
	<-m.thaw
	return lease.Observation{}, false
}

func (m frozenMemory) Save(lease.Observation) { <-m.thaw }

// A memory that does not answer holds up an acquire and a release for a moment.
func TestFrozenCacheDelaysNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := frozenMemory{make(chan struct{})}
		c := client(t, named(t), &lease.Options{Cache: m})
		t.Cleanup(func() { close(m.thaw) })
		within(t, "acquire and release", 5*time.Second, func() { mustRelease(t, mustTry(t, c, "job")) })
	})
}

// A handler and a logger that block keep no lease alive, stop no renewal, and hold up no
// call; what they miss is counted, and they cost one goroutine each.
func TestBlockedHandlerStopsNothing(t *testing.T) {
	frozen(t, func(t *testing.T, d *disk) {
		block := make(chan struct{})
		defer close(block)
		c := client(t, d, &lease.Options{
			TTL:     5 * time.Second,
			OnEvent: func(lease.Event) { <-block },
			Logger:  slog.New(blockedLog{slog.DiscardHandler, block}),
			Tuning:  lease.Tuning{ReleaseTimeout: 2 * time.Second},
		})
		g, other := mustTry(t, c, "job"), mustTry(t, c, "other")
		time.Sleep(time.Hour)
		if g.Err() != nil || other.Err() != nil {
			t.Fatalf("no renewal: %v, %v", g.Err(), other.Err())
		}
		mustRelease(t, other)
		if c.Stats().DroppedEvents == 0 {
			t.Error("no event was dropped")
		}
		d.freeze(0)
		within(t, "belief on a frozen disk", 5*time.Second, func() { <-g.Context().Done() })
		if !errors.Is(g.Err(), lease.ErrExpired) {
			t.Errorf("Err() = %v", g.Err())
		}
		within(t, "Release", 2*time.Second+moment, func() { _ = g.Release(t.Context()) })
		d.thaw()
		within(t, "Acquire", 10*time.Second, func() { mustRelease(t, mustTry(t, c, "third")) })
		within(t, "Close", 2*time.Second+2*moment, func() { _ = c.Close(t.Context()) })
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		created := "created by github.com/holdfast-go/holdfast/lease"
		if n := strings.Count(string(stacks), created+".") + strings.Count(string(stacks), created+"/"); n != 2 {
			t.Errorf("%d goroutines are left; want one for each that blocks\n%s", n, stacks)
		}
	})
}

// blockedLog is a handler of a logger whose output takes nothing.
type blockedLog struct {
	slog.Handler
	block chan struct{}
}

func (b blockedLog) Enabled(context.Context, slog.Level) bool { return true }

func (b blockedLog) Handle(context.Context, slog.Record) error {
	<-b.block
	return nil
}

// Renewals that a handler has not yet received leave room for events that change what a holder may
// do.
func TestRenewalsLeaveRoomInTheQueue(t *testing.T) {
	bothWays(t, func(t *testing.T, st store.Store, client newParty) {
		block := make(chan struct{})
		delivered := map[lease.EventKind]int{}
		c := client(t, st, &lease.Options{TTL: 5 * time.Second, OnEvent: func(e lease.Event) {
			<-block
			delivered[e.Kind]++
		}})
		g := mustTry(t, c, "job")
		time.Sleep(time.Hour)
		if c.Stats().DroppedEvents == 0 {
			t.Fatal("no event was dropped")
		}
		mustRelease(t, g)
		close(block)
		must(t, c.FlushEvents(t.Context()))
		if delivered[lease.EventRenewed] == 0 || delivered[lease.EventReleased] != 1 {
			t.Errorf("delivered %v", delivered)
		}
	})
}

// A slow handler receives every event, in order, and how many were dropped.
func TestSlowHandlerLearnsWhatItMissed(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		var events []lease.Event
		slow := time.Millisecond
		c := client(t, st, &lease.Options{OnEvent: func(e lease.Event) {
			time.Sleep(slow)
			events = append(events, e)
		}})
		for i := range 100 {
			mustRelease(t, mustTry(t, c, fmt.Sprint(i)))
		}
		if err := c.FlushEvents(t.Context()); err != nil || len(events) != 200 {
			t.Fatalf("%v, %d events; want 200", err, len(events))
		}
		last := map[string]lease.EventKind{}
		for _, e := range events {
			want := lease.EventReleased
			if last[e.Name] == "" {
				want = lease.EventAcquired
			}
			if e.Kind != want || e.Dropped != 0 {
				t.Errorf("%s: %s after %s, %d missed", e.Name, e.Kind, last[e.Name], e.Dropped)
			}
			last[e.Name] = e.Kind
		}
		events = nil
		slow = time.Second
		for range 400 {
			mustRelease(t, mustTry(t, c, "again"))
		}
		delivered := 0
		must(t, c.FlushEvents(t.Context()))
		mustRelease(t, mustTry(t, c, "again"))
		must(t, c.FlushEvents(t.Context()))
		missed := 0
		for _, e := range events {
			delivered++
			missed += e.Dropped
		}
		if delivered+missed != 802 || missed == 0 || uint64(missed) != c.Stats().DroppedEvents {
			t.Errorf("%d delivered, %d missed, %d counted, of 802", delivered, missed, c.Stats().DroppedEvents)
		}
	})
}

// A closed client sends nothing, whatever is called, and returns an error at once.
func TestClosedClientSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		o := &lease.Options{NoPresence: true}
		holder := client(t, d, o)
		c := client(t, d, o)
		held := mustTry(t, holder, "held")
		g, h := mustTry(t, c, "job"), handle(t, c, "handle")
		ticket := mustDetach(t, mustTry(t, c, "ticket"))
		must(t, c.Close(t.Context()))
		before := d.calls.Load()
		for name, call := range map[string]func(context.Context) error{
			"Acquire":           func(ctx context.Context) error { _, err := c.Acquire(ctx, "a", nil); return err },
			"TryAcquire":        func(ctx context.Context) error { _, err := c.TryAcquire(ctx, "a", nil); return err },
			"Handle.Acquire":    func(ctx context.Context) error { _, err := h.Acquire(ctx); return err },
			"Handle.TryAcquire": func(ctx context.Context) error { _, err := h.TryAcquire(ctx); return err },
			"AcquireAll":        func(ctx context.Context) error { _, err := lease.AcquireAll(ctx, h); return err },
			"Attach":            func(ctx context.Context) error { _, err := c.Attach(ctx, ticket); return err },
			"Break": func(ctx context.Context) error {
				_, err := c.Break(ctx, "held", held.Token(), &lease.BreakOptions{Immediate: true})
				return err
			},
			"Inspect": func(ctx context.Context) error { _, err := c.Inspect(ctx, "held"); return err },
			"SetData": func(ctx context.Context) error { return g.SetData(ctx, []byte("x")) },
			"Renew":   g.Renew,
			"Detach":  func(ctx context.Context) error { _, err := g.Detach(ctx); return err },
			"Sweep": func(ctx context.Context) error {
				_, err := c.Sweep(ctx, &lease.SweepOptions{OlderThan: time.Hour})
				return err
			},
			"List": func(ctx context.Context) error {
				for _, err := range c.List(ctx, "") {
					return err
				}
				return nil
			},
			"Watch": func(ctx context.Context) error {
				var last error
				for _, last = range c.Watch(ctx, "held") {
				}
				return last
			},
		} {
			within(t, name, 0, func() {
				if err := call(t.Context()); !errors.Is(err, lease.ErrClosed) {
					t.Errorf("%s = %v; want ErrClosed", name, err)
				}
			})
		}
		if n := d.calls.Load() - before; n != 0 {
			t.Errorf("%d calls of the store were made", n)
		}
	})
}

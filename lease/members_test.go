package lease_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// opened returns a session of a client of its own.
func opened(t *testing.T, st store.Store) *lease.Session {
	t.Helper()
	return open(t, client(t, st, nil))
}

func mustTake(t *testing.T, h *lease.Handle) *lease.Guard {
	t.Helper()
	g, err := h.TryAcquire(t.Context())
	if err != nil {
		t.Fatalf("TryAcquire of %q: %v", h.Name(), err)
	}
	return g
}

func wantHeldBy(t *testing.T, h *lease.Handle) {
	t.Helper()
	if g, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrHeld) {
		t.Fatalf("TryAcquire = %v, %v; want ErrHeld", g, err)
	}
}

// pending is an Acquire that runs in its own goroutine.
type pending struct {
	guard *lease.Guard
	err   error
	took  time.Duration
	done  chan struct{}
	end   context.CancelFunc
}

func acquiring(t *testing.T, h *lease.Handle) *pending {
	ctx, end := context.WithCancel(t.Context())
	a := &pending{done: make(chan struct{}), end: end}
	began := time.Now()
	go func() {
		defer close(a.done)
		a.guard, a.err = h.Acquire(ctx)
		a.took = time.Since(began)
	}()
	synctest.Wait()
	return a
}

func (a *pending) over() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// Many readers hold a lock together, and a writer excludes them and is excluded by them. A
// reader has the token of the last writer before it, a writer one that is above all.
func TestReadersAndWriters(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a, b := opened(t, st), opened(t, st)
		shared := lease.LockOptions{Shared: true}
		var readers []*lease.Guard
		for _, s := range []*lease.Session{a, b, b} {
			readers = append(readers, mustTake(t, with(t, s, "job", shared)))
		}
		for _, g := range readers {
			if g.Token() != readers[0].Token() || g.Slot() != 0 || g.Err() != nil {
				t.Errorf("token %d, slot %d, %v", g.Token(), g.Slot(), g.Err())
			}
		}
		wantHeldBy(t, with(t, a, "job", lease.LockOptions{}))
		wantHeld(t, client(t, st, nil), "job")
		for i, g := range readers {
			if rec := record(t, st, "job"); rec.State != lease.Shared || len(rec.Holders) != 3-i {
				t.Errorf("%+v", rec)
			}
			mustRelease(t, g)
			if !errors.Is(g.Err(), lease.ErrReleased) {
				t.Error(g.Err())
			}
		}
		w := mustTake(t, with(t, a, "job", lease.LockOptions{}))
		if w.Token() <= readers[0].Token() {
			t.Errorf("a writer's token %d after %d", w.Token(), readers[0].Token())
		}
		wantHeldBy(t, with(t, b, "job", shared))
		mustRelease(t, w)
		g := mustTake(t, with(t, b, "job", shared))
		if g.Token() != w.Token() {
			t.Errorf("a reader's token %d after a writer's %d", g.Token(), w.Token())
		}
		mustRelease(t, g)
		plain := mustTry(t, client(t, st, nil), "job")
		if plain.Token() <= g.Token() {
			t.Errorf("token %d after %d", plain.Token(), g.Token())
		}
		wantHeldBy(t, with(t, b, "job", shared))
		mustRelease(t, plain)
	})
}

// A writer that waits keeps new readers out, and has the lock when the last reader before it
// goes. The readers after it have it together when it goes.
func TestWaitingWriterIsNotStarved(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		a, b := opened(t, st), opened(t, st)
		shared := lease.LockOptions{Shared: true}
		first := mustTake(t, with(t, a, "job", shared))
		w := acquiring(t, with(t, b, "job", lease.LockOptions{}))
		wantHeldBy(t, with(t, a, "job", shared))
		var after []*pending
		for range 5 {
			after = append(after, acquiring(t, with(t, a, "job", shared)))
			time.Sleep(time.Second)
		}
		if w.over() {
			t.Fatal(w.err)
		}
		mustRelease(t, first)
		<-w.done
		if w.err != nil {
			t.Fatal(w.err)
		}
		if rec := record(t, st, "job"); rec.State != lease.Held || len(rec.Queue) != 5 || w.guard.Token() != rec.Token {
			t.Errorf("%+v", rec)
		}
		for _, r := range after {
			if r.over() {
				t.Fatal(r.guard, r.err)
			}
		}
		mustRelease(t, w.guard)
		for _, r := range after {
			<-r.done
			if r.err != nil || r.guard.Token() != w.guard.Token() {
				t.Fatal(r.err)
			}
		}
		if rec := record(t, st, "job"); len(rec.Holders) != 5 {
			t.Errorf("%+v", rec)
		}
		for _, r := range after {
			mustRelease(t, r.guard)
		}
		if rec := record(t, st, "job"); rec.State != lease.Free {
			t.Errorf("%+v", rec)
		}
	})
}

// dies makes a session that is not renewed any more, as after a crash of its process.
func dies(t *testing.T, st store.Store) *lease.Session {
	t.Helper()
	return open(t, client(t, st, &lease.Options{ManualRenewal: true}))
}

// A semaphore has as many holders as slots, each with a slot and a token of its own.
func TestSemaphore(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := opened(t, st)
		slot := lease.LockOptions{Slots: 3}
		var guards []*lease.Guard
		tokens := map[uint64]bool{}
		for i := range 3 {
			g := mustTake(t, with(t, s, "job", slot))
			if g.Slot() != i+1 || tokens[g.Token()] {
				t.Errorf("slot %d with the token %d", g.Slot(), g.Token())
			}
			tokens[g.Token()] = true
			guards = append(guards, g)
		}
		wantHeldBy(t, with(t, s, "job", slot))
		mustRelease(t, guards[1])
		h := with(t, opened(t, st), "job", lease.LockOptions{Slots: 3})
		g := mustTake(t, h)
		if g.Slot() != 2 || tokens[g.Token()] {
			t.Errorf("slot %d with the token %d", g.Slot(), g.Token())
		}
		again := mustTake(t, h)
		if again.Slot() != 2 {
			t.Errorf("the handle holds another slot: %d", again.Slot())
		}
		mustRelease(t, again)
		guards[1] = g
		for _, g := range guards {
			mustRelease(t, g)
		}
		if rec := record(t, st, "job"); rec.State != lease.Free || rec.Slots != 3 {
			t.Errorf("%+v", rec)
		}
	})
}

// What a semaphore refuses: numbers of slots that none has, another number than it has, and
// its use as a lock; and a lock its use as a semaphore.
func TestSemaphoreBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := opened(t, st)
		for _, n := range []int{-1, 0, lease.MaxMembers + 1, 1_000_000} {
			if h, err := s.Handle("job", &lease.LockOptions{Slots: n}); n != 0 && !errors.Is(err, store.ErrInvalid) { // with 0 it is a plain lock
				t.Errorf("%d slots: %v, %v", n, h, err)
			}
			if _, err := client(t, st, nil).Resize(t.Context(), "job", n); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("resized to %d: %v", n, err)
			}
		}
		g := mustTake(t, with(t, s, "job", lease.LockOptions{Slots: 2}))
		for range 2 { // held, and free
			for what, o := range map[string]lease.LockOptions{"slots": {Slots: 3}, "shared": {Shared: true}, "exclusive": {}, "fair": {Fair: true}} {
				h := with(t, s, "job", o)
				_, tried := h.TryAcquire(t.Context())
				_, waited := h.Acquire(t.Context())
				for _, err := range []error{tried, waited} {
					var slots *lease.SlotCountError
					if o.Slots > 0 && (!errors.As(err, &slots) || slots.Have != 2 || slots.Want != 3) || o.Slots == 0 && !errors.Is(err, lease.ErrWrongKind) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			if _, err := client(t, st, nil).TryAcquire(t.Context(), "job", nil); !errors.Is(err, lease.ErrWrongKind) {
				t.Errorf("plain: %v", err)
			}
			mustRelease(t, g)
		}
		lock := mustTry(t, client(t, st, nil), "lock")
		if _, err := with(t, s, "lock", lease.LockOptions{Slots: 2}).Acquire(t.Context()); !errors.Is(err, lease.ErrWrongKind) {
			t.Error(err)
		}
		if _, err := client(t, st, nil).Resize(t.Context(), "lock", 2); !errors.Is(err, lease.ErrWrongKind) {
			t.Error(err)
		}
		mustRelease(t, lock)
		mustRelease(t, mustTake(t, with(t, s, "lock", lease.LockOptions{Slots: 2})))
		if _, err := client(t, st, nil).Resize(t.Context(), "none", 2); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	})
}

// More slots are given to those who wait at once; of fewer those above stay until they are
// released.
func TestResize(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		s := open(t, c)
		slot := lease.LockOptions{Slots: 2, Fair: true}
		a, b := mustTake(t, with(t, s, "job", slot)), mustTake(t, with(t, s, "job", slot))
		waits := acquiring(t, with(t, s, "job", slot))
		rec, err := c.Resize(t.Context(), "job", 3)
		if err != nil || rec.Slots != 3 || len(rec.Holders) != 3 {
			t.Fatalf("%+v, %v", rec, err)
		}
		<-waits.done
		if waits.err != nil || waits.guard.Slot() != 3 {
			t.Fatal(waits.err)
		}
		must(t, errOf(c.Resize(t.Context(), "job", 1)))
		one := lease.LockOptions{Slots: 1}
		wantHeldBy(t, with(t, s, "job", one))
		mustRelease(t, a)
		mustRelease(t, b)
		if waits.guard.Err() != nil || waits.guard.Slot() != 3 {
			t.Error(waits.guard.Err(), waits.guard.Slot())
		}
		wantHeldBy(t, with(t, s, "job", one))
		mustRelease(t, waits.guard)
		if g := mustTake(t, with(t, s, "job", one)); g.Slot() != 1 {
			t.Errorf("slot %d", g.Slot())
		}
		if _, err := with(t, s, "job", slot).TryAcquire(t.Context()); !errors.Is(err, lease.ErrSlotCount) {
			t.Error(err)
		}
	})
}

// One of several holders reads a request to yield, and cannot refuse for the others. It continues.
func TestOneOfSeveralCannotRefuse(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		for name, o := range map[string]lease.LockOptions{"doc": {Shared: true}, "pool": {Slots: 2}} {
			g := mustTake(t, with(t, opened(t, st), name, o))
			asker := client(t, st, nil)
			must(t, errOf(asker.RequestYield(t.Context(), name, nil)))
			hears(t, g, ttl)
			if err := g.RefuseYield(t.Context(), "no"); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("%s: Refuse = %v; want ErrInvalid", name, err)
			}
			if asked, err := asker.RequestYield(t.Context(), name, nil); err != nil || asked.RefusalReason != "" || g.Err() != nil {
				t.Errorf("%s: the request is %+v, %v; the holder %v", name, asked, err, g.Err())
			}
			mustRelease(t, g)
		}
	})
}

// A waiter that can never have the lock gets the reason. Its error does not say that the lock is
// held, which would suggest to the caller to wait or to break it.
func TestWaiterLearnsWhyItIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		s := opened(t, st)
		slot := lease.LockOptions{Slots: 1}
		mustTake(t, with(t, s, "job", slot))
		waits := acquiring(t, with(t, s, "job", slot))
		tamper(t, st, "lock/job", func([]byte) []byte { return []byte("{") })
		<-waits.done
		if !errors.Is(waits.err, store.ErrCorrupt) || errors.Is(waits.err, lease.ErrHeld) {
			t.Errorf("the wait ended with %v; want %v, and not ErrHeld", waits.err, store.ErrCorrupt)
		}
	})
}

// A queue of 100 keeps the order of arrival, whatever the session, and skips those who left
// and those who died.
func TestFairOrder(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		fair := lease.LockOptions{Fair: true}
		holder := mustTake(t, with(t, opened(t, st), "job", fair))
		sessions := []*lease.Session{opened(t, st), opened(t, st), opened(t, st), opened(t, st)}
		var (
			mu    sync.Mutex
			order []int
			all   []*pending
		)
		var done sync.WaitGroup
		for i := range 100 {
			h := with(t, sessions[i%4], "job", fair)
			if i%20 == 7 {
				h = with(t, dies(t, st), "job", fair)
			}
			a := acquiring(t, h)
			all = append(all, a)
			done.Go(func() {
				<-a.done
				if a.err != nil {
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(100 * time.Millisecond)
				if err := a.guard.Release(context.Background()); err != nil && i%20 != 7 {
					t.Error(i, err)
				}
			})
		}
		if rec := record(t, st, "job"); len(rec.Queue) != 100 {
			t.Fatalf("%d wait", len(rec.Queue))
		}
		for i, a := range all {
			if i%10 == 3 {
				a.end() // it gives up
				<-a.done
				if !errors.Is(a.err, context.Canceled) {
					t.Error(a.err)
				}
			}
		}
		if rec := record(t, st, "job"); len(rec.Queue) != 90 {
			t.Fatalf("%d wait", len(rec.Queue))
		}
		time.Sleep(3 * ttl) // those whose session has ended are dropped
		synctest.Wait()
		if rec := record(t, st, "job"); len(rec.Queue) != 85 {
			t.Fatalf("%d wait", len(rec.Queue))
		}
		mustRelease(t, holder)
		done.Wait()
		if !slices.IsSorted(order) || len(order) != 85 {
			t.Errorf("%d had the lock: %v", len(order), order)
		}
	})
}

// nthOf makes a script that does f to the n-th write of a key, counted from 1, and reports whether
// there was one.
func nthOf(key string, n int, f fault) (script func(*store.Op) fault, met *bool) {
	count := 0
	met = new(bool)
	return func(op *store.Op) fault {
		if op.Key == key && op.Kind.Write() {
			if count++; count == n {
				*met = true
				return f
			}
		}
		return pass
	}, met
}

// Whether any one write is lost or applied: a waiter of each kind has the lock in the end or gets
// an error. Afterwards no client or session of the test holds anything, while all sessions live.
func TestMembersSurviveFaults(t *testing.T) {
	kinds := map[string]struct{ holder, waiter lease.LockOptions }{
		"reader behind a writer":   {lease.LockOptions{}, lease.LockOptions{Shared: true}},
		"writer behind a reader":   {lease.LockOptions{Shared: true}, lease.LockOptions{}},
		"reader beside a reader":   {lease.LockOptions{Shared: true}, lease.LockOptions{Shared: true}},
		"fair behind a writer":     {lease.LockOptions{}, lease.LockOptions{Fair: true}},
		"slot":                     {lease.LockOptions{Slots: 1}, lease.LockOptions{Slots: 1}},
		"fair slot":                {lease.LockOptions{Slots: 1}, lease.LockOptions{Slots: 1, Fair: true}},
		"slot beside another slot": {lease.LockOptions{Slots: 2}, lease.LockOptions{Slots: 2}},
	}
	for name, kind := range kinds {
		for _, f := range []fault{drop, fail, lose, repeat, hang, hangLate} {
			for n := 1; n <= 3; n++ {
				t.Run(fmt.Sprint(name, " ", f, " ", n), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						script, met := nthOf("lock/job", n, f)
						first := opened(t, st)
						g := mustTake(t, with(t, first, "job", kind.holder))
						w := newWire(st)
						second := open(t, client(t, w, nil))
						w.set(script)
						a := acquiring(t, with(t, second, "job", kind.waiter))
						time.Sleep(3 * time.Second)
						must(t, g.Release(t.Context()))
						<-a.done
						if a.err != nil {
							t.Fatal(a.err)
						}
						must(t, a.guard.Err())
						if a.took > ttl {
							t.Errorf("it took %v", a.took)
						}
						err := a.guard.Release(t.Context())
						if *met && err != nil && !errors.Is(err, lease.ErrUnresolved) {
							t.Errorf("release: %v", err)
						}
						time.Sleep(ttl) // a leftover is tried again after the next renewal
						w.after.Wait()
						synctest.Wait()
						if rec := record(t, st, "job"); rec.State != lease.Free || len(rec.Queue) > 0 {
							t.Errorf("left behind: %+v", rec)
						}
						if first.Err() != nil || second.Err() != nil {
							t.Error(first.Err(), second.Err())
						}
					})
				})
			}
		}
	}
}

// A waiter that gives up leaves the queue, also where the outcome of that is not known at
// first, and where it has been made the holder meanwhile.
func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	for _, f := range []fault{pass, drop, fail, lose, repeat, hang, hangLate} {
		for _, promoted := range []bool{false, true} {
			t.Run(fmt.Sprint(f, " ", promoted), func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					g := mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Fair: true}))
					w := newWire(st)
					s := open(t, client(t, w, nil))
					a := acquiring(t, with(t, s, "job", lease.LockOptions{Fair: true}))
					after := acquiring(t, with(t, opened(t, st), "job", lease.LockOptions{Fair: true}))
					if rec := record(t, st, "job"); len(rec.Queue) != 2 {
						t.Fatalf("%+v", rec)
					}
					script, _ := nthOf("lock/job", 1, f)
					w.set(func(op *store.Op) fault {
						if op.Kind == store.OpWatch {
							return hang // it gets no reply about the hand-over
						}
						return script(op)
					})
					if promoted {
						mustRelease(t, g)
					}
					a.end()
					<-a.done
					if a.err == nil && promoted {
						if err := a.guard.Release(t.Context()); err != nil && !errors.Is(err, lease.ErrUnresolved) {
							t.Errorf("release: %v", err)
						}
					} else if !errors.Is(a.err, context.Canceled) {
						t.Fatal(a.err)
					}
					time.Sleep(ttl)
					w.after.Wait()
					synctest.Wait()
					rec := record(t, st, "job")
					if !promoted && (len(rec.Queue) != 1 || rec.Grant == "" || after.over()) {
						t.Errorf("%+v", rec)
					}
					if !promoted {
						mustRelease(t, g)
					}
					<-after.done
					if after.err != nil {
						t.Fatal(after.err)
					}
					mustRelease(t, after.guard)
					if rec := record(t, st, "job"); rec.State != lease.Free || len(rec.Queue) > 0 {
						t.Errorf("%+v", rec)
					}
				})
			})
		}
	}
}

// However many in a row died while they waited, each with a session of its own, the lock is idle for
// about two TTLs: a waiter that finds one of them dead watches all that are ahead of it from then
// on. One among them that lives has its turn in its place.
func TestDeadOnesInARow(t *testing.T) {
	const dead = 12
	fair := lease.LockOptions{Fair: true}
	for name, reach := range map[string]func(store.Store) store.Store{
		"a store that pushes": func(st store.Store) store.Store { return st },
		"a store that polls":  func(st store.Store) store.Store { return hidden{st} },
	} {
		for _, c := range []struct {
			name  string
			lives int // how many of the dead wait ahead of one that lives
			last  func(*testing.T, store.Store) *lease.Handle
		}{
			{"all dead", dead, func(t *testing.T, st store.Store) *lease.Handle { return with(t, opened(t, st), "job", fair) }},
			{"one lives", dead / 2, func(t *testing.T, st store.Store) *lease.Handle { return with(t, opened(t, st), "job", fair) }},
			{"one waits in no queue", dead, func(t *testing.T, st store.Store) *lease.Handle { return handle(t, client(t, st, nil), "job") }},
		} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					if _, tells := store.As[store.AgeReader](st); tells {
						t.Fatal("the store tells ages")
					}
					g := mustTake(t, with(t, opened(t, st), "job", fair))
					var living *pending
					var beats *lease.Session
					for i := range dead {
						if i == c.lives {
							beats = opened(t, reach(st))
							living = acquiring(t, with(t, beats, "job", fair))
						}
						w := newWire(st)
						a := acquiring(t, with(t, open(t, client(t, w, nil)), "job", fair))
						w.set(everything(hang))
						defer w.set(nil)
						defer a.end()
					}
					last := acquiring(t, c.last(t, reach(st)))
					began := time.Now()
					mustRelease(t, g)
					if living != nil {
						if <-living.done; living.err != nil || last.over() || beats.Err() != nil {
							t.Fatalf("the living one: %v, %v; the one after it has the lock: %v", living.err, beats.Err(), last.over())
						}
						mustRelease(t, living.guard)
					}
					<-last.done
					took := time.Since(began)
					if last.err != nil || took > 2*expiry+soon {
						t.Errorf("after %v: %v; %d dead ones of %v", took, last.err, dead, expiry)
					}
					if living != nil && beats.Err() != nil {
						t.Errorf("the session of the living one: %v", beats.Err())
					}
				})
			})
		}
	}
}

// A head that reads late, after its session's deadline, does not believe.
func TestHeadHoldsWithinItsSession(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		fair := lease.LockOptions{Fair: true}
		g := mustTake(t, with(t, opened(t, st), "job", fair))
		a := acquiring(t, with(t, dies(t, st), "job", fair))
		time.Sleep(ttl * 7 / 10)
		mustRelease(t, g)
		<-a.done
		if a.err == nil && a.guard.Err() == nil && a.guard.Remaining() > ttl*3/10 {
			t.Errorf("trust %v", a.guard.Remaining())
		}
		time.Sleep(ttl)
		if a.err == nil && !errors.Is(a.guard.Err(), lease.ErrLost) {
			t.Error(a.guard.Err())
		}
	})
}

// The fair queue works for plain leases, too: their renewals write over what the waiters write, and
// their release hands over.
func TestFairBehindAPlainLease(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		g := mustTry(t, client(t, st, nil), "job")
		var waiters []*pending
		for range 3 {
			waiters = append(waiters, acquiring(t, with(t, opened(t, st), "job", lease.LockOptions{Fair: true})))
			time.Sleep(ttl / 2)
		}
		time.Sleep(2 * ttl)
		must(t, g.Err())
		must(t, g.SetData(t.Context(), []byte("kept")))
		mustRelease(t, g)
		last := g.Token()
		for _, a := range waiters {
			<-a.done
			if a.err != nil || a.guard.Token() <= last || string(a.guard.Data()) != "kept" {
				t.Fatal(a.err)
			}
			last = a.guard.Token()
			mustRelease(t, a.guard)
		}
	})
}

// The queue does not keep a plain lease alive whose holder is dead, and its head follows.
func TestFairBehindADeadPlainLease(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		mustTry(t, client(t, st, &lease.Options{ManualRenewal: true}), "job")
		began := time.Now()
		first := acquiring(t, with(t, opened(t, st), "job", lease.LockOptions{Fair: true}))
		for range 5 {
			acquiring(t, with(t, opened(t, st), "job", lease.LockOptions{Fair: true}))
			time.Sleep(5 * time.Second)
		}
		<-first.done
		if first.err != nil || time.Since(began) > expiry+soon {
			t.Errorf("after %v: %v", time.Since(began), first.err)
		}
	})
}

// A reader that acquires the lock as a writer would wait for itself, and gets an error at once. The
// context of its guard identifies it, and so does that of a Do, and that of a guard of another lock
// which was taken with it. With another context it waits until the reader has left.
func TestUpgradeIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		s := open(t, c)
		reader := with(t, s, "job", lease.LockOptions{Shared: true})
		g := mustTake(t, reader)
		other, err := s.TryAcquire(g.Context(), "other", nil)
		must(t, err)
		within, cancel := context.WithCancel(g.Context())
		defer cancel()
		for name, ctx := range map[string]context.Context{"the guard's": g.Context(), "one made of it": within, "of a lock taken with it": other.Context()} {
			if _, err := s.Acquire(ctx, "job", nil); !errors.Is(err, store.ErrInvalid) {
				t.Errorf("with the context %s: %v", name, err)
			}
		}
		if _, err := c.Acquire(g.Context(), "job", nil); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("without the session: %v", err)
		}
		if err := reader.Do(t.Context(), func(ctx context.Context, _ *lease.Guard) error {
			_, err := s.Acquire(ctx, "job", nil)
			return err
		}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("in a Do: %v", err)
		}
		if again, err := reader.Acquire(g.Context()); err != nil || again.Token() != g.Token() {
			t.Errorf("the same handle: %v", err)
		} else {
			mustRelease(t, again)
		}
		writer := acquiring(t, handle(t, s, "job"))
		time.Sleep(time.Minute)
		if writer.over() {
			t.Errorf("a writer beside a reader: %v", writer.err)
		}
		mustRelease(t, g)
		if <-writer.done; writer.err != nil {
			t.Error(writer.err)
		}
		mustRelease(t, writer.guard)
		if _, err := s.Acquire(other.Context(), "job", nil); err != nil {
			t.Errorf("after the release of the reader: %v", err)
		}
	})
}

// The 501st gets an error, and has not entered.
func TestFullLockRefusesMoreMembers(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		holds := opened(t, st)
		rec := &lease.Record{Name: "job", State: lease.Shared, Token: 1, Nonce: "N"}
		for i := range lease.MaxMembers {
			rec.Holders = append(rec.Holders, lease.Member{Grant: holds.ID() + "." + strconv.FormatInt(int64(i), 36), TTL: lease.MaxTTL, Mode: lease.ModeShared, Token: 1})
		}
		value, err := lease.Encode(rec)
		must(t, err)
		put(t, st, "job", value)
		s := opened(t, st)
		for _, o := range []lease.LockOptions{{Shared: true}, {Fair: true}} {
			if g, err := with(t, s, "job", o).Acquire(t.Context()); !errors.Is(err, lease.ErrFull) {
				t.Errorf("%+v: %v, %v", o, g, err)
			}
		}
		if rec := record(t, st, "job"); len(rec.Holders) != lease.MaxMembers || len(rec.Queue) != 0 {
			t.Errorf("%+v", rec)
		}
	})
}

// A break ends all holders. No client joins them any more. With Immediate they are removed at once.
func TestBreakOfALockWithSeveralHolders(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		c := client(t, st, nil)
		shared := lease.LockOptions{Shared: true}
		a, b := mustTake(t, with(t, opened(t, st), "job", shared)), mustTake(t, with(t, opened(t, st), "job", shared))
		if _, err := c.Break(t.Context(), "job", a.Token()+7, nil); !errors.Is(err, lease.ErrTokenMismatch) {
			t.Error(err)
		}
		rec, err := c.Break(t.Context(), "job", a.Token(), nil)
		if err != nil || rec.State != lease.Broken || len(rec.Holders) != 2 || rec.Token <= a.Token() {
			t.Fatalf("%+v, %v", rec, err)
		}
		wantHeldBy(t, with(t, opened(t, st), "job", shared))
		w := acquiring(t, with(t, opened(t, st), "job", lease.LockOptions{Fair: true}))
		_ = a.Release(t.Context())
		if w.over() {
			t.Fatal("taken while a holder is left")
		}
		_ = b.Release(t.Context())
		<-w.done
		if w.err != nil || w.guard.Token() <= rec.Token {
			t.Fatal(w.err)
		}
		mustRelease(t, w.guard)

		mustTake(t, with(t, opened(t, st), "job", shared))
		rec, err = c.Break(t.Context(), "job", w.guard.Token(), &lease.BreakOptions{Immediate: true})
		if err != nil || len(rec.Holders) != 0 {
			t.Fatalf("%+v, %v", rec, err)
		}
		mustRelease(t, mustTry(t, c, "job"))
	})
}

// A break ends the grant of a reader, or of a holder of a slot, that has not noticed it yet: its Do
// returns the loss, as that of a holder alone does.
func TestDoOfABrokenMember(t *testing.T) {
	for name, o := range map[string]lease.LockOptions{"alone": {}, "a reader": {Shared: true}, "a slot": {Slots: 2}} {
		for _, now := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " immediate ", now), func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					breaker := client(t, st, nil)
					err := with(t, opened(t, st), "job", o).Do(t.Context(), func(context.Context, *lease.Guard) error {
						return errOf(breaker.Break(t.Context(), "job", record(t, st, "job").Token, &lease.BreakOptions{Immediate: now}))
					})
					reason := lease.ErrBroken
					if now && name != "alone" { // the record does not say why
						reason = lease.ErrTakenOver
					}
					if !errors.Is(err, lease.ErrLost) || !errors.Is(err, reason) {
						t.Errorf("Do returns %v; want %v", err, reason)
					}
					wantState(t, breaker, "job", lease.Free)
				})
			})
		}
	}
}

// A session is closed while another client requests its lock, while a reader under it wants to be
// the writer, and while a lock is handed over to it. It holds nothing and waits for nothing after
// that: the requesting client has its answer, and the next in the queue has the lock.
func TestCloseDuringRequestUpgradeAndHandOver(t *testing.T) {
	for _, f := range []fault{pass, drop, lose, hang, hangLate} {
		t.Run(string(f), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				fair, shared := lease.LockOptions{Fair: true}, lease.LockOptions{Shared: true}
				other := opened(t, st)
				held := mustTake(t, with(t, other, "fair", fair))
				w := newWire(st)
				s := open(t, client(t, w, nil))
				mustTake(t, with(t, s, "asked", fair))
				mustTake(t, with(t, s, "doc", shared))
				upgrade := acquiring(t, with(t, s, "doc", fair))
				head := acquiring(t, with(t, s, "fair", fair))
				next := acquiring(t, with(t, opened(t, st), "fair", fair))
				var asked lease.YieldStatus
				answered := make(chan error, 1)
				go func() {
					var err error
					asked, err = client(t, st, nil).RequestYield(t.Context(), "asked", &lease.YieldOptions{Wait: true})
					answered <- err
				}()
				synctest.Wait()
				script, _ := nthOf("lock/fair", 1, f)
				w.set(func(op *store.Op) fault {
					if op.Kind == store.OpWatch {
						return hang // it gets no reply about the hand-over before it is closed
					}
					return script(op)
				})
				mustRelease(t, held) // hands the lock over
				if rec := record(t, st, "fair"); rec.State != lease.Held || rec.Session != s.ID() || len(rec.Queue) != 1 {
					t.Fatalf("%+v", rec)
				}
				_ = s.Close(t.Context()) // it returns the error of a write that failed
				for what, a := range map[string]*pending{"an upgrade": upgrade, "a hand-over": head} {
					<-a.done
					if a.err == nil && a.guard.Err() == nil || a.err != nil && !errors.Is(a.err, lease.ErrClosed) {
						t.Errorf("%s ends with %v", what, a.err)
					}
				}
				if err := <-answered; err != nil || !asked.GrantEnded {
					t.Errorf("the requesting client gets %+v, %v", asked, err)
				}
				<-next.done
				if next.err != nil || next.took > expiry+soon {
					t.Errorf("the next in the queue, after %v: %v", next.took, next.err)
				}
				mustRelease(t, next.guard)
				w.after.Wait()
				synctest.Wait()
				time.Sleep(2 * ttl)
				c := client(t, st, nil)
				for _, name := range []string{"asked", "doc", "fair"} {
					mustRelease(t, mustTry(t, c, name))
					if rec := record(t, st, name); rec.State != lease.Free || len(rec.Holders)+len(rec.Queue) > 0 {
						t.Errorf("%s: %+v", name, rec)
					}
				}
			})
		})
	}
}

// A client that requests readers to yield waits for all of them, and gets its answer when the last
// of them has left or is dead. A living reader does not count as dead because the record is
// unchanged.
func TestRequestToReaders(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		g := mustTake(t, with(t, opened(t, st), "job", lease.LockOptions{Shared: true}))
		mustTake(t, with(t, dies(t, st), "job", lease.LockOptions{Shared: true}))
		done := make(chan error)
		go func() {
			_, err := client(t, st, nil).RequestYield(t.Context(), "job", &lease.YieldOptions{Reason: "maintenance", Wait: true})
			done <- err
		}()
		select {
		case <-g.YieldRequested():
		case err := <-done:
			t.Fatal(err)
		}
		time.Sleep(4 * ttl)
		select {
		case err := <-done:
			t.Fatalf("over while a reader lives: %v", err)
		default:
		}
		if asked, ok := g.YieldRequest(); !ok || asked.Reason != "maintenance" {
			t.Errorf("%+v, %v", asked, ok)
		}
		mustRelease(t, g)
		report(t, <-done)
	})
}

// What it costs: a reader, a slot and a place in an empty queue what a lock costs.
func TestMembersRequests(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		w := newWire(st)
		c := client(t, w, nil)
		s := open(t, c)
		want := func(what string, n int) {
			t.Helper()
			if got := w.requests(); got != n {
				t.Errorf("%s took %d requests; want %d", what, got, n)
			}
		}
		mustRelease(t, mustTry(t, c, "plain"))
		plain := w.requests()
		for _, o := range []lease.LockOptions{{Shared: true}, {Slots: 3}, {Fair: true}} {
			mustRelease(t, mustTake(t, with(t, s, fmt.Sprint(o), o)))
			want(fmt.Sprintf("%+v, acquired and released", o), plain-1) // the session is there already
		}
	})
}

// However many wait through one client, a hand-over takes three requests: the write of the release,
// which makes the head the holder; the read of the head; and the first read of the next waiter, who
// then reads for all. A holder that releases at once comes before some of these reads, and takes
// fewer.
func TestHandOverRequestsOfOneClient(t *testing.T) {
	const way = 5 * time.Millisecond // of a request, and of its reply
	for _, waiters := range []int{5, 50} {
		for _, work := range []time.Duration{0, time.Second} {
			bubble(t, func(t *testing.T, st store.Store) {
				var requests atomic.Int64 // for the lock
				slow := store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
					if op.Kind == store.OpWatch || op.Key != "lock/job" {
						return next(ctx, op)
					}
					requests.Add(1)
					time.Sleep(way)
					defer time.Sleep(way)
					return next(ctx, op)
				})
				fair := lease.LockOptions{Fair: true}
				s := open(t, client(t, slow, nil))
				g := mustTake(t, with(t, s, "job", fair))
				var all []*pending
				for range waiters {
					all = append(all, acquiring(t, with(t, s, "job", fair)))
					time.Sleep(time.Second) // it is in the queue
				}
				requests.Store(0)
				mustRelease(t, g)
				for _, a := range all {
					<-a.done
					if a.err != nil {
						t.Fatal(a.err)
					}
					time.Sleep(work)
					mustRelease(t, a.guard)
				}
				// The last release hands nothing over. The first meets the entry of the last
				// waiter, and is sent again; to the last waiter no other follows.
				n := int(requests.Load()) - 1
				if most := 3 * waiters; n > most || work > 0 && n < most {
					t.Errorf("%d hand-overs after %v of work took %d requests, want %d", waiters, work, n, most)
				}
			})
		}
	}
}

// Many read together; a writer has the lock alone, with a higher token.
func ExampleLockOptions_shared() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	session, err := client.OpenSession(ctx)
	if err != nil {
		panic(err)
	}
	one, _ := session.Acquire(ctx, "config", &lease.LockOptions{Shared: true})
	two, _ := session.Acquire(ctx, "config", &lease.LockOptions{Shared: true})
	_, err = session.TryAcquire(ctx, "config", nil)
	fmt.Println(one.Token() == two.Token(), errors.Is(err, lease.ErrHeld))
	_, _ = one.Release(ctx), two.Release(ctx)
	writer, _ := session.Acquire(ctx, "config", nil)
	_, err = session.TryAcquire(ctx, "config", &lease.LockOptions{Shared: true})
	fmt.Println(writer.Token() > one.Token(), errors.Is(err, lease.ErrHeld))
	_ = session.Close(ctx)
	// Output:
	// true true
	// true true
}

// A semaphore of two slots: each holder has one of its own.
func ExampleLockOptions_slots() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	session, err := client.OpenSession(ctx)
	if err != nil {
		panic(err)
	}
	for range 3 {
		handle, _ := session.Handle("gpu", &lease.LockOptions{Slots: 2})
		guard, err := handle.TryAcquire(ctx)
		if err != nil {
			fmt.Println(errors.Is(err, lease.ErrHeld))
			continue
		}
		fmt.Println("slot", guard.Slot())
	}
	_ = session.Close(ctx)
	// Output:
	// slot 1
	// slot 2
	// true
}

// The number of slots is changed by a call of its own. A client that names another number gets an
// error.
func ExampleClient_Resize() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	session, err := client.OpenSession(ctx)
	if err != nil {
		panic(err)
	}
	two, _ := session.Handle("gpu", &lease.LockOptions{Slots: 2})
	guard, _ := two.Acquire(ctx)
	_, err = client.Resize(ctx, "gpu", 3)
	fmt.Println(err)
	_ = guard.Release(ctx)
	_, err = two.TryAcquire(ctx)
	fmt.Println(err)
	_ = session.Close(ctx)
	// Output:
	// <nil>
	// semaphore "gpu" has 3 slots, but the caller gives 2; give the same number, or resize the semaphore
}

// A fair handle enters the lock's queue and has the lock in the order of arrival.
func ExampleLockOptions_fair() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	session, err := client.OpenSession(ctx)
	if err != nil {
		panic(err)
	}
	fair, err := session.Handle("printer", &lease.LockOptions{Fair: true})
	if err != nil {
		panic(err)
	}
	err = fair.Do(ctx, func(ctx context.Context, g *lease.Guard) error {
		fmt.Println("printing")
		return nil
	})
	fmt.Println(err)
	_ = session.Close(ctx)
	// Output:
	// printing
	// <nil>
}

package lease_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// round is what happened while many programs wanted one lock in turns.
type round struct {
	handed      int           // hand-overs
	looks       float64       // for each: reads of the lock's record,
	writes      float64       // writes of it,
	sessions    float64       // and reads of sessions' records
	idle, worst time.Duration // median and most, from the end of the work until the next one begins
	least, most int           // grants of one program
	entry       time.Duration // the longest time until a program was in the queue for the first time
}

func (r round) String() string {
	return fmt.Sprintf("%d hand-overs, each with %.1f reads, %.1f writes and %.2f reads of sessions; idle for %v (at most %v); from %d to %d for a program, all in the queue after %v",
		r.handed, r.looks, r.writes, r.sessions, r.idle, r.worst, r.least, r.most, r.entry)
}

// turns lets programs with a session each take turns at a fair lock, and reports on the time after
// they have all come. They reach the store by reach. With the same seed, they do the same if each has its own
// delays.
func turns(t *testing.T, seed uint64, programs int, work, come, span time.Duration, reach func(store.Store, uint64) store.Store) (r round) {
	bubble(t, func(t *testing.T, st store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var (
			mu     sync.Mutex
			ended  time.Time
			idle   []time.Duration
			counts = map[bool]map[bool]int{true: {}, false: {}} // of locks or not, by whether they write
			grants = make([]int, programs)
			wrote  = make([]bool, programs)
			began  = time.Now()
			all    sync.WaitGroup
		)
		for i := range programs {
			w := newWire(store.Intercept(reach(st, seed+uint64(i)), func(ctx context.Context, op *store.Op, next store.Handler) error {
				err := next(ctx, op)
				mu.Lock()
				defer mu.Unlock()
				if op.Key == "lock/job" && op.Kind.Write() && err == nil && !wrote[i] {
					wrote[i], r.entry = true, time.Since(began)
				}
				return err
			}))
			w.set(func(op *store.Op) fault {
				mu.Lock()
				defer mu.Unlock()
				if op.Kind != store.OpWatch {
					counts[op.Key == "lock/job"][op.Kind.Write()]++
				}
				return pass
			})
			c := client(t, w, nil)
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			lease.SetRandom(c, func() float64 {
				mu.Lock()
				defer mu.Unlock()
				return random.Float64()
			})
			h := with(t, open(t, c), "job", lease.LockOptions{Fair: true})
			all.Go(func() {
				for ctx.Err() == nil {
					g, err := h.Acquire(ctx)
					if err != nil {
						return
					}
					mu.Lock()
					if !ended.IsZero() {
						idle = append(idle, time.Since(ended))
					}
					grants[i]++
					mu.Unlock()
					time.Sleep(work)
					mu.Lock()
					ended = time.Now()
					mu.Unlock()
					report(t, g.Release(context.WithoutCancel(ctx)))
				}
			})
		}
		time.Sleep(come)
		mu.Lock()
		clear(counts[true])
		clear(counts[false])
		clear(grants)
		idle = nil
		mu.Unlock()
		time.Sleep(span)
		mu.Lock()
		r.handed = len(idle)
		n := float64(max(1, r.handed))
		r.looks, r.writes, r.sessions = float64(counts[true][false])/n, float64(counts[true][true])/n, float64(counts[false][false])/n
		slices.Sort(idle)
		r.idle, r.worst = idle[len(idle)/2], idle[len(idle)-1]
		r.least, r.most = slices.Min(grants), slices.Max(grants)
		mu.Unlock()
		cancel()
		all.Wait()
	})
	return r
}

// nearTo is st on the same machine: it reports changes, and a request takes up to a millisecond.
func nearTo(st store.Store, seed uint64) store.Store {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 2))
	return store.Intercept(st, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if op.Kind != store.OpWatch {
			mu.Lock()
			d := time.Duration(random.Int64N(int64(time.Millisecond / 2)))
			mu.Unlock()
			time.Sleep(d)
			defer time.Sleep(d)
		}
		return next(ctx, op)
	})
}

func farFrom(st store.Store, seed uint64) store.Store { return remoteOf(st, seed) }

// Forty programs take turns at a lock, and each comes back at once. A hand-over costs three
// requests: the release, the read of the next one, and the entry of the one that comes back. That
// entry makes one of these writes conflict. A few reads of those near the head come on top. All
// have their turn, and the lock is not idle because the next one does not read.
func TestHandOverRequests(t *testing.T) {
	for _, c := range []struct {
		name       string
		reach      func(store.Store, uint64) store.Store
		work       time.Duration
		come, span time.Duration
		worst      time.Duration
	}{
		{"a store that pushes", nearTo, 100 * time.Millisecond, 5 * time.Second, 10 * time.Second, 50 * time.Millisecond},
		{"a store that polls, short work", farFrom, time.Millisecond, 10 * time.Second, 30 * time.Second, lease.DefaultMaxPoll / 2},
		{"a store that polls, long work", farFrom, 100 * time.Millisecond, 10 * time.Second, 30 * time.Second, lease.DefaultMaxPoll / 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := turns(t, 1, 40, c.work, c.come, c.span, c.reach)
			t.Log(r)
			if r.looks > 16 || r.writes > 4 || r.sessions > 2 {
				t.Errorf("a hand-over takes %.1f reads, %.1f writes and %.2f reads of sessions", r.looks, r.writes, r.sessions)
			}
			if r.most-r.least > 2 || r.least == 0 {
				t.Errorf("from %d to %d grants for a program", r.least, r.most)
			}
			if r.worst > c.worst {
				t.Errorf("the lock lay idle for %v", r.worst)
			}
		})
	}
}

// TestNewcomersSoonEnterAQueue: forty programs come to a fair queue at once, and each turn of the lock is short. No program
// stays out of the queue for long, whatever its writes conflict with.
func TestNewcomersSoonEnterAQueue(t *testing.T) {
	for _, seed := range []uint64{214_000, 223_000, 236_000, 262_000} {
		if r := turns(t, seed, 40, time.Millisecond, time.Second, 13*time.Second, farFrom); r.entry > 7*time.Second {
			t.Errorf("seed %d: %v", seed, r)
		}
	}
}

// A waiter that is handed the lock by another client uses it only when that client's write survives a power
// cut: otherwise a later grant could get the same token.
func TestHandedOverLockIsDurable(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		st = described{st, store.Traits{Local: true, ReadsUnsynced: true}}
		held, err := with(t, open(t, client(t, st, nil)), "job", lease.LockOptions{Fair: true}).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := newWire(st)
		var mu sync.Mutex
		released, durable := false, false
		w.set(func(op *store.Op) fault {
			mu.Lock()
			defer mu.Unlock()
			durable = durable || released && op.Kind == store.OpResolve && op.Key == "lock/job"
			return pass
		})
		next := with(t, open(t, client(t, w, nil)), "job", lease.LockOptions{Fair: true})
		time.AfterFunc(time.Minute, func() {
			mu.Lock()
			released = true
			mu.Unlock()
			mustRelease(t, held)
		})
		got, err := next.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if !durable {
			t.Error("the waiter used the lock, and did not make the write of the other client durable")
		}
		mu.Unlock()
		mustRelease(t, got)
	})
}

// wakes is a store that wakes single waiters, and loses those wake-ups for which lost returns true.
type wakes struct {
	store.Store
	mu    sync.Mutex
	calls map[string]func()
	lost  func() bool
}

// Unwrap lets the abilities through.
func (w *wakes) Unwrap() store.Store { return w.Store }

func (w *wakes) ExpectWake(_ context.Context, name string, wake func()) (end func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[name] = wake
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.calls, name)
	}, nil
}

func (w *wakes) Wake(_ context.Context, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if wake := w.calls[name]; wake != nil && !w.lost() {
		wake()
	}
}

// Where the store wakes single waiters, a hand-over costs few reads. A wake-up that is lost, or that an
// earlier version does not send, costs time alone.
func TestWakeUps(t *testing.T) {
	n := 0
	for _, c := range []struct {
		name  string
		lost  func() bool
		old   bool // half of the programs know no wake-ups
		looks float64
		worst time.Duration
	}{
		{"all arrive", func() bool { return false }, false, 3, 10 * time.Millisecond},
		{"every third is lost", func() bool { n++; return n%3 == 0 }, false, 5, lease.DefaultMaxPoll},
		{"all are lost", func() bool { return true }, false, 16, lease.DefaultMaxPoll},
		{"an earlier version is among them", func() bool { return false }, true, 16, lease.DefaultMaxPoll},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all *wakes
			r := turns(t, 1, 40, 100*time.Millisecond, 10*time.Second, 20*time.Second, func(st store.Store, seed uint64) store.Store {
				if all == nil {
					all = &wakes{Store: st, calls: map[string]func(){}, lost: c.lost}
				}
				if c.old && seed%2 == 1 {
					return nearTo(st, seed)
				}
				return nearTo(all, seed)
			})
			t.Log(r)
			if r.looks > c.looks || r.writes > 4 || r.sessions > 2 {
				t.Errorf("a hand-over takes %.1f reads, %.1f writes and %.2f reads of sessions", r.looks, r.writes, r.sessions)
			}
			if r.most-r.least > 2 || r.least == 0 || r.worst > c.worst {
				t.Errorf("from %d to %d grants for a program; the lock was idle for %v", r.least, r.most, r.worst)
			}
		})
	}
}

// One that was handed the lock and is dead is waited for no longer than any other holder; and
// when its lock is broken with immediate effect, the next one has it at once.
func TestDeadHeadDelaysTheQueueByOneTTL(t *testing.T) {
	fair := lease.LockOptions{Fair: true}
	for name, reach := range map[string]func(store.Store) store.Store{
		"a store that pushes": func(st store.Store) store.Store { return st },
		"a store that polls":  func(st store.Store) store.Store { return hidden{st} },
	} {
		for _, breaks := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, broken %v", name, breaks), func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					// All have waited in this queue before, so that they know its speed.
					handles := make([]*lease.Handle, 3)
					wires := make([]*wire, len(handles))
					for i := range handles {
						wires[i] = newWire(reach(st))
						handles[i] = with(t, open(t, client(t, wires[i], nil)), "job", fair)
					}
					var all []*pending
					for range 2 {
						all = nil
						for _, h := range handles {
							all = append(all, acquiring(t, h))
						}
						for _, a := range all {
							<-a.done
							mustRelease(t, a.guard)
						}
					}
					g := mustTake(t, handles[0])
					dead, next := acquiring(t, handles[1]), acquiring(t, handles[2])
					time.Sleep(time.Minute)
					wires[1].set(everything(hang))
					began := time.Now()
					mustRelease(t, g)
					bound := expiry + 2*lease.DefaultMaxPoll
					if breaks {
						time.Sleep(time.Second)
						must(t, errOf(client(t, st, nil).Break(t.Context(), "job", record(t, st, "job").Token, &lease.BreakOptions{Immediate: true})))
						bound = time.Second + time.Millisecond
						if name == "a store that polls" {
							bound += lease.DefaultMaxPoll / 2
						}
					}
					<-next.done
					if took := time.Since(began); next.err != nil || took > bound {
						t.Errorf("%v after %v; want it within %v", next.err, took, bound)
					}
					dead.end()
					<-dead.done
					wires[1].set(nil)
				})
			})
		}
	}
}

// A waiter that is far from the head of a slow queue does not sleep for long. When all before it
// leave at one time, it has the lock as soon as a waiter whose store reports no changes.
func TestAllBeforeAWaiterLeave(t *testing.T) {
	const waiters = 22
	for name, reach := range map[string]func(store.Store, uint64) store.Store{"a store that pushes": nearTo, "a store that polls": farFrom} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				queue := make([]*pending, waiters)
				next := func(i int) *lease.Handle {
					return with(t, open(t, client(t, reach(st, uint64(i)), nil)), "job", lease.LockOptions{Fair: true})
				}
				g := mustTake(t, next(waiters))
				for i := range queue {
					queue[i] = acquiring(t, next(i))
					time.Sleep(2 * time.Second)
				}
				for range 5 { // it comes forward slowly
					time.Sleep(20 * time.Second)
					mustRelease(t, g)
					<-queue[0].done
					g, queue = queue[0].guard, queue[1:]
				}
				time.Sleep(time.Second)
				last := queue[len(queue)-1]
				for _, a := range queue[:len(queue)-1] {
					a.end()
				}
				for _, a := range queue[:len(queue)-1] {
					<-a.done
				}
				mustRelease(t, g)
				released := time.Now()
				<-last.done
				if idle := time.Since(released); last.err != nil || idle > lease.DefaultMaxPoll+roundTrip {
					t.Errorf("%v; the lock lay idle for %v", last.err, idle)
				}
			})
		})
	}
}

// The network of the head of a queue fails after each of its requests, at once or when two replies
// were lost. The next one has the lock when the head's session is over, whatever it has begun, and
// the reader after that.
func TestHeadDiesAtEachStep(t *testing.T) {
	for _, push := range []bool{true, false} {
		for _, f := range []fault{drop, hang, lose} {
			for n := range 12 {
				t.Run(fmt.Sprintf("push %v, %s after %d", push, f, n), func(t *testing.T) {
					bubble(t, func(t *testing.T, st store.Store) {
						if !push {
							st = hidden{st}
						}
						fair := lease.LockOptions{Fair: true}
						g := mustTake(t, with(t, open(t, client(t, st, nil)), "job", fair))
						w := newWire(st)
						count := 0
						beat := time.Now()
						sess := open(t, client(t, w, nil))
						w.set(func(op *store.Op) fault {
							if op.Kind == store.OpWatch {
								return pass
							}
							if count++; op.Key != "lock/job" && op.Kind.Write() && (count <= n || f == lose && count <= n+2) {
								beat = time.Now()
							}
							if count > n {
								if f == lose && count > n+2 {
									return drop
								}
								return f
							}
							return pass
						})
						dead := acquiring(t, with(t, sess, "job", fair))
						next := acquiring(t, with(t, open(t, client(t, st, nil)), "job", fair))
						last := acquiring(t, with(t, open(t, client(t, st, nil)), "job", lease.LockOptions{Shared: true}))
						time.Sleep(3 * time.Second)
						began := time.Now()
						mustRelease(t, g)
						<-next.done
						if beat.After(began) {
							began = beat
						}
						if took := time.Since(began); next.err != nil || took > expiry+2*lease.DefaultMaxPoll {
							t.Errorf("%v after %v", next.err, took)
						}
						mustRelease(t, next.guard)
						<-last.done
						if last.err != nil || time.Since(began) > 3*expiry {
							t.Errorf("%v after %v", last.err, time.Since(began))
						}
						dead.end()
						<-dead.done
						w.set(nil)
					})
				})
			}
		}
	}
}

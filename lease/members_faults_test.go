package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// A lock is handed over to the head of its queue, and broken before the head has read that. The
// head, whose session lives, does not wait for itself.
func TestHeadOfABrokenQueueDoesNotWaitForItself(t *testing.T) {
	for what, o := range map[string]lease.LockOptions{
		"reader": {Shared: true},
		"writer": {Fair: true},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				holder := opened(t, st)
				g := mustTry(t, holder, "job")
				w := newWire(st)
				s := open(t, client(t, w, nil))
				got := make(chan *lease.Guard, 1)
				h := with(t, s, "job", o)
				go func() {
					g, err := h.Acquire(t.Context())
					report(t, err)
					got <- g
				}()
				time.Sleep(time.Second)
				if rec := wantState(t, client(t, st, nil), "job", lease.Held); len(rec.Queue) != 1 {
					t.Fatalf("in the queue: %v", rec.Queue)
				}
				w.set(only(keyed("lock/job"), drop))
				mustRelease(t, g)
				c := client(t, st, nil)
				info, err := c.Inspect(t.Context(), "job")
				must(t, err)
				must(t, errOf(c.Break(t.Context(), "job", info.Record.Token, nil)))
				w.set(nil)
				select {
				case g := <-got:
					mustRelease(t, g)
				case <-time.After(5 * ttl):
					info, _ := c.Inspect(t.Context(), "job")
					t.Fatalf("the head still waits: %+v", info.Record)
				}
			})
		})
	}
}

// A TryAcquire that ends in the midst of others leaves nothing behind: neither an entry in the
// record nor a claim that the session waits for when it is closed.
func TestCancelledSharedTryLeavesNothing(t *testing.T) {
	for _, last := range []fault{pass, lose} {
		t.Run("the last write: "+string(last), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				s := open(t, client(t, w, nil))
				other := opened(t, st)
				var guard *lease.Guard
				toggle := func() {
					var err error
					if guard != nil {
						err, guard = guard.Release(t.Context()), nil
					} else {
						guard, err = other.TryAcquire(t.Context(), "job", &lease.LockOptions{Shared: true})
					}
					report(t, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				writes := 0
				w.set(func(op *store.Op) fault {
					switch {
					case op.Key != "lock/job":
					case op.Kind.Write():
						if writes++; writes < 3 || last == pass && writes == 3 {
							toggle()
						}
						if writes == 3 && last == pass {
							time.AfterFunc(1, cancel) // in the pause that follows
						} else if writes == 3 {
							return last
						}
					case writes == 3:
						writes++
						toggle()
						time.AfterFunc(1, cancel)
					}
					return pass
				})
				g, err := s.TryAcquire(ctx, "job", &lease.LockOptions{Shared: true})
				t.Logf("%v, %v after %d writes", g, err, writes)
				if err == nil {
					mustRelease(t, g)
				}
				w.set(nil)
				if guard != nil {
					toggle()
				}
				time.Sleep(ttl)
				third := opened(t, st)
				mustRelease(t, mustTry(t, third, "job"))
				began := time.Now()
				report(t, s.Close(t.Context()))
				if took := time.Since(began); took > time.Second {
					t.Errorf("Close took %v", took)
				}
			})
		})
	}
}

// faultWrites lets the next three writes of the lock job suffer what, and counts them.
func (w *wire) faultWrites(what fault) (met *int) {
	met = new(int)
	w.set(func(op *store.Op) fault {
		if op.Key == "lock/job" && op.Kind.Write() && *met < 3 {
			*met++
			return what
		}
		return pass
	})
	return met
}

// A waiter takes over what another goroutine of its client has seen, which may be older than its
// own entry in the queue. When it gives up then, and its write is refused for certain, it tries
// again: its entry does not stay in the record, where it would hold the lock for as long as its
// session lives.
func TestRefusedDepartureIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		st = hidden{st} // no reads except those of this test
		holder := mustTry(t, client(t, st, nil), "job")
		w := newWire(st)
		s := open(t, client(t, w, nil))
		reader := with(t, s, "job", lease.LockOptions{Shared: true})
		wantHeldBy(t, reader)
		time.Sleep(time.Millisecond)
		first := acquiring(t, with(t, s, "job", lease.LockOptions{}))
		second := acquiring(t, reader)
		if rec := record(t, st, "job"); len(rec.Queue) != 1 {
			t.Fatalf("%d wait in the queue; want 1", len(rec.Queue))
		}
		refused := w.faultWrites(fail)
		first.end()
		<-first.done
		synctest.Wait()
		second.end()
		<-second.done
		mustRelease(t, holder)
		time.Sleep(3 * ttl)
		if rec := record(t, st, "job"); *refused == 0 || s.Err() != nil || len(rec.Queue)+len(rec.Holders) > 0 {
			t.Errorf("%d writes were refused, the session: %v; the record names %v and %v", *refused, s.Err(), rec.Holders, rec.Queue)
		}
	})
}

// A waiter in the queue takes a dead one out of it, and its write is refused, or its outcome is not
// known. The waiter keeps its entry: an entry that it forgot would hold the lock in its turn, for
// as long as its session lives.
func TestWaiterKeepsItsEntry(t *testing.T) {
	for _, what := range []fault{fail, drop, lose, hang} {
		t.Run(string(what), func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				fair := lease.LockOptions{Fair: true}
				holder := mustTake(t, with(t, opened(t, st), "job", fair))
				dead := acquiring(t, with(t, dies(t, st), "job", fair))
				w := newWire(st)
				s := open(t, client(t, w, nil))
				waiter := acquiring(t, with(t, s, "job", fair))
				met := w.faultWrites(what)
				time.Sleep(4 * ttl)
				synctest.Wait()
				rec := record(t, st, "job")
				if *met == 0 || len(rec.Queue) != 1 || rec.Queue[0].Session != s.ID() {
					t.Errorf("after %d faults the queue is %v; want one entry, of session %s", *met, rec.Queue, s.ID())
				}
				mustRelease(t, holder)
				<-waiter.done
				if waiter.err != nil {
					t.Fatal(waiter.err)
				}
				mustRelease(t, waiter.guard)
				if rec := record(t, st, "job"); rec.State != lease.Free || len(rec.Queue) > 0 {
					t.Errorf("the lock is %s, and its queue %v", rec.State, rec.Queue)
				}
				dead.end()
				<-dead.done
			})
		})
	}
}

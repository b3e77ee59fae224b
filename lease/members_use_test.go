package lease_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// wantUntaken checks that the record of a lock names no holder and no waiter.
func wantUntaken(t *testing.T, st store.Store, names ...string) {
	t.Helper()
	for _, name := range names {
		if rec := record(t, st, name); rec.State != lease.Free || len(rec.Holders)+len(rec.Queue) > 0 {
			t.Errorf("%q is %s, held by %v, waited for by %v; want it free", name, rec.State, rec.Holders, rec.Queue)
		}
	}
}

// Do with NoWait of a reader, of a slot and of a fair handle runs its function where the lock has room for
// another such holder. Where it has none, the function does not run, the error is a HeldError,
// and the record names no entry of the member that tried.
func TestDoOfMembersWithoutWait(t *testing.T) {
	for what, tt := range map[string]struct {
		o      lease.LockOptions
		beside lease.LockOptions // of a holder that leaves room
		in     lease.LockOptions // of one that is in the way
		slot   int
	}{
		"reader": {o: lease.LockOptions{Shared: true}, beside: lease.LockOptions{Shared: true}},
		"slot":   {o: lease.LockOptions{Slots: 2}, beside: lease.LockOptions{Slots: 2}, in: lease.LockOptions{Slots: 2}, slot: 2},
		"fair":   {o: lease.LockOptions{Fair: true}, in: lease.LockOptions{Fair: true}},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				s, other := opened(t, st), opened(t, st)
				now := tt.o
				now.NoWait = true
				var others []*lease.Guard
				if tt.beside != (lease.LockOptions{}) {
					others = append(others, mustTake(t, with(t, other, "job", tt.beside)))
				}
				ran := 0
				f := func(ctx context.Context, g *lease.Guard) error {
					ran++
					if g.Slot() != tt.slot || g.Err() != nil || ctx.Err() != nil {
						t.Errorf("slot %d, want %d; %v, %v", g.Slot(), tt.slot, g.Err(), ctx.Err())
					}
					return errWork
				}
				if err := s.Do(t.Context(), "job", f, &now); !errors.Is(err, errWork) || ran != 1 {
					t.Errorf("Do: %v, ran %d times", err, ran)
				}
				if rec := record(t, st, "job"); len(rec.Holders) != len(others) || len(rec.Queue) != 0 {
					t.Errorf("after Do the record names %v and %v", rec.Holders, rec.Queue)
				}
				if tt.o.Shared {
					mustRelease(t, others[0]) // a writer is in the way of readers
					others = nil
				}
				others = append(others, mustTake(t, with(t, other, "job", tt.in)))
				var held *lease.HeldError
				if err := s.Do(t.Context(), "job", f, &now); !errors.As(err, &held) || ran != 1 {
					t.Errorf("Do of a lock without room: %v, ran %d times", err, ran)
				}
				for _, g := range others {
					mustRelease(t, g)
				}
				wantUntaken(t, st, "job")
			})
		})
	}
}

// All takes readers, slots and fair handles together. Of locks of which one has no room for
// another holder TryAcquireAll takes none, and enters no queue.
func TestAcquireAllOfReadersSlotsAndQueues(t *testing.T) {
	bubble(t, func(t *testing.T, st store.Store) {
		handles := func(s *lease.Session) []*lease.Handle {
			return []*lease.Handle{
				with(t, s, "table", lease.LockOptions{Shared: true}),
				with(t, s, "pool", lease.LockOptions{Slots: 2}),
				with(t, s, "queue", lease.LockOptions{Fair: true}),
			}
		}
		a, b := opened(t, st), opened(t, st)
		set, err := lease.AcquireAll(t.Context(), handles(a)...)
		must(t, err)
		if slot := set.Guard("pool").Slot(); slot != 1 || set.Guard("table").Token() == 0 {
			t.Errorf("slot %d, %v", slot, set.Guards())
		}
		if again, err := lease.TryAcquireAll(t.Context(), handles(b)...); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("TryAcquireAll beside a holder of the third: %v, %v", again, err)
		}
		for _, name := range []string{"table", "pool", "queue"} {
			if rec := record(t, st, name); slices.ContainsFunc(slices.Concat(rec.Holders, rec.Queue), func(m lease.Member) bool { return m.Session == b.ID() }) {
				t.Errorf("after TryAcquireAll %q names the one who tried: %v, %v", name, rec.Holders, rec.Queue)
			}
		}
		// AcquireAll waits for the third, and holds the other slots that the first set left.
		waiting := make(chan *lease.GuardSet)
		go func() {
			set, err := lease.AcquireAll(t.Context(), handles(b)...)
			report(t, err)
			waiting <- set
		}()
		synctest.Wait()
		if rec := record(t, st, "pool"); len(rec.Holders) != 2 {
			t.Errorf("%d slots are held; want 2", len(rec.Holders))
		}
		report(t, set.Release(t.Context()))
		set = <-waiting
		if set.Err() != nil || set.Guard("pool").Slot() != 2 {
			t.Errorf("%v, slot %d", set.Err(), set.Guard("pool").Slot())
		}
		// When the session is lost, so is the set, whatever it holds.
		report(t, b.Close(t.Context()))
		if !errors.Is(set.Err(), lease.ErrClosed) || set.Context().Err() == nil {
			t.Errorf("a set under a closed session: %v", set.Err())
		}
		_ = set.Release(t.Context())
		wantUntaken(t, st, "table", "pool", "queue")
	})
}

// The head of a queue that became a holder believes so only after it has read that. When its first
// reads fail it continues to read, and holds the lock when the store answers. When it gives up
// before, the lock goes to the next in the queue, and is not held for as long as the head's session
// lives.
func TestHeadWhoseFirstReadFails(t *testing.T) {
	for what, pushes := range map[string]bool{"the store tells of changes": true, "waiters poll": false} {
		for _, tt := range []struct {
			name    string
			fault   fault
			givesUp bool
		}{
			{"reads fail for a while", fail, false},
			{"reads hang for a while", hang, false},
			{"it gives up", fail, true},
			{"it gives up and cannot leave", drop, true},
		} {
			t.Run(what+"/"+tt.name, func(t *testing.T) {
				bubble(t, func(t *testing.T, st store.Store) {
					if !pushes {
						st = hidden{st}
					}
					fair := lease.LockOptions{Fair: true}
					holder := mustTake(t, with(t, opened(t, st), "job", fair))
					w := newWire(st)
					s := open(t, client(t, w, nil))
					head := acquiring(t, with(t, s, "job", fair))
					next := acquiring(t, with(t, opened(t, st), "job", fair))
					time.Sleep(time.Second)
					if rec := record(t, st, "job"); len(rec.Queue) != 2 {
						t.Fatalf("%d wait; want 2", len(rec.Queue))
					}
					looks := 0
					w.set(func(op *store.Op) fault {
						if op.Key != "lock/job" || op.Kind == store.OpWatch || tt.fault == fail && op.Kind.Write() {
							return pass
						}
						looks++
						return tt.fault
					})
					mustRelease(t, holder)
					time.Sleep(2 * ttl)
					if rec := record(t, st, "job"); head.over() || looks == 0 || rec.State != lease.Held || rec.Session != s.ID() {
						t.Fatalf("%d reads, %v; the lock is %s under session %s", looks, head.err, rec.State, rec.Session)
					}
					if next.over() {
						t.Fatalf("the next one has the lock: %v", next.err)
					}
					if tt.givesUp {
						head.end()
						<-head.done
						if !errors.Is(head.err, context.Canceled) {
							t.Errorf("the one that gave up: %v", head.err)
						}
						w.set(nil)
					} else {
						w.set(nil)
						<-head.done
						if head.err != nil || head.guard.Token() != record(t, st, "job").Token {
							t.Fatalf("%v", head.err)
						}
						mustRelease(t, head.guard)
					}
					<-next.done
					if next.err != nil || s.Err() != nil {
						t.Fatalf("%v, %v", next.err, s.Err())
					}
					mustRelease(t, next.guard)
					wantUntaken(t, st, "job")
				})
			})
		}
	}
}

// A waiter for a semaphore continues to wait when the semaphore gets another number of slots than
// the waiter names, and does not set it back.
func TestResizeKeepsTheQueue(t *testing.T) {
	for name, fair := range map[string]bool{"fair": true, "not fair": false} {
		t.Run(name, func(t *testing.T) { resizeBesideWaiters(t, lease.LockOptions{Slots: 2, Fair: fair}) })
	}
}

func resizeBesideWaiters(t *testing.T, o lease.LockOptions) {
	bubble(t, func(t *testing.T, st store.Store) {
		first, second := mustTake(t, with(t, opened(t, st), "job", o)), mustTake(t, with(t, opened(t, st), "job", o))
		waits := acquiring(t, with(t, opened(t, st), "job", o))
		time.Sleep(time.Second)
		last := acquiring(t, with(t, opened(t, st), "job", o))
		time.Sleep(time.Second)
		must(t, errOf(client(t, st, nil).Resize(t.Context(), "job", 1)))
		time.Sleep(2 * ttl)
		if waits.over() {
			t.Fatalf("the wait has ended: %v", waits.err)
		}
		mustRelease(t, first)
		time.Sleep(time.Second)
		if waits.over() {
			t.Fatal("two hold the one slot")
		}
		mustRelease(t, second)
		one, other := waits.done, last.done
		for range 2 { // in any order, if the semaphore is not fair
			w := waits
			select {
			case <-one:
				one = nil
			case <-other:
				w, other = last, nil
			}
			if w.err != nil {
				t.Fatal(w.err)
			}
			mustRelease(t, w.guard)
		}
		h := with(t, opened(t, st), "job", o)
		if _, err := h.TryAcquire(t.Context()); !errors.Is(err, lease.ErrSlotCount) {
			t.Errorf("one that did not wait: %v", err)
		}
		if rec := record(t, st, "job"); rec.Slots != 1 {
			t.Errorf("%d slots; want 1", rec.Slots)
		}
	})
}

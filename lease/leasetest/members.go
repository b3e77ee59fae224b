package leasetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// memberCases are the rules of locks with several holders, and of their queues.
func memberCases() []testCase {
	return []testCase{
		{"Readers", "Several readers hold a lock at the same time, but a writer holds it alone. While a writer waits, no new reader gets the lock. The writer's token is higher than the readers' token.", caseReaders},
		{"Slots", "A semaphore never has more holders than slots, and no slot has two holders. Every waiter gets a slot in the end.", caseSlots},
		{"Fair", "Waiters in the queue get the lock in the order of their arrival. If a waiter gives up, the next waiter gets the lock.", caseFair},
		{"DeadReader", "If a reader's session is not renewed, other clients remove this reader in time. Living readers keep the lock.", caseDeadReader},
	}
}

// opened returns a session on one of the two handles on the space.
func (e *env) opened(st store.Store, change func(*lease.Options)) *lease.Session {
	return e.session(e.client(st, change))
}

func (e *env) with(s *lease.Session, o lease.LockOptions) *lease.Handle {
	h, err := s.Handle(job, &o)
	e.Must("Handle", err)
	return h
}

func (e *env) take(h *lease.Handle) *lease.Guard {
	g, err := h.TryAcquire(e.ctx)
	e.Must("TryAcquire", err)
	return g
}

// refused checks that a handle cannot take its lock now.
func (e *env) refused(h *lease.Handle) {
	if g, err := h.TryAcquire(e.ctx); !errors.Is(err, lease.ErrHeld) {
		e.Fatalf("TryAcquire of a lock with other holders returned the guard %v and the error %v, want ErrHeld", g, err)
	}
}

// queued waits until the queue has so many entries.
func (e *env) queued(n int) {
	c := e.client(e.b, nil)
	for {
		info, err := c.Inspect(e.ctx, job)
		e.Must("Inspect", err)
		if len(info.Record.Queue) >= n {
			return
		}
		e.pause(e.TTL / 50)
	}
}

func caseReaders(e *env) {
	a, b := e.opened(e.a, nil), e.opened(e.b, nil)
	shared := lease.LockOptions{Shared: true}
	one, two := e.take(e.with(a, shared)), e.take(e.with(b, shared))
	if one.Token() != two.Token() {
		e.Errorf("two readers have the tokens %d and %d, want the same token", one.Token(), two.Token())
	}
	e.refused(e.with(b, lease.LockOptions{}))
	var writer *lease.Guard
	var waits sync.WaitGroup
	h := e.with(b, lease.LockOptions{})
	waits.Go(func() {
		var err error
		writer, err = h.Acquire(e.ctx)
		e.OK("Acquire", err)
	})
	defer waits.Wait()
	e.queued(1)
	e.refused(e.with(a, shared))
	e.release(one)
	e.release(two)
	waits.Wait()
	if writer == nil {
		return
	}
	e.holds(writer)
	e.higher(writer.Token(), one.Token())
	e.refused(e.with(a, shared))
	e.release(writer)
	e.state(job, lease.Free)
}

func caseSlots(e *env) {
	sessions := []*lease.Session{e.opened(e.a, nil), e.opened(e.b, nil)}
	const slots = 2
	waits := store.TraitsOf(e.a).Delayed()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		held = map[int]bool{}
		had  = map[uint64]bool{}
	)
	for i := range e.Contenders {
		h := e.with(sessions[i%2], lease.LockOptions{Slots: slots, Fair: i%3 == 0})
		all.Go(func() {
			err := h.Do(e.ctx, func(_ context.Context, g *lease.Guard) error {
				mu.Lock()
				if held[g.Slot()] || g.Slot() < 1 || g.Slot() > slots || had[g.Token()] {
					e.Errorf("a client got slot %d with token %d, while the held slots are %v", g.Slot(), g.Token(), held)
				}
				held[g.Slot()], had[g.Token()] = true, true
				mu.Unlock()
				time.Sleep(e.TTL / 100)
				mu.Lock()
				delete(held, g.Slot())
				mu.Unlock()
				return nil
			})
			// On a store that lets writes wait, a release that conflicts with others' writes may
			// have no time for another write.
			if err != nil && !(waits && errors.Is(err, lease.ErrReleaseFailed)) {
				e.Errorf("Do: %v", err)
			}
		})
	}
	all.Wait()
	if len(had) != e.Contenders {
		e.Errorf("%d clients got a slot, want %d", len(had), e.Contenders)
	}
	if waits {
		e.untilFree(job, sessions...) // with a renewal a session frees what its holders could not
	}
	if rec := e.state(job, lease.Free); rec.Slots != slots {
		e.Errorf("the record has %d slots, want %d", rec.Slots, slots)
	}
	var other *lease.SlotCountError
	if _, err := e.with(sessions[0], lease.LockOptions{Slots: 3}).TryAcquire(e.ctx); !errors.As(err, &other) {
		e.Errorf("TryAcquire with another number of slots: got the error %v, want a SlotCountError", err)
	}
}

func caseFair(e *env) {
	fair := lease.LockOptions{Fair: true}
	a, b := e.opened(e.a, nil), e.opened(e.b, nil)
	first := e.take(e.with(a, fair))
	const waiters = 4
	order := make(chan int, waiters)
	var all sync.WaitGroup
	defer all.Wait()
	leaving, leave := context.WithCancel(e.ctx)
	defer leave()
	var left sync.WaitGroup
	for i := range waiters {
		s := []*lease.Session{a, b}[i%2]
		h, ctx := e.with(s, fair), e.ctx
		if i == 1 {
			ctx = leaving
			left.Add(1)
		}
		all.Go(func() {
			g, err := h.Acquire(ctx)
			if i == 1 {
				e.WantErr("Acquire whose context ended", err, context.Canceled)
				left.Done()
				return
			}
			if e.OK("Acquire", err) {
				order <- i
				e.OK("Release", g.Release(e.ctx))
			}
		})
		e.queued(i + 1)
	}
	leave()
	left.Wait()
	e.release(first)
	all.Wait()
	close(order)
	last := -1
	for i := range order {
		if i < last {
			e.Errorf("waiter %d got the lock after waiter %d, want the order of arrival", i, last)
		}
		last = i
	}
	if rec := e.state(job, lease.Free); len(rec.Queue) != 0 {
		e.Errorf("the queue still has %d entries", len(rec.Queue))
	}
}

func caseDeadReader(e *env) {
	shared := lease.LockOptions{Shared: true}
	e.take(e.with(e.opened(e.a, e.silent), shared))
	alive := e.take(e.with(e.opened(e.a, nil), shared))
	h := e.with(e.opened(e.b, nil), lease.LockOptions{})
	var waits sync.WaitGroup
	waits.Go(func() {
		if g, err := h.Acquire(e.ctx); e.OK("Acquire", err) {
			e.OK("Release", g.Release(e.ctx))
		}
	})
	defer waits.Wait()
	for c := e.client(e.a, nil); ; {
		info, err := c.Inspect(e.ctx, job)
		e.Must("Inspect", err)
		if len(info.Record.Holders) == 1 {
			break
		}
		e.pause(e.TTL / 10)
	}
	e.Must("the lease of the living reader ended", alive.Err())
	e.release(alive)
}

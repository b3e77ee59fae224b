package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/lease/internal/holding"
	"github.com/holdfast-go/holdfast/store"
)

// GuardSet contains the guards of several locks that are held together.
type GuardSet struct {
	guards    []*Guard
	ctx       context.Context
	end       context.CancelCauseFunc
	stops     []func() bool
	releasing atomic.Bool
	done      chan struct{}
	result    error
}

// AcquireAll takes all of several locks or none. It waits like [Handle.Acquire]. The locks may be
// in different stores, through different clients. AcquireAll takes one lock after the other, in the
// order of their keys, and then in the order of their stores' IDs (see [store.Traits]). Every
// program uses this order. So there is no deadlock between programs that take overlapping sets. If
// a lock is lost while AcquireAll waits for the next one, it releases all locks and starts again.
//
// Two handles on the same lock would be a deadlock. If the two handles have one client, or their
// stores have IDs, AcquireAll returns an error that matches [store.ErrInvalid], and sends no
// request. The same handle may be passed twice.
func AcquireAll(ctx context.Context, handles ...*Handle) (*GuardSet, error) {
	for {
		set, lost, err := all(ctx, handles, (*Handle).Acquire)
		if err == nil || !lost || ctx.Err() != nil {
			return set, err
		}
	}
}

// TryAcquireAll does the same as [AcquireAll] without waiting: it uses
// [Handle.TryAcquire].
func TryAcquireAll(ctx context.Context, handles ...*Handle) (*GuardSet, error) {
	set, _, err := all(ctx, handles, (*Handle).TryAcquire)
	return set, err
}

func all(ctx context.Context, handles []*Handle, acquire func(*Handle, context.Context) (*Guard, error)) (_ *GuardSet, lost bool, _ error) {
	ordered := slices.Clone(handles)
	slices.SortStableFunc(ordered, func(a, b *Handle) int {
		aStore, aKey := a.k.Cell.Register()
		bStore, bKey := b.k.Cell.Register()
		return cmp.Or(cmp.Compare(aKey, bKey), cmp.Compare(aStore, bStore))
	})
	for i, h := range ordered {
		for _, other := range ordered[:i] {
			if other != h && other.k.Cell.Same(&h.k.Cell) {
				return nil, false, fmt.Errorf("%w: the set contains lock %q twice, with two handles that exclude each other; use one handle for each lock", store.ErrInvalid, h.k.Name())
			}
		}
	}
	s := &GuardSet{done: make(chan struct{})}
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, h := range ordered {
		// The wait for the next lock ends when one of those in hand is lost.
		wait, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
		guard, err := acquire(h, wait)
		stop()
		cancel(nil)
		if err == nil {
			s.guards = append(s.guards, guard)
			s.stops = append(s.stops, context.AfterFunc(guard.Context(), func() { s.end(guard.Err()) }))
			err = context.Cause(s.ctx)
		}
		if err != nil {
			lost = s.ctx.Err() != nil
			for _, g := range s.guards {
				g.AllowRerun() // nothing was begun
			}
			if failed := s.Release(ctx); !errors.Is(failed, ErrLost) { // Err has reported a loss before
				err = errors.Join(err, failed)
			}
			return nil, lost, err
		}
	}
	return s, false, nil
}

// Guards returns the guards, in the order in which their locks were taken.
func (s *GuardSet) Guards() []*Guard { return slices.Clone(s.guards) }

// Guard returns the guard of the lock with the given name, or nil. If several locks in different
// stores have that name, it returns the guard that was taken first.
func (s *GuardSet) Guard(name string) *Guard {
	for _, g := range s.guards {
		if g.Name() == name {
			return g
		}
	}
	return nil
}

// Context returns a context that ends when any of the leases ends, or when the program calls
// [GuardSet.Release].
func (s *GuardSet) Context() context.Context {
	for _, g := range s.guards {
		g.b.Grant().Check()
	}
	return s.ctx
}

// While all leases are trusted, Err returns nil. When one of the leases has ended, Err returns the
// reason.
func (s *GuardSet) Err() error {
	for _, g := range s.guards {
		if err := g.Err(); err != nil {
			return err
		}
	}
	return context.Cause(s.ctx)
}

// Release releases all locks at the same time, and returns their errors joined. If one release
// fails, the others continue. See [Guard.Release].
func (s *GuardSet) Release(ctx context.Context) error {
	if s.releasing.CompareAndSwap(false, true) {
		for _, stop := range s.stops {
			stop()
		}
		s.end(ErrReleased)
		errs := holding.InParallel(s.guards, len(s.guards), func(g *Guard) error { return g.Release(ctx) })
		s.result = errors.Join(errs...)
		close(s.done)
	}
	<-s.done
	return s.result
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// Goroutines that ask a guard for its context, first before its end, during it or after it, get
// a context that ends, with the cause that the guard gives.
func TestGuardContextDuringItsEnd(t *testing.T) {
	ends := []struct {
		name  string
		cause error
		end   func(*testing.T, *wire, *lease.Session, *lease.Guard)
	}{
		{"released", lease.ErrReleased, func(t *testing.T, _ *wire, _ *lease.Session, g *lease.Guard) { mustRelease(t, g) }},
		{"closed", lease.ErrClosed, func(t *testing.T, _ *wire, s *lease.Session, _ *lease.Guard) {
			report(t, s.Close(t.Context()))
		}},
		{"expired", lease.ErrExpired, func(_ *testing.T, w *wire, _ *lease.Session, _ *lease.Guard) { w.set(everything(drop)) }},
		{"broken", lease.ErrBroken, func(t *testing.T, w *wire, _ *lease.Session, g *lease.Guard) {
			report(t, errOf(client(t, w.Store, nil).Break(t.Context(), g.Name(), g.Token(), nil)))
		}},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, st store.Store) {
				w := newWire(st)
				s := open(t, client(t, w, nil))
				var wg sync.WaitGroup
				var guards []*lease.Guard
				for i := range 20 {
					g := mustTry(t, s, fmt.Sprintf("job%d", i))
					guards = append(guards, g)
					for range 3 {
						wg.Go(func() {
							time.Sleep(time.Duration(i) * ttl / 15)
							ctx := g.Context()
							<-ctx.Done()
							if cause := context.Cause(ctx); ctx.Err() == nil || cause != g.Err() || !errors.Is(cause, e.cause) {
								t.Errorf("context %v, cause %v, guard %v", ctx.Err(), cause, g.Err())
							}
						})
					}
				}
				time.Sleep(ttl / 3)
				for _, g := range guards {
					e.end(t, w, s, g)
				}
				wg.Wait()
			})
		})
	}
}

package lease_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// The cost of each operation of a lease, in requests (exact) and in time, compared with two raw
// conditional writes, the parts of an acquire and a release.
func BenchmarkLease(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) store.Store{
		"memory": func(*testing.B) store.Store { return &memstore.Store{} },
		"file": func(b *testing.B) store.Store {
			st, err := filestore.Open(b.TempDir(), nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = st.Close() })
			return st
		},
	} {
		var requests atomic.Int64
		setup := func(b *testing.B) (store.Store, *lease.Handle) {
			st := store.Intercept(open(b), func(ctx context.Context, op *store.Op, next store.Handler) error {
				requests.Add(1)
				return next(ctx, op)
			})
			c, err := lease.New(st, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = c.Close(context.Background()) })
			h, err := c.Handle("job", nil)
			if err != nil {
				b.Fatal(err)
			}
			return st, h
		}
		measure := func(b *testing.B, op func()) {
			b.ResetTimer()
			before := requests.Load()
			for b.Loop() {
				op()
			}
			b.ReportMetric(float64(requests.Load()-before)/float64(b.N), "requests/op")
		}
		b.Run(name+"/two-raw-writes", func(b *testing.B) {
			st, _ := setup(b)
			value := make([]byte, 400)
			var v store.Version
			measure(b, func() {
				for range 2 {
					var err error
					if v, err = st.Put(context.Background(), "raw", v, value); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
		b.Run(name+"/acquire-release", func(b *testing.B) {
			_, h := setup(b)
			measure(b, func() {
				g, err := h.TryAcquire(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if err := g.Release(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(name+"/renew", func(b *testing.B) {
			_, h := setup(b)
			g, err := h.TryAcquire(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			measure(b, func() {
				if err := g.Renew(context.Background()); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(name+"/join", func(b *testing.B) {
			_, h := setup(b)
			if _, err := h.TryAcquire(context.Background()); err != nil {
				b.Fatal(err)
			}
			measure(b, func() {
				g, err := h.TryAcquire(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				_ = g.Release(context.Background())
			})
		})
	}
}

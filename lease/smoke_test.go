package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var st memstore.Store
		n := 0
		counted := store.Intercept(&st, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind != store.OpWatch {
				n++
			}
			return next(ctx, op)
		})
		a, err := lease.New(counted, &lease.Options{OnEvent: func(e lease.Event) { t.Logf("a %+v", e) }})
		if err != nil {
			t.Fatal(err)
		}
		b, err := lease.New(counted, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		h, _ := a.Handle("job")
		g, err := h.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Log("cold create", n)
		n = 0
		time.Sleep(11 * time.Second)
		t.Log("one renewal", n)
		n = 0
		_, err = b.TryAcquire(ctx, "job")
		if !errors.Is(err, lease.ErrHeld) {
			t.Fatal(err)
		}
		t.Log("contended cold", n, err)
		n = 0
		if err := g.Release(ctx); err != nil {
			t.Fatal(err)
		}
		t.Log("release", n)
		n = 0
		g2, err := h.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Log("again", n, g2.Token()-g.Token(), g2.Continuous())
		go func() {
			time.Sleep(time.Hour)
			g2.Release(ctx)
		}()
		n = 0
		g3, err := b.Acquire(ctx, "job")
		if err != nil {
			t.Fatal(err)
		}
		t.Log("waited an hour", n)
		if err := b.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(g3.Context()), lease.ErrClosed) {
			t.Fatal(g3.Err())
		}
		a.Close(ctx)
	})
}

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// A24: tokens rise although the record was removed and the clock was set back.
func TestA24TokensRiseAfterCollect(t *testing.T) {
	for _, floor := range []bool{true, false} {
		bubble(t, func(t *testing.T, st store.Store) {
			c := client(t, st, nil)
			old := mustTry(t, c, "old")
			mustRelease(t, old)
			time.Sleep(2 * time.Hour)
			held := mustTry(t, c, "held")
			mustRelease(t, mustTry(t, c, "recent"))
			if _, err := c.Collect(t.Context(), lease.CollectOptions{OlderThan: time.Minute}); !errors.Is(err, lease.ErrOptions) {
				t.Errorf("Collect of what is a minute old = %v", err)
			}
			if n, err := c.Collect(t.Context(), lease.CollectOptions{OlderThan: time.Hour, DryRun: true}); n != 1 || err != nil {
				t.Errorf("dry run = %d, %v", n, err)
			}
			wantState(t, c, "old", lease.Free)
			told := map[string]bool{}
			n, err := c.Collect(t.Context(), lease.CollectOptions{OlderThan: time.Hour, OnLock: func(name string, removed bool, err error) {
				told[name] = removed
			}})
			if n != 1 || err != nil || !told["old"] || told["held"] || told["recent"] {
				t.Errorf("Collect = %d, %v, told %v", n, err, told)
			}
			if _, err := c.Inspect(t.Context(), "old"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Inspect of what was removed = %v", err)
			}
			wantState(t, c, "held", lease.Held)
			wantState(t, c, "recent", lease.Free)
			mustRelease(t, held)

			back := client(t, st, &lease.Options{Floor: floor})
			clock := newClocks()
			lease.SetClock(back, clock.read)
			clock.change(func(c *clocks) { c.jumped -= 24 * time.Hour })
			g := mustTry(t, back, "old")
			if (g.Token() > old.Token()) != floor {
				t.Errorf("floor %v: token %d after %d", floor, g.Token(), old.Token())
			}
			mustRelease(t, g)
		})
	}
}

// Remove what nobody has used for a month.
func ExampleClient_Collect() {
	ctx := context.Background()
	client, _ := lease.New(&memstore.Store{}, nil)
	removed, err := client.Collect(ctx, lease.CollectOptions{OlderThan: 30 * 24 * time.Hour})
	fmt.Println(removed, err)
	// Output: 0 <nil>
}

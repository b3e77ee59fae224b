package moving

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestRemovedMeanwhile: a lock that was removed from the old store during the copy is a use of that store.
func TestRemovedMeanwhile(t *testing.T) {
	from := memstore.New()
	client, err := lease.New(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	c := &copier{from: &side{Client: leases.Client{Client: client, Store: stores.Opened{Store: from}}}, progress: func(string) {}}
	if err := c.unused(t.Context(), map[string]string{}); err != nil {
		t.Errorf("an empty store: %v", err)
	}
	if err := c.unused(t.Context(), map[string]string{lockDir + "gone": "v"}); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a lock was removed: %v", err)
	}
}

// TestUnreadableMeanwhile: a record that becomes unreadable after the copy has begun. The message does not say that
// nothing was copied.
func TestUnreadableMeanwhile(t *testing.T) {
	for damageAt, want := range map[int]string{1: "nothing was copied", 2: "the copy is incomplete", 3: "the copy is incomplete"} {
		from, to := memstore.New(), memstore.New()
		if client, err := lease.New(from, nil); err != nil || client.Do(t.Context(), "job", func(context.Context, *lease.Guard) error { return nil }, nil) != nil {
			t.Fatal(err)
		}
		reads := 0
		damaged := store.Intercept(from, func(ctx context.Context, op *store.Op, next store.Handler) error {
			if op.Kind == store.OpGet && op.Key == lockDir+"job" {
				if reads++; reads >= damageAt {
					return &store.OpError{Op: op.Kind, Key: op.Key, Err: store.ErrCorrupt}
				}
			}
			return next(ctx, op)
		})
		open := func(st store.Store) *side {
			client, err := lease.New(st, nil)
			if err != nil {
				t.Fatal(err)
			}
			keeper, err := checkpoint.New(st, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Close(context.Background()) })
			return &side{Client: leases.Client{Client: client, Store: stores.Opened{Store: st}}, keeper: keeper}
		}
		c := &copier{from: open(damaged), to: open(to), progress: func(string) {}}
		if err := c.run(t.Context(), false); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("damaged at read %d: %v, want %q", damageAt, err, want)
		}
	}
}

package checkpoints

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// TestHeldByReportsErrors: a lock whose record cannot be read is not taken for a free one, so that no user resets the
// checkpoint of a living holder.
func TestHeldByReportsErrors(t *testing.T) {
	var failure error
	st := store.Intercept(&memstore.Store{}, func(ctx context.Context, op *store.Op, next store.Handler) error {
		if failure != nil {
			return failure
		}
		return next(ctx, op)
	})
	client, err := lease.New(st, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	if _, held, err := heldBy(client)(t.Context(), "orders"); held || err != nil {
		t.Errorf("of a lock without a record: %v, %v", held, err)
	}
	for _, failure = range []error{store.ErrUnavailable, store.ErrCorrupt, store.ErrDenied} {
		if holder, held, err := heldBy(client)(t.Context(), "orders"); !errors.Is(err, failure) {
			t.Errorf("after %v: %+v, %v, %v", failure, holder, held, err)
		}
	}
	failure = nil
}

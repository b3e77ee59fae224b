package object_test

import (
	"context"
	"io"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// TestUnconditionalDeleteLosesReplies: a delete without a condition is done once the object
// does not exist any more, by this delete or by another one.
func TestUnconditionalDeleteLosesReplies(t *testing.T) {
	for kind, open := range buckets() {
		below := open()
		c := newClient(t, objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
			if c.Op == store.OpDelete {
				return objecttest.Lose
			}
			return objecttest.Pass
		}), fast())
		if _, err := c.Put(t.Context(), "a", body("x"), nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Delete(t.Context(), "a", nil); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// beforePut runs f before each put.
type beforePut struct {
	object.Bucket
	f func()
}

func (b beforePut) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	b.f()
	return b.Bucket.Put(ctx, key, body, opts)
}

func (b beforePut) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestTombstonesDiffer: where equal bodies have equal versions, a write that was prepared on
// a tombstone is refused on a later one.
func TestTombstonesDiffer(t *testing.T) {
	below := &membucket.Bucket{Hashed: true}
	distinct := object.Fast(object.Options{DistinctBodies: true}, 0)
	other := newClient(t, below, distinct)
	bury := func(fence object.Fence) {
		if err := other.Delete(t.Context(), "a", &object.WriteOptions{Fence: &fence}); err != nil {
			t.Error(err)
		}
	}
	bury(token1)
	puts := 0
	stale := newClient(t, beforePut{below, func() {
		// The first one meets the tombstone, the second one is to replace it.
		if puts++; puts == 2 {
			bury(token2)
		}
	}}, distinct)
	_, err := stale.Put(t.Context(), "a", body("late"), &object.WriteOptions{IfAbsent: true, Fence: &token1})
	if store.OutcomeOf(err) != store.NotApplied || puts != 2 || content(t, other, "a") != "absent" {
		t.Errorf("got %v after %d puts; there is %s", err, puts, content(t, other, "a"))
	}
}

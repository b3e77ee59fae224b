package object_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// TestBaseFromJSON: a state that a program has kept as JSON names the same state, and does
// not hide its fence.
func TestBaseFromJSON(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, membucket.New(), nil)
	info, err := c.Put(ctx, "a", body("1"), &object.WriteOptions{Fence: &token2})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	var base object.Info
	if err := json.Unmarshal(text, &base); err != nil {
		t.Fatal(err)
	}
	for _, fence := range []*object.Fence{nil, &token1} {
		if _, err := c.Put(ctx, "a", body("late"), &object.WriteOptions{Base: &base, Fence: fence}); !errors.Is(err, object.ErrFenced) {
			t.Errorf("%v: got %v", fence, err)
		}
	}
	next, err := c.Put(ctx, "a", body("2"), &object.WriteOptions{Base: &base, Fence: &token2})
	if err != nil || len(next.WriteInfo.Previous) != 1 || next.WriteInfo.Previous[0] != info.WriteInfo.ID {
		t.Errorf("got %+v, %v", next, err)
	}
	id := store.Version("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	if resolution, _, err := c.Resolve(ctx, "a", &base, id); resolution != store.ResolutionNotApplied || err != nil {
		t.Errorf("a write on it that was never applied: %v, %v", resolution, err)
	}
}

// TestFenceSeenWithoutFences: a client that cannot check fences refuses to write over one
// that it sees.
func TestFenceSeenWithoutFences(t *testing.T) {
	ctx := t.Context()
	b := &membucket.Bucket{Hashed: true}
	c, other := newClient(t, b, fast()), newClient(t, b, &object.Options{DistinctBodies: true})
	if err := other.Delete(ctx, "dead", &object.WriteOptions{Fence: &token2}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(ctx, "a", body("1"), &object.WriteOptions{Fence: &token2}); err != nil {
		t.Fatal(err)
	}
	base, err := c.Stat(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	_, createErr := c.Put(ctx, "dead", body("late"), &object.WriteOptions{IfAbsent: true})
	_, putErr := c.Put(ctx, "a", body("late"), &object.WriteOptions{Base: &base})
	for _, err := range []error{createErr, putErr, c.Delete(ctx, "a", &object.WriteOptions{Base: &base})} {
		if !errors.Is(err, object.ErrFenced) {
			t.Errorf("got %v", err)
		}
	}
	if content(t, c, "dead") != "absent" || content(t, c, "a") != "1" {
		t.Error("something was written")
	}
}

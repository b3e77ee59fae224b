package object_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// TestFence: an object refuses every write with a lower token, without one, and with that
// of another lock, whatever the kind of write; and takes those of the holder.
func TestFence(t *testing.T) {
	ctx := t.Context()
	token3 := object.Fence{Lock: token1.Lock, Token: 3}
	strangers := object.Fence{Lock: "another", Token: 9}
	b := membucket.New()
	c := newClient(t, b, nil)
	if _, err := c.Put(ctx, "source", body("source"), nil); err != nil {
		t.Fatal(err)
	}
	for _, deleted := range []bool{false, true} {
		key := fmt.Sprint("fenced ", deleted)
		old, err := c.Put(ctx, key, body("by 2"), &object.WriteOptions{Fence: &token2})
		if err != nil {
			t.Fatal(err)
		}
		if deleted {
			if err := c.Delete(ctx, key, &object.WriteOptions{Fence: &token2}); err != nil {
				t.Fatal(err)
			}
		}
		before := content(t, c, key)
		state, err := b.Stat(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		for name, fence := range map[string]*object.Fence{"no token": nil, "a lower one": &token1, "another lock": &strangers} {
			for kind, o := range map[string]*object.WriteOptions{
				"unconditional": {}, "if absent": {IfAbsent: true}, "on the state": {IfMatch: state.Version}, "on an old state": {Base: &old},
			} {
				o.Fence = fence
				_, putErr := c.Put(ctx, key, body("late"), o)
				_, copyErr := c.Copy(ctx, "source", key, o)
				_, renameErr := c.Rename(ctx, "source", key, o)
				errs := map[string]error{"put": putErr, "copy": copyErr, "rename": renameErr}
				if !o.IfAbsent && !(deleted && fence == nil && kind == "unconditional") {
					errs["delete"] = c.Delete(ctx, key, o)
				}
				for op, err := range errs {
					refused := errors.Is(err, object.ErrFenced) || errors.Is(err, store.ErrConflict)
					if !refused || store.OutcomeOf(err) != store.NotApplied {
						t.Errorf("%s, %s, %s: got %v", op, name, kind, err)
					}
					if (kind == "unconditional" || kind == "on the state") && !errors.Is(err, object.ErrFenced) {
						t.Errorf("%s, %s, %s: got %v, want ErrFenced", op, name, kind, err)
					}
				}
			}
		}
		var fenced *object.FencedError
		_, err = c.RaiseFence(ctx, key, token1)
		if !errors.As(err, &fenced) || fenced.Fence != token2 || fenced.Write == nil || *fenced.Write != token1 || !store.Permanent(err) {
			t.Errorf("raising to a lower token: %v", err)
		}
		if got := content(t, c, key); got != before {
			t.Errorf("there is %s", got)
		}
		if _, err := c.Put(ctx, key, body("by 3"), &object.WriteOptions{Fence: &token3, IfAbsent: deleted}); err != nil {
			t.Errorf("the holder: %v", err)
		}
	}
	if content(t, c, "source") != "source" {
		t.Error("a rename that was refused has moved its source")
	}
}

// TestRaiseFence: after a fence was raised, a write that was prepared on the state before
// is refused, and the body, the metadata and the type are as they were.
func TestRaiseFence(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, membucket.New(), nil)
	meta := map[string]string{"k": "v"}
	base, err := c.Put(ctx, "a", body("one"), &object.WriteOptions{Fence: &token1, Metadata: meta, ContentType: "text/x"})
	if err != nil {
		t.Fatal(err)
	}
	raised, err := c.RaiseFence(ctx, "a", token2)
	if err != nil || raised.Version == base.Version || raised.Size != 3 || raised.ContentType != "text/x" || raised.Metadata["k"] != "v" || *raised.WriteInfo.Fence != token2 {
		t.Errorf("got %+v, %v", raised, err)
	}
	again, err := c.RaiseFence(ctx, "a", token2)
	if err != nil || again.Version != raised.Version {
		t.Errorf("raising it again wrote: %+v, %v", again, err)
	}
	if _, err := c.Put(ctx, "a", body("late"), &object.WriteOptions{Base: &base, Fence: &token1}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a write that was prepared before: %v", err)
	}
	if _, err := c.Put(ctx, "a", body("two"), &object.WriteOptions{Base: &raised, Fence: &token2}); err != nil {
		t.Errorf("the holder: %v", err)
	}

	// Where there is no object yet.
	raised, err = c.RaiseFence(ctx, "new", token2)
	if err != nil || !raised.WriteInfo.Deleted || content(t, c, "new") != "absent" {
		t.Errorf("got %+v, %v", raised, err)
	}
	if _, err := c.Put(ctx, "new", body("late"), &object.WriteOptions{IfAbsent: true, Fence: &token1}); !errors.Is(err, object.ErrFenced) {
		t.Errorf("a stale create: %v", err)
	}
	if _, err := c.Put(ctx, "new", body("first"), &object.WriteOptions{IfAbsent: true, Fence: &token2}); err != nil {
		t.Errorf("the holder's create: %v", err)
	}
	if _, err := c.Put(ctx, "new", body("second"), &object.WriteOptions{IfAbsent: true, Fence: &token2}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second create: %v", err)
	}
}

// TestTombstones: reads and listings do not see what was deleted under a fence, and Force
// removes it.
func TestTombstones(t *testing.T) {
	ctx := t.Context()
	b := membucket.New()
	c := newClient(t, b, nil)
	tombstone := func(key string) object.Info {
		if err := c.Delete(ctx, key, &object.WriteOptions{Fence: &token1}); err != nil {
			t.Fatal(err)
		}
		info, err := b.Stat(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	size := tombstone("dead").Size // a delete of what does not exist leaves one, too
	if _, err := c.Put(ctx, "of the same size", body(strings.Repeat("x", int(size))), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "dead", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, _, err := c.ReadAll(ctx, "dead", 100, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("read all: %v", err)
	}
	if _, err := c.Stat(ctx, "dead"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("stat: %v", err)
	}
	if _, err := c.Copy(ctx, "dead", "x", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("copy: %v", err)
	}
	if err := c.Delete(ctx, "dead", nil); err != nil {
		t.Errorf("delete: %v", err)
	}
	var keys []string
	for info, err := range c.List(ctx, "", nil) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	if len(keys) != 1 || keys[0] != "of the same size" {
		t.Errorf("listed %q", keys)
	}
	if _, err := b.Stat(ctx, "dead"); err != nil {
		t.Errorf("a delete without a fence removed the tombstone: %v", err)
	}
	if err := c.Delete(ctx, "dead", &object.WriteOptions{Force: true}); err != nil {
		t.Error(err)
	}
	if _, err := b.Stat(ctx, "dead"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a forced delete: %v", err)
	}
}

// TestForce: a forced write keeps the fence, or sets the one that it has, lower or not.
func TestForce(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, membucket.New(), nil)
	if _, err := c.Put(ctx, "a", body("1"), &object.WriteOptions{Fence: &token2}); err != nil {
		t.Fatal(err)
	}
	info, err := c.Put(ctx, "a", body("2"), &object.WriteOptions{Force: true})
	if err != nil || info.WriteInfo.Fence == nil || *info.WriteInfo.Fence != token2 {
		t.Errorf("got %+v, %v", info.WriteInfo, err)
	}
	other := object.Fence{Lock: strings.Repeat("long lock ", 40), Token: 1}
	if _, err := c.Put(ctx, "a", body("3"), &object.WriteOptions{Force: true, Fence: &other}); err != nil {
		t.Error(err)
	}
	if _, err := c.Put(ctx, "a", body("4"), &object.WriteOptions{Fence: &token2}); !errors.Is(err, object.ErrFenced) {
		t.Errorf("the lock before: %v", err)
	}
	if _, err := c.Put(ctx, "a", body("4"), &object.WriteOptions{Fence: &other}); err != nil {
		t.Errorf("the new lock: %v", err)
	}
}

// TestFenceNeedsVersions: where a fence could be passed by, it is refused, and nothing is
// written.
func TestFenceNeedsVersions(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, &membucket.Bucket{Hashed: true}, nil)
	_, err := c.Put(ctx, "a", body("1"), &object.WriteOptions{Fence: &token1})
	_, raiseErr := c.RaiseFence(ctx, "a", token1)
	for _, err := range []error{err, raiseErr, c.Delete(ctx, "a", &object.WriteOptions{Fence: &token1})} {
		var lacking *object.UnsupportedError
		if !errors.As(err, &lacking) || lacking.Ability != object.Fenced || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("got %v", err)
		}
	}
	if content(t, c, "a") != "absent" {
		t.Error("something was written")
	}

	// With bodies that are never equal, versions do identify states.
	c = newClient(t, &membucket.Bucket{Hashed: true}, &object.Options{DistinctBodies: true})
	if _, err := c.Put(ctx, "a", body("1"), &object.WriteOptions{Fence: &token2}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "a", body("late"), &object.WriteOptions{Fence: &token1}); !errors.Is(err, object.ErrFenced) {
		t.Errorf("got %v", err)
	}
	if _, err := c.RaiseFence(ctx, "a", token2); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("raising it: %v", err)
	}
}

// TestDamagedFence: a fence that cannot be read is not "no fence".
func TestDamagedFence(t *testing.T) {
	ctx := t.Context()
	b := membucket.New()
	c := newClient(t, b, nil)
	for _, meta := range []map[string]string{
		{"holdfast-token": "x", "holdfast-lock": "l"}, {"holdfast-token": "7"}, {"holdfast-lock": "l"}, {"holdfast-token": "0", "holdfast-lock": "l"},
		{"holdfast-token": "7", "holdfast-lock": "%zz"}, {"holdfast-token": "-1", "holdfast-lock": "l"},
	} {
		if _, err := b.Put(ctx, "a", body("x"), &object.PutOptions{Metadata: meta}); err != nil {
			t.Fatal(err)
		}
		for _, fence := range []*object.Fence{nil, {Lock: "l", Token: 99}} {
			if _, err := c.Put(ctx, "a", body("y"), &object.WriteOptions{Fence: fence}); !errors.Is(err, store.ErrCorrupt) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%v: got %v", meta, err)
			}
		}
		if _, err := c.Put(ctx, "a", body("y"), &object.WriteOptions{Force: true, Fence: &token1}); err != nil {
			t.Errorf("%v: forced: %v", meta, err)
		}
	}
}

// TestFenceOfARename: the fence is that of both objects.
func TestFenceOfARename(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, membucket.New(), nil)
	put := func(o *object.WriteOptions) {
		if _, err := c.Put(ctx, "source", body("x"), o); err != nil {
			t.Fatal(err)
		}
	}
	put(&object.WriteOptions{Fence: &token2})
	for _, fence := range []*object.Fence{nil, &token1} {
		if _, err := c.Rename(ctx, "source", "a", &object.WriteOptions{Fence: fence}); !errors.Is(err, object.ErrFenced) || content(t, c, "a") != "absent" {
			t.Errorf("got %v, the destination is %s", err, content(t, c, "a"))
		}
	}
	if _, err := c.Rename(ctx, "source", "a", &object.WriteOptions{Fence: &token2}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "source", body("late"), &object.WriteOptions{Fence: &token1}); !errors.Is(err, object.ErrFenced) {
		t.Errorf("a stale write to the source: %v", err)
	}
	if info, err := c.Stat(ctx, "a"); err != nil || *info.WriteInfo.Fence != token2 {
		t.Errorf("got %+v, %v", info, err)
	}
}

// TestFenceRace: a stale write and a raised fence race; the stale write never takes effect
// after the fence was raised, whatever the interleaving.
func TestFenceRace(t *testing.T) {
	for range 200 {
		b := membucket.New()
		c := newClient(t, b, nil)
		if _, err := c.Put(t.Context(), "a", body("start"), &object.WriteOptions{Fence: &token1}); err != nil {
			t.Fatal(err)
		}
		stale := make(chan error)
		go func() {
			_, err := c.Put(t.Context(), "a", body("stale"), &object.WriteOptions{Fence: &token1})
			stale <- err
		}()
		_, raiseErr := c.RaiseFence(t.Context(), "a", token2)
		seen := content(t, c, "a")
		err := <-stale
		if raiseErr != nil || err != nil && !errors.Is(err, object.ErrFenced) {
			t.Fatalf("got %v and %v", raiseErr, err)
		}
		if now := content(t, c, "a"); now != seen || (err == nil) != (now == "stale") {
			t.Fatalf("after the fence was raised there was %s, later %s; the stale write: %v", seen, now, err)
		}
	}
}

// conditionless is a bucket that ignores all conditions, and knows it.
type conditionless struct{ *membucket.Bucket }

func (b conditionless) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o := object.PutOptions{}
	if opts != nil {
		o = *opts
	}
	o.IfAbsent, o.IfMatch = false, ""
	return b.Bucket.Put(ctx, key, body, &o)
}

func (b conditionless) Delete(ctx context.Context, key string, _ *object.DeleteOptions) error {
	return b.Bucket.Delete(ctx, key, nil)
}

func (b conditionless) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	o := object.CopyOptions{}
	if opts != nil {
		o = *opts
	}
	o.IfAbsent, o.IfMatch, o.SourceIfMatch = false, "", ""
	return b.Bucket.Copy(ctx, source, destination, &o)
}

func (b conditionless) Traits() object.Traits {
	t := b.Bucket.Traits()
	t.Trusted = false
	return t
}

// TestFenceNotByReservation: a fence that only a reservation could check is refused.
func TestFenceNotByReservation(t *testing.T) {
	c := newClient(t, conditionless{membucket.New()}, &object.Options{Reserver: free{}})
	_, err := c.Put(t.Context(), "a", body("x"), &object.WriteOptions{Fence: &token1, IfAbsent: true})
	var lacking *object.UnsupportedError
	if !errors.As(err, &lacking) || lacking.Ability != object.Fenced {
		t.Errorf("got %v", err)
	}
}

// free is a Reserver for tests without a second holder.
type free struct{}

func (free) Do(ctx context.Context, _ string, _ object.Version, check func(context.Context) error, operate func(context.Context) error) error {
	if err := check(ctx); err != nil {
		return store.MarkNotApplied(err)
	}
	return operate(ctx)
}

// TestTombstoneOfAnyLimit: a tombstone is absent for a reader, also if it is longer than what the reader expects.
func TestTombstoneOfAnyLimit(t *testing.T) {
	c := newClient(t, membucket.New(), nil)
	if err := c.Delete(t.Context(), "a", &object.WriteOptions{Fence: &token1}); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{10, 1000} {
		if _, info, err := c.ReadAll(t.Context(), "a", limit, nil); !errors.Is(err, store.ErrNotFound) || info.Version != "" {
			t.Errorf("limit %d: got %+v, %v", limit, info, err)
		}
	}
	behind := &object.GetOptions{Offset: 1000}
	if r, err := c.Get(t.Context(), "a", behind); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get behind the end of a tombstone: %v, %v", r, err)
	}
	if _, _, err := c.ReadAll(t.Context(), "a", 10, behind); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("ReadAll behind the end of a tombstone: %v", err)
	}
	put(t, c.Bucket(), "b", "body", nil)
	if _, err := c.Get(t.Context(), "b", behind); !errors.Is(err, object.ErrRange) {
		t.Errorf("Get behind the end of an object: %v", err)
	}
}

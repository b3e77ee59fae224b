package object_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// TestRenameKilled: a process that is killed before any request of a rename or a copy, or
// after the request was sent and before its answer, leaves the object at one of the two
// places or at both, whole, and a second run finishes.
func TestRenameKilled(t *testing.T) {
	ctx := t.Context()
	run := func(c *object.Client, op string, conditional bool) error {
		o := &object.WriteOptions{IfAbsent: conditional}
		if op == "copy" {
			_, err := c.Copy(ctx, "source", "a", o)
			return err
		}
		_, err := c.Rename(ctx, "source", "a", o)
		return err
	}
	for kind, open := range buckets() {
		for _, op := range []string{"copy", "rename"} {
			for _, conditional := range []bool{true, false} {
				for _, applied := range []bool{false, true} {
					for n := 1; ; n++ {
						name := fmt.Sprintf("%s/%s/conditional %v/request %d applied %v", kind, op, conditional, n, applied)
						below := open()
						other := newClient(t, below, nil)
						if _, err := other.Put(ctx, "source", body("precious"), &object.WriteOptions{Metadata: map[string]string{"k": "v"}}); err != nil {
							t.Fatal(err)
						}
						b := objecttest.NewFaulty(below, func(c objecttest.Call) objecttest.Fault {
							switch {
							case c.N == n && applied:
								return objecttest.Lose
							case c.N == n, c.N > n && applied:
								return objecttest.Cut
							}
							return objecttest.Pass
						})
						err := run(newClient(t, b, fast()), op, conditional)
						if len(b.Calls()) < n {
							if err != nil {
								t.Errorf("%s: without a fault: %v", name, err)
							}
							break
						}
						source, dest := content(t, other, "source"), content(t, other, "a")
						if source != "precious" && dest != "precious" || source != "precious" && source != "absent" || dest != "precious" && dest != "absent" {
							t.Fatalf("%s: left %q and %q", name, source, dest)
						}
						if op == "copy" && conditional && dest == "precious" {
							continue // a copy has no second run: the destination is taken
						}
						if op == "rename" && !conditional && source == "absent" && dest != "precious" {
							t.Fatalf("%s: lost", name)
						}
						if err := run(other, op, conditional); err != nil {
							t.Errorf("%s: the second run: %v", name, err)
						}
						want := "absent"
						if op == "copy" {
							want = "precious"
						}
						info, err := other.Stat(ctx, "a")
						if err != nil || info.Metadata["k"] != "v" || content(t, other, "a") != "precious" || content(t, other, "source") != want {
							t.Errorf("%s: after the second run: %+v, %v, %s and %s", name, info, err, content(t, other, "a"), content(t, other, "source"))
						}
					}
				}
			}
		}
	}
}

// TestRenameRefused: nothing is changed where a rename cannot be what it should be.
func TestRenameRefused(t *testing.T) {
	ctx := t.Context()
	c := newClient(t, membucket.New(), nil)
	put := func(key, text string) object.Info {
		info, err := c.Put(ctx, key, body(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	old := put("source", "old")
	put("source", "new")
	put("taken", "other")
	for _, r := range []struct {
		what, source, destination string
		opts                      *object.WriteOptions
		want                      error
	}{
		{"a source that is missing", "none", "a", nil, store.ErrNotFound},
		{"a source that is missing, by version", "none", "a", &object.WriteOptions{SourceIfMatch: old.Version}, store.ErrConflict},
		{"a source that has changed", "source", "a", &object.WriteOptions{SourceIfMatch: old.Version}, store.ErrConflict},
		{"a destination that is taken", "source", "taken", &object.WriteOptions{IfAbsent: true}, store.ErrConflict},
		{"a destination that has changed", "source", "taken", &object.WriteOptions{IfMatch: old.Version}, store.ErrConflict},
		{"source and destination the same", "source", "source", nil, object.ErrInvalid},
		{"an empty key", "", "a", nil, store.ErrKey},
		{"an empty destination", "source", "", nil, store.ErrKey},
	} {
		for op, do := range map[string]func() error{
			"rename": func() error { _, err := c.Rename(ctx, r.source, r.destination, r.opts); return err },
			"copy":   func() error { _, err := c.Copy(ctx, r.source, r.destination, r.opts); return err },
		} {
			if err := do(); !errors.Is(err, r.want) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("%s, %s: got %v (%v)", op, r.what, err, store.OutcomeOf(err))
			}
		}
	}
	if content(t, c, "source") != "new" || content(t, c, "taken") != "other" || content(t, c, "a") != "absent" {
		t.Error("something was changed")
	}
}

// changedSource changes the source of a copy just after it was copied.
type changedSource struct {
	object.Bucket
	change func()
}

func (b changedSource) Copy(ctx context.Context, source, destination string, opts *object.CopyOptions) (object.Info, error) {
	info, err := object.Copy(ctx, b.Bucket, source, destination, opts)
	b.change()
	return info, err
}

func (b changedSource) Traits() object.Traits { return object.TraitsOf(b.Bucket) }

// TestRenameKeepsWhatIsNew: a state of the source that was not copied is not deleted.
func TestRenameKeepsWhatIsNew(t *testing.T) {
	for kind, open := range buckets() {
		below := open()
		other := newClient(t, below, nil)
		put := func(text string) {
			if _, err := other.Put(t.Context(), "source", body(text), nil); err != nil {
				t.Error(err)
			}
		}
		put("one")
		c := newClient(t, changedSource{below, func() { put("two") }}, fast())
		done, err := c.Rename(t.Context(), "source", "a", &object.WriteOptions{IfAbsent: true})
		var half *object.RenameError
		if !errors.As(err, &half) || store.OutcomeOf(err) != store.Unknown || errors.Is(err, store.ErrConflict) || half.Destination != "a" || done.Info.Key != "a" {
			t.Errorf("%s: got %+v, %v", kind, done, err)
		}
		if content(t, other, "source") != "two" || content(t, other, "a") != "one" {
			t.Errorf("%s: left %s and %s", kind, content(t, other, "source"), content(t, other, "a"))
		}
		// Another try must not take the copy of another state for its own.
		if _, err := other.Rename(t.Context(), "source", "a", &object.WriteOptions{IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: the second run: %v", kind, err)
		}
		if content(t, other, "source") != "two" {
			t.Errorf("%s: the second run deleted what was not copied", kind)
		}
	}
}

// TestRenameOverAStranger: an object that is no copy of the source is not taken for one,
// even if its body is the same.
func TestRenameOverAStranger(t *testing.T) {
	for kind, open := range buckets() {
		c := newClient(t, open(), nil)
		for _, key := range []string{"source", "a"} {
			if _, err := c.Put(t.Context(), key, body("same"), nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Rename(t.Context(), "source", "a", &object.WriteOptions{IfAbsent: true}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", kind, err)
		}
		if err := c.Delete(t.Context(), "source", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Rename(t.Context(), "source", "a", &object.WriteOptions{IfAbsent: true}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

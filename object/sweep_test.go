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

// deed is a write of a client on the object "a", which holds "old" if it is there. The
// object "source" holds "new".
type deed struct {
	name   string
	absent bool // there is no object before
	fenced bool // it needs unique versions
	fence  *object.Fence
	do     func(ctx context.Context, c *object.Client, base object.Info) error

	// after is the content of "a" that the deed leaves.
	after string

	// unresolved says that a lost request leaves the outcome unknown, even if the next
	// requests are answered.
	unresolved bool
}

var (
	token1 = object.Fence{Lock: "lock/π", Token: 1}
	token2 = object.Fence{Lock: "lock/π", Token: 2}
)

func deeds() []deed {
	put := func(o func(base object.Info) *object.WriteOptions) func(context.Context, *object.Client, object.Info) error {
		return func(ctx context.Context, c *object.Client, base object.Info) error {
			_, err := c.Put(ctx, "a", body("new"), o(base))
			return err
		}
	}
	return []deed{
		{name: "create", absent: true, after: "new", unresolved: true, do: put(func(object.Info) *object.WriteOptions {
			return &object.WriteOptions{IfAbsent: true}
		})},
		{name: "replace", after: "new", do: put(func(base object.Info) *object.WriteOptions {
			return &object.WriteOptions{Base: &base}
		})},
		{name: "replace a version", after: "new", unresolved: true, do: put(func(base object.Info) *object.WriteOptions {
			return &object.WriteOptions{IfMatch: base.Version}
		})},
		{name: "overwrite", after: "new", unresolved: true, do: put(func(object.Info) *object.WriteOptions { return nil })},
		{name: "commit under a fence", after: "new", fenced: true, fence: &token1, do: put(func(base object.Info) *object.WriteOptions {
			return &object.WriteOptions{Base: &base, Fence: &token2}
		})},
		{name: "overwrite under a fence", after: "new", fenced: true, fence: &token1, do: put(func(object.Info) *object.WriteOptions {
			return &object.WriteOptions{Fence: &token2}
		})},
		{name: "copy", absent: true, after: "new", unresolved: true, do: func(ctx context.Context, c *object.Client, _ object.Info) error {
			_, err := c.Copy(ctx, "source", "a", &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{name: "copy over", after: "new", do: func(ctx context.Context, c *object.Client, base object.Info) error {
			_, err := c.Copy(ctx, "source", "a", &object.WriteOptions{Base: &base})
			return err
		}},
		{name: "rename", absent: true, after: "new", unresolved: true, do: func(ctx context.Context, c *object.Client, _ object.Info) error {
			_, err := c.Rename(ctx, "source", "a", &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{name: "delete", after: "absent", unresolved: true, do: func(ctx context.Context, c *object.Client, base object.Info) error {
			return c.Delete(ctx, "a", &object.WriteOptions{Base: &base})
		}},
		{name: "remove", after: "absent", unresolved: true, do: func(ctx context.Context, c *object.Client, _ object.Info) error {
			return c.Delete(ctx, "a", nil)
		}},
		{name: "delete under a fence", after: "absent", fenced: true, fence: &token1, do: func(ctx context.Context, c *object.Client, base object.Info) error {
			return c.Delete(ctx, "a", &object.WriteOptions{Base: &base, Fence: &token2})
		}},
		{name: "raise the fence", after: "old", fenced: true, fence: &token1, do: func(ctx context.Context, c *object.Client, _ object.Info) error {
			_, err := c.RaiseFence(ctx, "a", token2)
			return err
		}},
		{name: "update", after: "old+", do: func(ctx context.Context, c *object.Client, _ object.Info) error {
			_, err := c.Update(ctx, "a", func(b []byte, _ object.Info) ([]byte, error) { return append(b, '+'), nil }, nil)
			return err
		}},
	}
}

// buckets are those that the deeds are tried on.
func buckets() map[string]func() object.Bucket {
	return map[string]func() object.Bucket{
		"unique": func() object.Bucket { return membucket.New() },
		"hashed": func() object.Bucket { return &membucket.Bucket{Hashed: true} },
	}
}

// fast are options for tests with many faults.
func fast() *object.Options { return object.Fast(object.Options{}, 0) }

// begin makes a bucket in which a deed can be done.
func (d *deed) begin(t *testing.T, b object.Bucket) object.Info {
	t.Helper()
	c := newClient(t, b, nil)
	var base object.Info
	_, err := c.Put(t.Context(), "source", body("new"), nil)
	if err == nil && !d.absent {
		base, err = c.Put(t.Context(), "a", body("old"), &object.WriteOptions{Fence: d.fence})
	}
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// TestEveryCallFaulty: whichever request of a write meets a fault, the outcome that the
// caller gets is that of the write, then and when late requests have arrived.
// Where later requests are answered the outcome is known, but for writes that nothing could
// tell from those of others.
func TestEveryCallFaulty(t *testing.T) {
	names := map[objecttest.Fault]string{objecttest.Fail: "fail", objecttest.Lose: "lose", objecttest.Repeat: "repeat", objecttest.Late: "late"}
	for kind, open := range buckets() {
		for _, d := range deeds() {
			if d.fenced && kind == "hashed" {
				continue
			}
			for fault, name := range names {
				t.Run(fmt.Sprintf("%s/%s/%s", kind, d.name, name), func(t *testing.T) {
					for n := 1; ; n++ {
						if n > 50 {
							t.Fatal("a run without a fault was never reached")
						}
						if clean := d.once(t, open(), n, fault); clean {
							return
						}
					}
				})
			}
		}
	}
}

// once does the deed with a fault in the n-th request. It reports whether there were fewer
// requests.
func (d *deed) once(t *testing.T, below object.Bucket, n int, fault objecttest.Fault) (clean bool) {
	t.Helper()
	base := d.begin(t, below)
	before := d.state(t, below)
	b := objecttest.NewFaulty(below, objecttest.Nth(n, fault))
	err := d.do(t.Context(), newClient(t, b, fast()), base)
	calls := b.Calls()
	clean = len(calls) < n
	b.Deliver()
	after := d.state(t, below)
	switch outcome := store.OutcomeOf(err); {
	case clean && err != nil:
		t.Errorf("without a fault: %v", err)
	case outcome == store.Applied && after != d.done():
		t.Errorf("%v of request %d: told applied, and there is %s", calls[n-1].Op, n, after)
	case outcome == store.NotApplied && after != before:
		t.Errorf("%v of request %d: told not applied (%v), and there is %s", calls[n-1].Op, n, err, after)
	case outcome == store.Unknown && errors.Is(err, store.ErrConflict):
		t.Errorf("an unknown outcome looks like a conflict: %v", err)
	case outcome == store.Unknown && calls[n-1].Write() && !d.unresolved:
		t.Errorf("%v of request %d: the outcome could be known: %v", calls[n-1].Op, n, err)
	}
	return clean
}

// state describes the objects.
func (d *deed) state(t *testing.T, b object.Bucket) string {
	c := newClient(t, b, nil)
	s := content(t, c, "a") + " " + content(t, c, "source")
	if info, err := b.Stat(t.Context(), "a"); err == nil && d.fenced {
		s += " token " + info.Metadata["holdfast-token"]
	}
	return s
}

// done is the state after the deed.
func (d *deed) done() string {
	s := d.after + " new"
	if d.name == "rename" {
		s = d.after + " absent"
	}
	if d.fenced {
		s += " token 2"
	}
	return s
}

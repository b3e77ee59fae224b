package indexbucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/memstore"
)

// clientOf returns a client of objects whose index and bodies are in b.
func clientOf(t *testing.T, b object.Bucket) *object.Client {
	t.Helper()
	index, err := bucketstore.New(b, "index", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := object.New(newBucket(t, index, b), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// contents describes the objects, each of which must be readable.
func contents(t *testing.T, c *object.Client) string {
	t.Helper()
	all := ""
	for _, key := range []string{"a", "source"} {
		r, err := c.Get(t.Context(), key, nil)
		if errors.Is(err, store.ErrNotFound) {
			all += "- "
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all += string(body)
		if f := r.Info.WriteInfo.Fence; f != nil {
			all += fmt.Sprint(" ", f.Token)
		}
		all += " "
	}
	return strings.TrimSpace(all)
}

// slowList is a bucket whose listing has one object on each page. The function pause runs before the second page.
type slowList struct {
	object.Bucket
	pause func()
}

func (b *slowList) List(ctx context.Context, prefix string, _ *object.ListOptions) iter.Seq2[object.Info, error] {
	return func(yield func(object.Info, error) bool) {
		for after, more := "", true; more; {
			more = false
			for info, err := range b.Bucket.List(ctx, prefix, &object.ListOptions{After: after}) {
				if !yield(info, err) {
					return
				}
				after, more = info.Key, err == nil
				break
			}
			if pause := b.pause; pause != nil {
				b.pause = nil
				pause()
			}
		}
	}
}

// TestSlowSweep: the process of a sweep is stopped between two pages of the bodies, for longer than the orphan
// age. Meanwhile another process puts objects. The sweep has not read their registers, and keeps their bodies.
func TestSlowSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		below, index := membucket.New(), memstore.New()
		if _, err := below.Put(ctx, "body/0", strings.NewReader("the first page"), nil); err != nil {
			t.Fatal(err)
		}
		b := newBucket(t, index, below)
		slow := newBucket(t, index, &slowList{below, func() {
			if _, err := b.Put(ctx, "a", strings.NewReader("new"), nil); err != nil {
				t.Error(err)
			}
			time.Sleep(indexbucket.DefaultOrphanAge + time.Hour)
		}})
		if n, err := slow.Sweep(ctx); n != 0 || err != nil {
			t.Errorf("removed %d, %v", n, err)
		}
		if body, _, err := object.ReadAll(ctx, b, "a", 100, nil); string(body) != "new" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

// TestEveryCallFaulty: whichever request to the index or to the bodies meets a fault, the
// outcome that the caller gets is that of the write, no object loses its body, and
// the sweep removes what is left, and nothing else.
func TestEveryCallFaulty(t *testing.T) {
	one, two := object.Fence{Lock: "l", Token: 1}, object.Fence{Lock: "l", Token: 2}
	put := func(o *object.WriteOptions) func(context.Context, *object.Client) error {
		return func(ctx context.Context, c *object.Client) error {
			_, err := c.Put(ctx, "a", strings.NewReader("new"), o)
			return err
		}
	}
	for _, d := range []struct {
		name, before, after string
		do                  func(context.Context, *object.Client) error
	}{
		{"create", "- source", "new source", put(&object.WriteOptions{IfAbsent: true})},
		{"commit", "old 1 source", "new 2 source", put(&object.WriteOptions{Fence: &two})},
		{"raise the fence", "old 1 source", "old 2 source", func(ctx context.Context, c *object.Client) error {
			_, err := c.RaiseFence(ctx, "a", two)
			return err
		}},
		{"copy", "- source", "source source", func(ctx context.Context, c *object.Client) error {
			_, err := c.Copy(ctx, "source", "a", &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{"rename", "- source", "source -", func(ctx context.Context, c *object.Client) error {
			_, err := c.Rename(ctx, "source", "a", &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{"delete", "old 1 source", "- source", func(ctx context.Context, c *object.Client) error {
			return c.Delete(ctx, "a", &object.WriteOptions{Fence: &two})
		}},
	} {
		for name, fault := range map[string]objecttest.Fault{
			"fail": objecttest.Fail, "lose": objecttest.Lose, "repeat": objecttest.Repeat, "late": objecttest.Late, "cut": objecttest.Cut,
		} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for n := 1; ; n++ {
						below := &membucket.Bucket{Hashed: true}
						c := clientOf(t, below)
						_, err := c.Put(t.Context(), "source", strings.NewReader("source"), nil)
						if err == nil && strings.HasPrefix(d.before, "old") {
							_, err = c.Put(t.Context(), "a", strings.NewReader("old"), &object.WriteOptions{Fence: &one})
						}
						if got := contents(t, c); err != nil || got != d.before {
							t.Fatalf("before there is %q, %v", got, err)
						}
						faulty := objecttest.NewFaulty(below, objecttest.Nth(n, fault))
						err = d.do(t.Context(), clientOf(t, faulty))
						calls := faulty.Calls()
						faulty.Deliver()
						after := contents(t, c)
						outcome := store.OutcomeOf(err)
						half := d.name == "rename" && after == "source source"
						switch {
						case len(calls) < n && err != nil:
							t.Errorf("without a fault: %v", err)
						case outcome == store.Applied && after != d.after, outcome == store.NotApplied && after != d.before,
							after != d.before && after != d.after && !half:
							t.Errorf("%s %s, request %d: told %v (%v), and there is %q", calls[n-1].Op, calls[n-1].Key, n, outcome, err, after)
						}
						time.Sleep(indexbucket.DefaultOrphanAge + time.Minute)
						index, err := bucketstore.New(below, "index", nil)
						if err != nil {
							t.Fatal(err)
						}
						if _, err := newBucket(t, index, below).Sweep(t.Context()); err != nil {
							t.Error(err)
						}
						if got := contents(t, c); got != after {
							t.Errorf("the sweep made %q of %q", got, after)
						}
						want := 0
						for range c.Bucket().List(t.Context(), "", nil) {
							want++
						}
						if left := len(bodies(t, below)); left != want {
							t.Errorf("request %d: %d bodies for %d objects after the sweep", n, left, want)
						}
						if len(calls) < n {
							return
						}
					}
				})
			})
		}
	}
}

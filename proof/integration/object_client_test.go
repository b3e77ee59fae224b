package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/bucketstore"
	"github.com/holdfast-go/holdfast/object/indexbucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// A client of objects on every server, one of whose requests fails, loses its reply or is
// repeated: the outcome that it reports is the outcome of the write. The same with bodies
// that an index names, which can be fenced.
func TestObjectClient(t *testing.T) {
	t.Parallel()
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			b, err := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}.bucket(&s3bucket.Options{PartSize: 5 << 20})
			if err != nil {
				t.Fatal(err)
			}
			// What the server can do is found out once, without faults.
			has := make(map[object.Ability]bool)
			for _, a := range object.Abilities() {
				err := b.Verify(t.Context(), a)
				if err != nil && !errors.Is(err, errors.ErrUnsupported) {
					t.Fatal(err)
				}
				has[a] = err == nil
			}
			t.Run("plain", func(t *testing.T) {
				everyCall(t, b, func(t *testing.T, b object.Bucket) *object.Client {
					c, err := object.New(b, &object.Options{Abilities: has})
					if err != nil {
						t.Fatal(err)
					}
					return c
				}, nil)
			})
			t.Run("indexed", func(t *testing.T) {
				everyCall(t, b, func(t *testing.T, b object.Bucket) *object.Client {
					index, err := bucketstore.New(b, "index", &bucketstore.Options{Trusted: true})
					if err != nil {
						t.Fatal(err)
					}
					named, err := indexbucket.New(index, b, &indexbucket.Options{Prefix: "body/"})
					if err != nil {
						t.Fatal(err)
					}
					c, err := object.New(named, nil)
					if err != nil {
						t.Fatal(err)
					}
					return c
				}, &object.Fence{Lock: "lock", Token: 7})
			})
		})
	}
}

// everyCall replaces, creates and copies objects, with a fault in each request in turn.
func everyCall(t *testing.T, below object.Bucket, client func(*testing.T, object.Bucket) *object.Client, fence *object.Fence) {
	ctx := t.Context()
	plain := client(t, below)
	body := func(key string) string {
		r, err := plain.Get(ctx, key, nil)
		if errors.Is(err, store.ErrNotFound) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		all, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(all)
	}
	if _, err := plain.Put(ctx, "source", strings.NewReader("new"), nil); err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(c *object.Client, key string, base *object.Info) error{
		"replace": func(c *object.Client, key string, base *object.Info) error {
			_, err := c.Put(ctx, key, strings.NewReader("new"), &object.WriteOptions{Base: base, Fence: fence})
			return err
		},
		"copy": func(c *object.Client, key string, base *object.Info) error {
			_, err := c.Copy(ctx, "source", key, &object.WriteOptions{Base: base, Fence: fence})
			return err
		},
		"create": func(c *object.Client, key string, _ *object.Info) error {
			_, err := c.Put(ctx, key+"-new", strings.NewReader("new"), &object.WriteOptions{IfAbsent: true, Fence: fence})
			return err
		},
	} {
		for fault, f := range map[string]objecttest.Fault{"fail": objecttest.Fail, "lose": objecttest.Lose, "repeat": objecttest.Repeat} {
			for n := 1; ; n++ {
				key := name + "-" + fault
				before, at := "old", key
				base, err := plain.Put(ctx, key, strings.NewReader("old"), &object.WriteOptions{Force: true})
				if err != nil {
					t.Fatal(err)
				}
				if name == "create" {
					key = fmt.Sprint(key, n)
					before, at = "", key+"-new"
				}
				b := objecttest.NewFaulty(below, objecttest.Nth(n, f))
				err = do(client(t, b), key, &base)
				after, outcome := body(at), store.OutcomeOf(err)
				switch {
				case b.Len() < n && err != nil:
					t.Errorf("%s without a fault: %v", name, err)
				case outcome == store.Applied && after != "new", outcome == store.NotApplied && after != before:
					t.Errorf("%s, %s in request %d: told %v (%v), and there is %q", name, fault, n, outcome, err, after)
				case outcome == store.Unknown && name == "replace" && fault != "fail":
					t.Errorf("%s, %s in request %d: the outcome could be known: %v", name, fault, n, err)
				}
				if b.Len() < n {
					break
				}
			}
		}
	}
}

// What a client does about what a server cannot do: a rename is refused before anything is
// copied, and works under reservations.
func TestObjectRenameWithoutConditionalDelete(t *testing.T) {
	t.Parallel()
	s := set.MinIO(t)
	b, err := target{Kind: "s3", S3: s, Space: s.NewBucket(t, false)}.bucket(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	c, err := object.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(ctx, "source", strings.NewReader("x"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Rename(ctx, "source", "a", &object.WriteOptions{IfAbsent: true}); !errors.Is(err, errors.ErrUnsupported) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("got %v", err)
	}
	if _, err := c.Stat(ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it was copied: %v", err)
	}
	if c, err = object.New(b, &object.Options{Reserver: alone{}}); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Rename(ctx, "source", "a", &object.WriteOptions{IfAbsent: true}); err != nil || done.Info.Key != "a" {
		t.Errorf("under a reservation: %+v, %v", done, err)
	}
	if _, err := c.Stat(ctx, "source"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the source: %v", err)
	}
}

// alone is a Reserver for a test without a second writer.
type alone struct{}

func (alone) Do(ctx context.Context, _ string, _ object.Version, check func(context.Context) error, operate func(context.Context) error) error {
	if err := check(ctx); err != nil {
		return err
	}
	return operate(ctx)
}

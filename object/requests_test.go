package object_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
)

// TestRequests: what each write costs, in requests, with unique versions and where versions
// can return.
func TestRequests(t *testing.T) {
	ctx := t.Context()
	for _, d := range []struct {
		name           string
		unique, hashed int // -1: refused
		do             func(c *object.Client, base object.Info) error
	}{
		{"create", 1, 1, func(c *object.Client, _ object.Info) error {
			_, err := c.Put(ctx, "b", body("x"), &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{"replace", 1, 1, func(c *object.Client, base object.Info) error {
			_, err := c.Put(ctx, "a", body("x"), &object.WriteOptions{Base: &base})
			return err
		}},
		{"replace a version", 2, 2, func(c *object.Client, base object.Info) error {
			_, err := c.Put(ctx, "a", body("x"), &object.WriteOptions{IfMatch: base.Version})
			return err
		}},
		{"overwrite", 2, 1, func(c *object.Client, _ object.Info) error {
			_, err := c.Put(ctx, "a", body("x"), nil)
			return err
		}},
		{"commit under a fence", 1, -1, func(c *object.Client, base object.Info) error {
			_, err := c.Put(ctx, "a", body("x"), &object.WriteOptions{Base: &base, Fence: &token1})
			return err
		}},
		{"raise the fence", 2, -1, func(c *object.Client, _ object.Info) error {
			_, err := c.RaiseFence(ctx, "a", token1)
			return err
		}},
		{"delete", 1, 1, func(c *object.Client, base object.Info) error {
			return c.Delete(ctx, "a", &object.WriteOptions{Base: &base})
		}},
		{"copy", 2, 2, func(c *object.Client, _ object.Info) error {
			_, err := c.Copy(ctx, "a", "b", &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{"rename", 6, 6, func(c *object.Client, _ object.Info) error {
			_, err := c.Rename(ctx, "a", "b", &object.WriteOptions{IfAbsent: true})
			return err
		}},
		{"update", 2, 2, func(c *object.Client, _ object.Info) error {
			_, err := c.Update(ctx, "a", func(b []byte, _ object.Info) ([]byte, error) { return append(b, '+'), nil }, nil)
			return err
		}},
	} {
		for kind, open := range buckets() {
			want := map[string]int{"unique": d.unique, "hashed": d.hashed}[kind]
			below := open()
			base, err := newClient(t, below, nil).Put(ctx, "a", body("old"), nil)
			if err != nil {
				t.Fatal(err)
			}
			b := objecttest.NewFaulty(below, nil)
			err = d.do(newClient(t, b, nil), base)
			if want < 0 && (err == nil || b.Len() != 0) || want >= 0 && (err != nil || b.Len() != want) {
				t.Errorf("%s, %s: %d requests, %v; want %d", d.name, kind, b.Len(), err, want)
			}
		}
	}
}

// FuzzWriteInfo: whatever metadata another program leaves, an object can be read, and a forced
// write gives it a stamp that is read as it was written.
func FuzzWriteInfo(f *testing.F) {
	f.Add("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ.ABCDEFGHIJKLMNOPQRSTUVWXYZ", "lock", "7", "source", "v1", "lock")
	f.Add("x", "..", "%zz", "-1", "%", "#", "\x00 #%/π")
	f.Fuzz(func(t *testing.T, write, before, lock, token, from, version, name string) {
		meta := map[string]string{
			"holdfast-write": write, "holdfast-writes": before, "holdfast-lock": lock, "holdfast-token": token,
			"holdfast-from": from, "holdfast-from-version": version, "k": "v",
		}
		if object.CheckMetadata(meta) != nil || name == "" {
			return // no bucket keeps that
		}
		ctx := context.Background()
		b := membucket.New()
		if _, err := b.Put(ctx, "a", body("x"), &object.PutOptions{Metadata: meta}); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, b, nil)
		info, err := c.Stat(ctx, "a")
		if err != nil || len(info.Metadata) != 1 || info.Metadata["k"] != "v" {
			t.Fatalf("got %+v, %v", info, err)
		}
		fence := object.Fence{Lock: name, Token: 3}
		if _, err := c.Put(ctx, "a", body("y"), &object.WriteOptions{Fence: &fence, Force: true, Metadata: info.Metadata}); err != nil {
			t.Fatal(err)
		}
		info, err = c.Stat(ctx, "a")
		if err != nil || info.WriteInfo.Fence == nil || info.WriteInfo.Fence.Token != 3 || len(info.Metadata) != 1 {
			t.Fatalf("got %+v, %v", info, err)
		}
		if _, err := c.Put(ctx, "a", body("z"), &object.WriteOptions{Fence: info.WriteInfo.Fence, Base: &info}); err != nil {
			t.Errorf("the lock as it was read: %v", err)
		}
		if _, err := c.Put(ctx, "a", body("z"), &object.WriteOptions{Fence: &object.Fence{Lock: name + "x", Token: 9}}); err == nil {
			t.Error("another lock's write")
		}
	})
}

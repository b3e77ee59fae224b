package object_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

func newClient(t *testing.T, b object.Bucket, opts *object.Options) *object.Client {
	t.Helper()
	c, err := object.New(b, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func body(s string) *strings.Reader { return strings.NewReader(s) }

// content returns the body of an object; "absent" where there is none.
func content(t *testing.T, c *object.Client, key string) string {
	t.Helper()
	r, err := c.Get(t.Context(), key, nil)
	if errors.Is(err, store.ErrNotFound) {
		return "absent"
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

// TestConditionalPutIsOneRequest: a put that is answered costs no other request.
func TestConditionalPutIsOneRequest(t *testing.T) {
	b := objecttest.NewFaulty(membucket.New(), nil)
	c := newClient(t, b, nil)
	info, err := c.Put(t.Context(), "a", body("1"), &object.WriteOptions{IfAbsent: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if info, err = c.Put(t.Context(), "a", iotest.OneByteReader(body("2")), &object.WriteOptions{Base: &info}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Delete(t.Context(), "a", &object.WriteOptions{Base: &info}); err != nil {
		t.Fatal(err)
	}
	if n := len(b.Calls()); n != 12 {
		t.Errorf("12 writes were %d requests", n)
	}
	if len(info.WriteInfo.Previous) != object.MaxPrevious {
		t.Errorf("the stamp names %d writes before, want %d", len(info.WriteInfo.Previous), object.MaxPrevious)
	}
}

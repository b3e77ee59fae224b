package largeitem_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// classes is a bucket that takes storage classes and tags.
type classes struct {
	object.Bucket
	puts []object.PutOptions // of objects with a storage class
}

func (c *classes) Put(ctx context.Context, key string, body io.Reader, opts *object.PutOptions) (object.Info, error) {
	o, err := object.CheckPut(key, opts, object.StorageClass, object.Tags)
	if err != nil {
		return object.Info{}, err
	}
	if o.StorageClass != "" {
		c.puts = append(c.puts, o)
	}
	o.StorageClass, o.Tags = "", nil
	return c.Bucket.Put(ctx, key, body, &o)
}

func (c *classes) Unwrap() object.Bucket { return c.Bucket }

// TestStorageClassAndTags: they go, with the headers, with the upload of their attribute. A bucket without them
// refuses, and then nothing is left.
func TestStorageClassAndTags(t *testing.T) {
	w := newWorld(t, nil)
	src := func() large {
		archive := largeitem.Text("archived")
		archive.StorageClass, archive.Tags, archive.ContentType = "STANDARD_IA", map[string]string{"team": "a b"}, "text/plain"
		archive.Headers = object.Headers{CacheControl: "max-age=60", ContentEncoding: "gzip"}
		return large{"archive": archive, "body": largeitem.Text("plain")}
	}
	_, err := w.store.Create(t.Context(), key("p"), nil, src(), nil)
	if !errors.Is(err, errors.ErrUnsupported) || store.OutcomeOf(err) != store.NotApplied {
		t.Errorf("a bucket without storage classes: %v", err)
	}
	if _, err := w.store.GetMeta(t.Context(), key("p")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the item: %v", err)
	}
	for info, err := range w.bucket.List(t.Context(), "", nil) {
		if err != nil || !strings.HasSuffix(info.Key, "/.table") {
			t.Errorf("left: %v, %v", info.Key, err)
		}
	}
	c := &classes{Bucket: w.bucket}
	s := w.open(w.table, c, nil)
	if _, err := s.Create(t.Context(), key("p"), nil, src(), nil); err != nil {
		t.Fatal(err)
	}
	if len(c.puts) != 1 || c.puts[0].StorageClass != "STANDARD_IA" || !maps.Equal(c.puts[0].Tags, map[string]string{"team": "a b"}) || c.puts[0].ContentType != "text/plain" ||
		c.puts[0].Headers != (object.Headers{CacheControl: "max-age=60", ContentEncoding: "gzip"}) {
		t.Errorf("got %+v", c.puts)
	}
	for _, bad := range []largeitem.Source{{Headers: object.Headers{ContentLanguage: "a\nb"}}, {StorageClass: "A B"}, {Tags: map[string]string{"": "x"}}} {
		bad.Body = strings.NewReader("x")
		if _, err := s.Create(t.Context(), key("q"), nil, large{"body": bad}, nil); !errors.Is(err, largeitem.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

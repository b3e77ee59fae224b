package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// world is a table and a bucket without faults.
type world struct {
	t      *testing.T
	table  *memtable.Table
	bucket *membucket.Bucket
	store  *largeitem.Store // for a look without faults
}

func newWorld(t *testing.T, opts *largeitem.Options) *world {
	t.Helper()
	table, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, table: table, bucket: membucket.New()}
	w.store = w.open(table, w.bucket, opts)
	return w
}

func (w *world) open(table largeitem.Table, bucket object.Bucket, opts *largeitem.Options) *largeitem.Store {
	w.t.Helper()
	s, err := largeitem.New(table, bucket, opts)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func key(partition any, sort ...any) largeitem.Key {
	k, err := largeitem.NewKey(partition, sort...)
	if err != nil {
		panic(err)
	}
	return k
}

type (
	attrs = largeitem.Attributes
	large = largeitem.Large
)

// texts makes large attributes of name and content in turn.
func texts(pairs ...string) large {
	l := large{}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = largeitem.Text(pairs[i+1])
	}
	return l
}

// stream is a text that cannot seek.
func stream(text string) largeitem.Source {
	return largeitem.Source{Body: io.MultiReader(strings.NewReader(text))}
}

// contents reads an item with all its large attributes. It returns a text like
// "body=new title=\"x\"", or "" if there is no item. A reference that does not resolve is
// an error.
func contents(ctx context.Context, s *largeitem.Store, k largeitem.Key) (string, error) {
	item, err := s.Get(ctx, k, nil)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer item.Close()
	var words []string
	for _, attr := range slices.Sorted(maps.Keys(item.Refs)) {
		text, err := io.ReadAll(item.Body(attr))
		if err != nil {
			return "", fmt.Errorf("%s: %w", attr, err)
		}
		words = append(words, attr+"="+string(text))
	}
	for _, attr := range slices.Sorted(maps.Keys(item.Attributes)) {
		words = append(words, fmt.Sprintf("%s=%q", attr, item.Attributes[attr]))
	}
	return "item " + strings.Join(words, " "), nil
}

func (w *world) contents(k largeitem.Key) string {
	w.t.Helper()
	text, err := contents(w.t.Context(), w.store, k)
	if err != nil {
		w.t.Errorf("reading the item %v: %v", k, err)
	}
	return text
}

// objects lists the bucket without the object that has the table's name.
func (w *world) objects() (keys []string) {
	w.t.Helper()
	for info, err := range w.bucket.List(w.t.Context(), "", nil) {
		if err != nil {
			w.t.Fatal(err)
		}
		if !strings.HasSuffix(info.Key, ".table") {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

// orphans are the objects that no item refers to.
func (w *world) orphans() (keys []string) {
	w.t.Helper()
	used := map[string]bool{}
	for row, err := range w.table.Scan(w.t.Context(), nil) {
		if err != nil {
			w.t.Fatal(err)
		}
		item, err := w.store.GetMeta(w.t.Context(), row.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range item.Refs {
			used[r.Object] = true
		}
	}
	for _, key := range w.objects() {
		if !used[key] {
			keys = append(keys, key)
		}
	}
	return keys
}

func (w *world) create(k largeitem.Key, a attrs, l large) *largeitem.Result {
	w.t.Helper()
	r, err := w.store.Create(w.t.Context(), k, a, l, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func expectText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

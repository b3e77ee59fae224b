package largeitem_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// hardKeys are keys that are hard to write into names, each in a table of its kind.
var hardKeys = []largeitem.Key{
	key("a/b"), key("="), key("!"), key("!41"), key("#sha256=x&size=1"), key("."), key("../x"), key("\x00\n"), key("äöü 日本語 🙂"), key(" a "), key("a/attr=b/md5=c"),
	key(strings.Repeat("x", 1024)), key(strings.Repeat("/", 1024)), key(strings.Repeat("é", 512)), key(7), key("7"), key(largeitem.Number("-1.5E-100")), key(largeitem.Number("007")),
	key("a", "b"), key("a/sk=b", "c"), key("a", "b/sk=c"), key(strings.Repeat("x", 700), strings.Repeat("y", 700)), key(1, "x"), key("x", 1),
}

// TestHardKeys: with every key an item is created, read, updated and deleted, and nothing
// remains.
func TestHardKeys(t *testing.T) {
	bucket := newWorld(t, nil).bucket
	for _, k := range hardKeys {
		w := newWorld(t, nil)
		w.bucket = bucket
		o := &memtable.Options{Partition: largeitem.KeyAttribute{Name: "pk", Number: k.Partition.Number}}
		if k.HasSort() {
			o.Sort = largeitem.KeyAttribute{Name: "sk", Number: k.Sort.Number}
		}
		table, err := memtable.New(o)
		if err != nil {
			t.Fatal(err)
		}
		w.table, w.bucket = table, bucket
		w.store = w.open(table, bucket, &largeitem.Options{RemoveSuperseded: true, RemoveYoung: true, AdoptPrefix: true})
		w.create(k, attrs{"n": "1"}, texts("body", "v1"))
		if _, err := w.store.Update(t.Context(), k, largeitem.Change{}, texts("body", "v2", "é/=!", "x"), nil); err != nil {
			t.Errorf("%.40v: %v", k, err)
		}
		expectText(t, k.String(), w.contents(k), "item body=v2 é/=!=x n=\"1\"")
		if _, err := w.store.Delete(t.Context(), k, nil); err != nil {
			t.Errorf("%.40v: %v", k, err)
		}
		if left := w.objects(); len(left) > 0 {
			t.Fatalf("%.40v: %q is left", k, left)
		}
	}
}

// TestBadInput: what cannot work is refused before anything is sent, by an error that says
// what and why.
func TestBadInput(t *testing.T) {
	ctx := t.Context()
	big := strings.Repeat("x", 400<<10)
	set := func(a attrs) largeitem.Change { return largeitem.Change{Set: a} }
	listed := &largeitem.Options{Attributes: []string{"body"}}
	nameless := errors.New("there is no name")
	layout, err := largeitem.CustomLayout(largeitem.CustomNames{
		Name:  func(largeitem.Content) (string, error) { return "", nameless },
		Owner: func(string) (o largeitem.Owner, ok bool) { return o, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opts *largeitem.Options
		run  func(s *largeitem.Store, w *world) error
		is   error
		want []string
	}{
		{"an empty key", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, largeitem.Key{}, nil, texts("body", "x"), nil))
		}, store.ErrKey, []string{"partition key is empty"}},
		{"a key that is not UTF-8", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, largeitem.Key{Partition: largeitem.KeyValue{Text: "\xff"}}, nil, texts("body", "x"), nil))
		}, store.ErrKey, []string{"not valid UTF-8"}},
		{"a key that is too long", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, largeitem.Key{Partition: largeitem.KeyValue{Text: strings.Repeat("x", 2049)}}, nil, texts("body", "x"), nil))
		}, store.ErrKey, []string{"2049 bytes", "at most 2048"}},
		{"a key that metadata cannot keep", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key(strings.Repeat("x", 2048)), nil, texts("body", "x"), nil))
		}, object.ErrInvalid, []string{`"body"`, "bytes; at most 2048"}},
		{"a sort key that the table lacks", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("a", "b"), nil, texts("body", "x"), nil))
		}, store.ErrKey, []string{"has no sort key"}},
		{"a number for a text", nil, func(s *largeitem.Store, _ *world) error { return ignore(s.Delete(ctx, key(7), nil)) }, store.ErrKey, []string{`"pk"`, "must be a text"}},
		{"a large attribute in the change", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, set(attrs{"body": "x"}), texts("body", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "Change.Set"}},
		{"a large attribute that is removed", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{Remove: []string{"body"}}, texts("body", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "Change.Remove"}},
		{"a large attribute given twice", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), attrs{"body": "x"}, texts("body", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "the other attributes"}},
		{"a listed attribute that is not large", listed, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), attrs{"body": nil}, nil, nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "Large"}},
		{"a large attribute that is not listed", listed, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), nil, texts("image", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"image"`, "Options.Attributes"}},
		{"the key as a large attribute", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), nil, texts("pk", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"pk"`, "of the key"}},
		{"the key in the change", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, set(attrs{"pk": "x"}), texts("body", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"pk"`, "of the key"}},
		{"no content", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": {}}, nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "Change.Remove"}},
		{"a negative size", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": {Body: strings.NewReader("x"), Size: -1}}, nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "-1"}},
		{"another size", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": {Body: strings.NewReader("x"), Size: 2}}, nil))
		}, largeitem.ErrInvalid, []string{`"body"`, "has 1 bytes, but Size is 2"}},
		{"one body twice", nil, func(s *largeitem.Store, _ *world) error {
			src := largeitem.Text("x")
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": src, "image": src}, nil))
		}, largeitem.ErrInvalid, []string{`"body"`, `"image"`, "the same Body"}},
		{"a name that is too long", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, texts(strings.Repeat("/", 100), "x"), nil))
		}, largeitem.ErrInvalid, []string{"at most 200"}},
		{"a name that the caller cannot make", &largeitem.Options{Layout: layout}, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), nil, texts("body", "x"), nil))
		}, nameless, []string{"CustomNames.Name"}},
		{"an empty name", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, texts("", "x"), nil))
		}, largeitem.ErrInvalid, []string{"empty name"}},
		{"metadata of the store", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": {Body: strings.NewReader("x"), Metadata: map[string]string{"pk": "y"}}}, nil))
		}, largeitem.ErrInvalid, []string{`"pk"`, `"body"`}},
		{"too much metadata", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": {Body: strings.NewReader("x"), Metadata: map[string]string{"y": strings.Repeat("y", 2000)}}}, nil))
		}, object.ErrInvalid, []string{`"body"`, "at most 2048"}},
		{"a storage class that is none", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, large{"body": {Body: strings.NewReader("x"), StorageClass: "x y"}}, nil))
		}, object.ErrInvalid, []string{`"body"`, `"x y"`}},
		{"an item that is too large", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), attrs{"n": big}, texts("body", "x"), nil))
		}, store.ErrTooLarge, []string{"409600", "at most"}},
		{"a change that is too large", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, set(attrs{"n": big}), texts("body", "x"), nil))
		}, store.ErrTooLarge, []string{"at most"}},
		{"a value that no table keeps", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), attrs{"n": 7}, texts("body", "x"), nil))
		}, largeitem.ErrInvalid, []string{`"n"`, "int"}},
		{"a reference as a value", nil, func(s *largeitem.Store, w *world) error {
			item, err := w.store.GetMeta(ctx, k1)
			if err != nil {
				return err
			}
			return ignore(s.Create(ctx, key("b"), attrs{"copy": item.Refs["body"].URI}, nil, nil))
		}, largeitem.ErrInvalid, []string{`"copy"`, "looks like a reference"}},
		{"a reference to another bucket as a value", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), attrs{"copy": "s3://b/x#sha256=" + strings.Repeat("0", 64) + "&size=1"}, nil, nil))
		}, largeitem.ErrInvalid, []string{`"copy"`}},
		{"a condition against the operation", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Create(ctx, key("b"), nil, texts("body", "x"), &largeitem.WriteOptions{If: largeitem.Condition{Exists: true}}))
		}, largeitem.ErrInvalid, []string{"contradicts the write"}},
		{"a condition against itself", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, texts("body", "x"), &largeitem.WriteOptions{If: largeitem.Condition{Equal: attrs{"n": "x"}, Missing: []string{"n"}}}))
		}, largeitem.ErrInvalid, []string{"WriteOptions.If", `"n"`}},
		{"another item as a base", nil, func(s *largeitem.Store, _ *world) error {
			return ignore(s.Update(ctx, k1, largeitem.Change{}, texts("body", "x"), &largeitem.WriteOptions{Base: &largeitem.Item{Key: key("b")}}))
		}, largeitem.ErrInvalid, []string{"WriteOptions.Base", `"b"`}},
		{"nothing to prepare", nil, func(s *largeitem.Store, _ *world) error {
			_, err := s.Prepare(ctx, k1, nil, nil)
			return err
		}, largeitem.ErrInvalid, []string{"nothing to prepare"}},
		{"a condition for a write that the caller makes", nil, func(s *largeitem.Store, _ *world) error {
			_, err := s.Prepare(ctx, k1, texts("body", "x"), &largeitem.WriteOptions{If: largeitem.Condition{Exists: true}})
			return err
		}, largeitem.ErrInvalid, []string{"WriteOptions.If", "PreparedWrite.Condition"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			setupOld(w)
			before := len(w.objects())
			err := c.run(w.process(nil, c.opts), w)
			if !errors.Is(err, c.is) || store.OutcomeOf(err) != store.NotApplied {
				t.Errorf("got %v (%v), want %v", err, store.OutcomeOf(err), c.is)
			}
			for _, want := range c.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not tell %q", err, want)
				}
			}
			if err != nil && len(err.Error()) > 3000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			if n := len(w.objects()); n != before {
				t.Errorf("%d objects were uploaded", n-before)
			}
			expectText(t, "the item", w.contents(k1), old)
		})
	}
}

// rewrite changes the reference of an item, past the store.
func (w *world) rewrite(k largeitem.Key, attr string, f func(uri string) string) {
	w.t.Helper()
	item, err := w.table.Get(w.t.Context(), k, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.table.Update(w.t.Context(), k, largeitem.Change{Set: attrs{attr: f(item[attr].(string))}}, nil); err != nil {
		w.t.Fatal(err)
	}
}

// TestBadReferences: a reference that is not this item's, or that does not resolve, is an
// error that names item, attribute and reference. It is not followed, nor is its object
// removed; writing the attribute again mends the item.
func TestBadReferences(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		name string
		bad  func(w *world)
		is   error
		want string
	}{
		{"to another bucket", func(w *world) {
			w.rewrite(k1, "body", func(uri string) string { return strings.Replace(uri, "memory/", "s3://other/", 1) })
		}, largeitem.ErrForeign, "not in the bucket memory"},
		{"of another item", func(w *world) {
			item, _ := w.table.Get(ctx, key("other"), nil)
			w.rewrite(k1, "body", func(string) string { return item["body"].(string) })
		}, largeitem.ErrForeign, "copied from another item"},
		{"of another attribute", func(w *world) {
			item, _ := w.table.Get(ctx, k1, nil)
			w.rewrite(k1, "body", func(string) string { return item["image"].(string) })
		}, largeitem.ErrForeign, "copied from another item"},
		{"under another prefix", func(w *world) {
			w.rewrite(k1, "body", func(uri string) string { return strings.Replace(uri, "memory/", "memory/p/", 1) })
		}, largeitem.ErrForeign, `under the prefix ""`},
		{"to a missing object", func(w *world) {
			item, _ := w.store.GetMeta(ctx, k1)
			_ = w.bucket.Delete(ctx, item.Refs["body"].Object, nil)
		}, largeitem.ErrMissing, "is missing"},
		{"with a wrong hash", func(w *world) {
			item, _ := w.store.GetMeta(ctx, k1)
			_, _ = w.bucket.Put(ctx, item.Refs["body"].Object, strings.NewReader("odl"), nil)
		}, store.ErrCorrupt, "SHA-256"},
		{"with a wrong size", func(w *world) {
			item, _ := w.store.GetMeta(ctx, k1)
			_, _ = w.bucket.Put(ctx, item.Refs["body"].Object, strings.NewReader("older"), nil)
		}, store.ErrCorrupt, "has 5 bytes, but must have 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, removing())
			setupOld(w)
			w.create(key("other"), nil, texts("body", "theirs"))
			c.bad(w)
			_, err := contents(ctx, w.store, k1)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"body"`) {
				t.Errorf("got %v, want %v with %q", err, c.is, c.want)
			}
			item, err := w.store.GetMeta(ctx, k1)
			if err != nil {
				t.Fatal(err)
			}
			if e := item.Foreign["body"]; errors.Is(c.is, largeitem.ErrForeign) != (e != nil) {
				t.Errorf("its references: %v, and not followed: %v", item.Refs, item.Foreign)
			}
			if _, err := w.store.Open(ctx, item, "body"); c.is != store.ErrCorrupt && !errors.Is(err, c.is) {
				t.Errorf("opened alone: %v", err)
			}
			if b, err := w.store.Get(ctx, k1, &largeitem.ReadOptions{Attributes: []string{"image"}}); err != nil {
				t.Errorf("another attribute: %v", err)
			} else if text, err := io.ReadAll(b.Body("image")); string(text) != "pic" || err != nil || b.Body("body") != nil {
				t.Errorf("another attribute: %s, %v", text, err)
			}
			if w.update(w.store, "new"); w.contents(k1) != strings.Replace(old, "old", "new", 1) {
				t.Errorf("written again: %s", w.contents(k1))
			}
			if _, err := w.store.Delete(ctx, k1, nil); err != nil {
				t.Error(err)
			}
			expectText(t, "the other item", w.contents(key("other")), "item body=theirs")
		})
	}
}

// TestOpenWhatIsNot: an attribute that is not large cannot be opened.
func TestOpenWhatIsNot(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	item, err := w.store.GetMeta(t.Context(), k1)
	if err != nil {
		t.Fatal(err)
	}
	for _, attr := range []string{"title", "none"} {
		if _, err := w.store.Open(t.Context(), item, attr); !errors.Is(err, largeitem.ErrInvalid) || !strings.Contains(err.Error(), attr) {
			t.Errorf("%s: %v", attr, err)
		}
	}
	if _, err := w.store.Get(t.Context(), key("none"), nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no item: %v", err)
	}
}

// TestSources: every kind of body arrives as it is, from its current position.
func TestSources(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/body")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("skipped and kept"); err != nil {
		t.Fatal(err)
	}
	pipeRead, pipeWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipeRead.Close()
	long := strings.Repeat("0123456789", 105_000) // a little more than is kept in memory
	for _, layout := range []largeitem.Layout{largeitem.DefaultLayout(), largeitem.PynamoDBMateLayout()} {
		spool := t.TempDir()
		opts := &largeitem.Options{Layout: layout, BaseURI: "s3://b", SpoolDir: spool, RemoveSuperseded: true, RemoveYoung: true}
		for want, src := range map[string]func() largeitem.Source{
			"":  func() largeitem.Source { return largeitem.Bytes(nil) },
			"x": func() largeitem.Source { return stream("x") },
			"kept": func() largeitem.Source {
				_, _ = file.Seek(12, io.SeekStart)
				return largeitem.Source{Body: file, Size: 4}
			},
			"piped": func() largeitem.Source {
				_, _ = pipeWrite.WriteString("piped")
				return largeitem.Source{Body: io.LimitReader(pipeRead, 5)}
			},
			long: func() largeitem.Source { return stream(long) },
			long + "x": func() largeitem.Source {
				return largeitem.Source{Body: io.MultiReader(strings.NewReader(long + "x")), Size: int64(len(long) + 1)}
			},
			long[:1<<20]:   func() largeitem.Source { return stream(long[:1<<20]) },
			long[:1<<20-1]: func() largeitem.Source { return stream(long[:1<<20-1]) },
		} {
			w := newWorld(t, opts)
			w.create(k1, nil, large{"body": src()})
			if got := w.contents(k1); got != "item body="+want {
				t.Errorf("%T: got %d bytes, want %d", layout, len(got), len(want))
			}
			// What the item has already is not uploaded again, unless it is a stream.
			r, err := w.store.Update(t.Context(), k1, largeitem.Change{}, large{"body": src()}, nil)
			if err != nil || len(r.Puts) != 1 || w.contents(k1) != "item body="+want {
				t.Errorf("%T: again: %+v, %v", layout, r, err)
			}
			if n := len(w.objects()); n != 1 {
				t.Errorf("%T: %d objects", layout, n)
			}
		}
		if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
			t.Errorf("%q is left, %v", left, err)
		}
	}
}

// TestBrokenSources: a body that fails, or is not what it was, is an error, and nothing is
// left.
func TestBrokenSources(t *testing.T) {
	broken := errors.New("the disk is gone")
	for _, layout := range []largeitem.Layout{largeitem.DefaultLayout(), largeitem.PynamoDBMateLayout()} {
		for name, c := range map[string]struct {
			src  largeitem.Source
			is   error
			want string
		}{
			"fails":         {largeitem.Source{Body: io.MultiReader(strings.NewReader("x"), &failing{err: broken})}, broken, "the disk is gone"},
			"too short":     {largeitem.Source{Body: io.MultiReader(strings.NewReader("x")), Size: 2}, store.ErrInvalid, "bytes"},
			"too long":      {largeitem.Source{Body: io.MultiReader(strings.NewReader("xyz")), Size: 2}, store.ErrInvalid, "bytes"},
			"cannot rewind": {largeitem.Source{Body: &failing{Reader: strings.NewReader("x"), err: broken, seeks: 2}}, broken, "the disk is gone"},
		} {
			w := newWorld(t, &largeitem.Options{Layout: layout, BaseURI: "s3://b"})
			_, err := w.store.Create(t.Context(), k1, nil, large{"body": c.src}, nil)
			if !errors.Is(err, c.is) || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `"body"`) {
				t.Errorf("%T: %s: %v (%v)", layout, name, err, store.OutcomeOf(err))
			}
			if left := w.objects(); len(left) > 0 || w.contents(k1) != "" {
				t.Errorf("%T: %s: %q is left, the item is %q", layout, name, left, w.contents(k1))
			}
		}
	}
	// A file that is written while it is read: the name, or the comparison, is of other bytes.
	w := newWorld(t, nil)
	w.create(k1, nil, texts("body", "old"))
	changing := &changing{Reader: bytes.NewReader([]byte("new"))}
	_, err := w.store.Update(t.Context(), k1, largeitem.Change{}, large{"body": {Body: changing}}, nil)
	if err == nil || store.OutcomeOf(err) != store.NotApplied || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("got %v", err)
	}
	expectText(t, "the item", w.contents(k1), "item body=old")
}

// failing is a reader that fails, and from a number of calls on a seeker that fails.
type failing struct {
	io.Reader
	err   error
	seeks int
}

func (f *failing) Read(p []byte) (int, error) {
	if f.Reader == nil {
		return 0, f.err
	}
	return f.Reader.Read(p)
}

func (f *failing) Seek(offset int64, whence int) (int64, error) {
	if f.seeks--; f.seeks < 0 {
		return 0, f.err
	}
	return f.Reader.(io.Seeker).Seek(offset, whence)
}

// changing has other bytes from the second reading on.
type changing struct {
	*bytes.Reader
	ends int
}

func (c *changing) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		c.ends++
	}
	if c.ends > 0 && n > 0 {
		p[0]++
	}
	return n, err
}

func (c *changing) WriteTo(io.Writer) (int64, error) { panic("the buffer is not bounded") }

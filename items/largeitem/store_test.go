package largeitem_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/object/objecttest"
	"github.com/holdfast-go/holdfast/store"
)

// TestRequests: each operation sends exactly so many requests, and none that is not needed.
func TestRequests(t *testing.T) {
	const marker = "items/.table"
	for _, c := range []struct {
		name, want string
		opts       *largeitem.Options
		run        func(s *largeitem.Store) error
	}{
		{"create", "put o, put o, put item", nil, func(s *largeitem.Store) error {
			return ignore(s.Create(t.Context(), key("new"), attrs{"n": "x"}, texts("body", "b", "image", "i"), nil))
		}},
		{"create without large attributes", "put item", nil, func(s *largeitem.Store) error {
			return ignore(s.Create(t.Context(), key("new"), attrs{"n": "x"}, nil, nil))
		}},
		{"update", "get item, put o, update item", nil, func(s *largeitem.Store) error {
			return ignore(s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "new"), nil))
		}},
		{"update of what was read", "put o, update item", nil, nil},
		{"update with the same content", "get item, update item", nil, func(s *largeitem.Store) error {
			return ignore(s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "old"), nil))
		}},
		{"update with the same content from a stream", "get item, put o, update item", nil, func(s *largeitem.Store) error {
			return ignore(s.Update(t.Context(), k1, largeitem.Change{}, large{"body": stream("old")}, nil))
		}},
		{"update and remove", "get item, put o, update item, delete o", &largeitem.Options{RemoveSuperseded: true, RemoveYoung: true}, func(s *largeitem.Store) error {
			return ignore(s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "new"), nil))
		}},
		{"update and remove what is old", "get item, put o, update item, stat o", &largeitem.Options{RemoveSuperseded: true}, func(s *largeitem.Store) error {
			return ignore(s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "new"), nil))
		}},
		{"update of other attributes", "update item", &largeitem.Options{Attributes: []string{"body", "image"}}, func(s *largeitem.Store) error {
			return ignore(s.Update(t.Context(), k1, largeitem.Change{Set: attrs{"title": "u"}}, nil, nil))
		}},
		{"update of nothing", "get item", nil, func(s *largeitem.Store) error {
			err := ignore(s.Update(t.Context(), key("none"), largeitem.Change{}, texts("body", "new"), nil))
			if errors.Is(err, store.ErrNotFound) {
				return nil
			}
			return err
		}},
		{"upsert", "get item, put o, update item", nil, func(s *largeitem.Store) error {
			return ignore(s.Upsert(t.Context(), key("new"), largeitem.Change{}, texts("body", "new"), nil))
		}},
		{"replace", "get item, put o, put item", nil, func(s *largeitem.Store) error {
			return ignore(s.Replace(t.Context(), k1, nil, texts("body", "new"), nil))
		}},
		{"delete", "delete item", nil, func(s *largeitem.Store) error { return ignore(s.Delete(t.Context(), k1, nil)) }},
		{"delete and remove", "delete item, get marker, delete o, delete o", &largeitem.Options{RemoveSuperseded: true, RemoveYoung: true}, func(s *largeitem.Store) error {
			return ignore(s.Delete(t.Context(), k1, nil))
		}},
		{"get", "get item, get o, get o", nil, func(s *largeitem.Store) error {
			_, err := contents(t.Context(), s, k1)
			return err
		}},
		{"get one", "get item, get o", nil, func(s *largeitem.Store) error {
			item, err := s.Get(t.Context(), k1, &largeitem.ReadOptions{Attributes: []string{"image", "none"}})
			if err == nil {
				err = item.Close()
			}
			return err
		}},
		{"get without large attributes", "get item", nil, func(s *largeitem.Store) error {
			_, err := s.GetMeta(t.Context(), k1)
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			setupOld(w)
			item, err := w.store.GetMeta(t.Context(), k1)
			if err != nil {
				t.Fatal(err)
			}
			if c.run == nil {
				c.run = func(s *largeitem.Store) error {
					return ignore(s.Update(t.Context(), k1, largeitem.Change{}, texts("body", "new"), &largeitem.WriteOptions{Base: item}))
				}
			}
			faults := objecttest.NewFaults(nil)
			s := w.open(itemtest.NewFaulty(w.table, faults), faults.Bucket(w.bucket), c.opts)
			if err := s.ClaimPrefix(t.Context()); err != nil {
				t.Fatal(err)
			}
			marked := faults.Len()
			if err := c.run(s); err != nil {
				t.Fatal(err)
			}
			var words []string
			for _, call := range faults.Calls()[marked:] {
				what := "item"
				switch {
				case call.Key == marker:
					what = "marker"
				case strings.HasPrefix(call.Key, "items/"):
					what = "o"
				}
				words = append(words, string(call.Op)+" "+what)
			}
			want := c.want
			if strings.Contains(want, "put o") || strings.Contains(c.name, "stream") {
				want = strings.Replace(want, "put o", "get marker, put o", 1) // once in the life of a store
			}
			if got := strings.Join(words, ", "); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// TestMarker: a prefix belongs to one table, and a second one of the same name does not
// touch it.
func TestMarker(t *testing.T) {
	w := newWorld(t, nil)
	setupOld(w)
	other, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]*largeitem.Options{"the same prefix": nil, "another prefix": {Prefix: "b"}} {
		s := w.open(other, w.bucket, opts)
		_, err := s.Create(t.Context(), k1, nil, texts("body", "x"), nil)
		if name == "another prefix" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		var others *largeitem.OtherTableError
		if !errors.As(err, &others) || !errors.Is(err, store.ErrMisconfigured) || store.OutcomeOf(err) != store.NotApplied || others.Object != "items/.table" {
			t.Errorf("%s: %v (%v)", name, err, store.OutcomeOf(err))
		}
		if _, err := s.Create(t.Context(), key("no large"), attrs{"n": "x"}, nil, nil); err != nil {
			t.Errorf("an item without large attributes: %v", err)
		}
	}
	adopting := w.open(other, w.bucket, &largeitem.Options{AdoptPrefix: true})
	if _, err := adopting.Create(t.Context(), k1, nil, texts("body", "x"), nil); err != nil && !errors.Is(err, store.ErrConflict) {
		t.Error(err)
	}
	if _, err := w.open(w.table, w.bucket, nil).Create(t.Context(), key("new"), nil, texts("body", "x"), nil); !errors.Is(err, store.ErrMisconfigured) {
		t.Errorf("after another table has taken the prefix: %v", err)
	}
	if _, err := w.bucket.Put(t.Context(), "items/.table", strings.NewReader("{"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(w.table, w.bucket, nil).Create(t.Context(), key("new"), nil, texts("body", "x"), nil); !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "items/.table") {
		t.Errorf("an object that cannot be read: %v", err)
	}
}

// TestMarkerFaulty: whatever fails when the table's name is written, one table owns the
// prefix in the end.
func TestMarkerFaulty(t *testing.T) {
	for _, s := range schedules(3, objecttest.Pass, objecttest.Fail, objecttest.Lose, objecttest.Late) {
		w := newWorld(t, nil)
		faults := objecttest.NewFaults(s.decide)
		first := w.open(w.table, faults.Bucket(w.bucket), nil).ClaimPrefix(t.Context())
		other, err := memtable.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		second := w.open(other, w.bucket, nil).ClaimPrefix(t.Context())
		faults.Deliver()
		if (first == nil) == (second == nil) && first == nil {
			t.Errorf("%v: both tables own the prefix", s.faults)
		}
		if again := w.open(other, w.bucket, nil).ClaimPrefix(t.Context()); (again == nil) != (second == nil) {
			t.Errorf("%v: the second table: %v, then %v", s.faults, second, again)
		}
	}
}

// TestOptions: options out of their bounds are refused, and tell which.
func TestOptions(t *testing.T) {
	table, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]largeitem.Options{
		"OrphanAge is 59m":    {OrphanAge: 59 * time.Minute},
		"Parallel is 65":      {Parallel: 65},
		"Parallel is -1":      {Parallel: -1},
		"Prefix has 256":      {Prefix: strings.Repeat("x", 255) + "/"},
		"Prefix: invalid key": {Prefix: "\xff"},
		"BaseURI is \"x/\"":   {BaseURI: "x/"},
		"BaseURI is \"x\\n\"": {BaseURI: "x\n"},
		"Attributes is empty": {Attributes: []string{}},
		"names \"a\" twice":   {Attributes: []string{"a", "b", "a"}},
		"an empty name":       {Attributes: []string{""}},
		"at most 200":         {Attributes: []string{strings.Repeat("x", 201)}},
		"s3://BUCKET":         {Layout: largeitem.PynamoDBMateLayout()},
	} {
		_, err := largeitem.New(table, membucket.New(), &o)
		if want == "Prefix has 256" {
			if err != nil {
				t.Errorf("256 bytes: %v", err)
			}
			continue
		}
		if !errors.Is(err, largeitem.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want one with %q", err, want)
		}
	}
	for _, o := range []largeitem.Options{{OrphanAge: time.Hour}, {Parallel: 64}, {Parallel: 1}, {Layout: largeitem.PynamoDBMateLayout(), BaseURI: "s3://b"}} {
		if _, err := largeitem.New(table, membucket.New(), &o); err != nil {
			t.Error(err)
		}
	}
	if _, err := largeitem.New(nil, membucket.New(), nil); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("no table: %v", err)
	}
	if _, err := largeitem.New(table, nil, nil); !errors.Is(err, largeitem.ErrInvalid) {
		t.Errorf("no bucket: %v", err)
	}
}

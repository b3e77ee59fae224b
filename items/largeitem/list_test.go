package largeitem_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// TestList: every item is listed with its references, and without its large attributes.
func TestList(t *testing.T) {
	s := listed(t)
	var want []string
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.Create(t.Context(), key(name), attrs{"n": name}, texts("body", "body of "+name), nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	var got []string
	for i, err := range s.List(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, i.Key.Partition.Text)
		if i.Refs["body"].Size != 9 || i.Attributes["n"] != i.Key.Partition.Text || i.Body("body") != nil {
			t.Errorf("%v: %+v", i.Key, i)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range s.List(t.Context(), nil) {
		break
	}
}

// TestListFails: an error ends the listing.
func TestListFails(t *testing.T) {
	s := listed(t)
	n := 0
	for i, err := range s.List(t.Context(), &largeitem.ScanOptions{After: "no position"}) {
		if n++; i != nil || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("got %v, %v", i, err)
		}
	}
	if n != 1 {
		t.Errorf("%d answers to a position that there is not", n)
	}
}

func listed(t *testing.T) *largeitem.Store {
	table, err := memtable.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := largeitem.New(table, membucket.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAlways: an item whose object is missing is mended by the same content.
func TestAlways(t *testing.T) {
	s := listed(t)
	for _, c := range []struct{ always, uploaded bool }{{false, true}, {false, false}, {true, true}} {
		r, err := s.Upsert(t.Context(), key("a"), largeitem.Change{}, large{"body": {Body: strings.NewReader("x"), ForceUpload: c.always}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Puts[0].Uploaded != c.uploaded {
			t.Errorf("always %v: uploaded %v", c.always, r.Puts[0].Uploaded)
		}
	}
}

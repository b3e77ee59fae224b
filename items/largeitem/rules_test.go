package largeitem_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

// Sizes as Amazon's documentation counts them.
func TestSize(t *testing.T) {
	for _, c := range []struct {
		value any
		want  int
	}{
		{"", 0}, {"é", 2}, {[]byte("abc"), 3}, {true, 1}, {nil, 1},
		{largeitem.Number("0"), 1}, {largeitem.Number("7"), 2}, {largeitem.Number("1234"), 3}, {largeitem.Number("-1234.5"), 5},
		{largeitem.Number("1000000"), 2}, {largeitem.Number("1e100"), 2}, {largeitem.Number("0.001"), 2},
		{largeitem.Number("-" + strings.Repeat("1", 38)), 21},
		{[]any{}, 3}, {[]any{"a", "bc"}, 8}, {map[string]any{"k": "abc"}, 8},
		{largeitem.StringSet{"a", "bc"}, 3}, {largeitem.NumberSet{"1", "22"}, 4}, {largeitem.BinarySet{{1}, {2, 3}}, 3},
	} {
		if got := (largeitem.Attributes{"name": c.value}).Size(); got != 4+c.want {
			t.Errorf("%#v: got %d, want %d", c.value, got-4, c.want)
		}
	}
	schema := largeitem.Schema{Partition: largeitem.KeyAttribute{Name: "pk"}, Sort: largeitem.KeyAttribute{Name: "sk", Number: true}}
	key, err := largeitem.NewKey("abc", 7)
	if err != nil {
		t.Fatal(err)
	}
	if got := schema.ItemSize(key, largeitem.Attributes{"a": "x"}); got != 2+3+2+2+2 {
		t.Errorf("an item: got %d", got)
	}
}

// Sets of many thousand elements are compared and checked in no time.
func TestLargeSets(t *testing.T) {
	var a, b largeitem.StringSet
	const n = 100_000
	for i := range n {
		a = append(a, strconv.Itoa(i))
		b = append(b, strconv.Itoa(n-1-i))
	}
	start := time.Now()
	if !largeitem.Equal(a, b) {
		t.Error("sets with the same elements differ")
	}
	b[0] = "x"
	if largeitem.Equal(a, b) {
		t.Error("sets with other elements are equal")
	}
	if err := (largeitem.Attributes{"a": a}).Check(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if largeitem.Equal(largeitem.StringSet{"a", "a"}, largeitem.StringSet{"a", "b"}) || largeitem.Equal(largeitem.StringSet{"a", "b"}, largeitem.StringSet{"a", "a"}) {
		t.Error("an element twice counts for another one")
	}
}

// What is cloned shares nothing, and what is empty does not become null.
func TestClone(t *testing.T) {
	a := largeitem.Attributes{"b": []byte(nil), "l": []any(nil), "m": map[string]any(nil), "s": largeitem.BinarySet{{1}}, "n": nil}
	c := a.Clone()
	if c["b"] == nil || c["l"] == nil || c["m"] == nil || c["n"] != nil || len(c) != len(a) {
		t.Errorf("got %#v", c)
	}
	c["s"].(largeitem.BinarySet)[0][0] = 2
	if a["s"].(largeitem.BinarySet)[0][0] != 1 {
		t.Error("the clone shares a set")
	}
	if largeitem.Attributes(nil).Clone() != nil {
		t.Error("the clone of no item is one")
	}
}

// An expression that changes what the rest of the change names is refused, also when it
// removes it.
func TestOverlappingChange(t *testing.T) {
	for _, f := range []largeitem.ChangeFunc{
		func(item largeitem.Attributes) error { item["a"] = "y"; return nil },
		func(item largeitem.Attributes) error { delete(item, "a"); return nil },
		func(item largeitem.Attributes) error { item["b"] = nil; return nil },
	} {
		change := largeitem.Change{Set: largeitem.Attributes{"a": "z"}, Remove: []string{"b"}, Expr: f}
		if got, err := change.Apply(largeitem.Attributes{"a": "x"}); !errors.Is(err, largeitem.ErrInvalid) {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func TestKeyText(t *testing.T) {
	for _, c := range []struct {
		partition any
		sort      []any
		want      string
	}{
		{"a", nil, `["a"]`},
		{7, nil, `[7]`},
		{largeitem.Number("1e100"), []any{"<é&\"\n\u2028"}, `[1E+100,"<é&\"\u000a` + "\u2028" + `"]`},
		{"7", []any{largeitem.Number("-0.50")}, `["7",-0.5]`},
	} {
		key, err := largeitem.NewKey(c.partition, c.sort...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := key.MarshalText()
		if err != nil || string(text) != c.want {
			t.Errorf("got %s, %v, want %s", text, err, c.want)
		}
		var back largeitem.Key
		if err := back.UnmarshalText(text); err != nil || back != key {
			t.Errorf("%s: got %v, %v", text, back, err)
		}
	}
	if _, err := (largeitem.Key{}).MarshalText(); !errors.Is(err, largeitem.ErrKey) {
		t.Errorf("no key: %v", err)
	}
	for _, text := range []string{``, `[]`, `"a"`, `{}`, `["a"`, `["a"] ` + "\n" + `1`, `["a","b","c"]`, `[null]`, `[true]`, `[[]]`, `[""]`, `["\ud800"]`, `["\udc00\ud800"]`, `["\ud800x"]`, `["\ud800\u0041"]`, "[\"\xff\"]", `[1e999]`} {
		key := largeitem.Key{Partition: largeitem.KeyValue{Text: "before"}}
		if err := key.UnmarshalText([]byte(text)); !errors.Is(err, largeitem.ErrKey) || key.Partition.Text != "before" {
			t.Errorf("%s: got %v, %v", text, key, err)
		}
	}
	var key largeitem.Key
	if err := key.UnmarshalText([]byte(`["\ud83d\uDE00 \\ud800"]`)); err != nil || key.Partition.Text != "\U0001F600 \\ud800" {
		t.Errorf("got %v, %v", key, err)
	}
}

// What is read is a key, and is written and read again as it is.
func FuzzKeyText(f *testing.F) {
	for _, text := range []string{`["a"]`, `["a",7]`, `[1e5,"\u00e9"]`, `["\ud83d\ude00"]`, `[ -0 , "" ]`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var key, again largeitem.Key
		if key.UnmarshalText(text) != nil {
			return
		}
		written, err := key.MarshalText()
		if err != nil {
			t.Fatalf("%q is read as %v, which is no key: %v", text, key, err)
		}
		if err := again.UnmarshalText(written); err != nil || again != key {
			t.Fatalf("%q is written as %q, and read as %v, %v", text, written, again, err)
		}
	})
}

package itemtest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// values has a value of each type, and those at the edges.
func values() attributes {
	return attributes{
		"text": "some", "empty": "", "odd": "a/b=c;d 'e' \"f\" \\ <&> é 界 \u2028", "reference": "s3://bucket/key#sha256=0&size=1",
		"zero": largeitem.Number("0"), "negative": largeitem.Number("-1.5"), "digits": largeitem.Number("12345678901234567890123456789012345678"),
		"huge": largeitem.Number("9.9999999999999999999999999999999999999E+125"), "tiny": largeitem.Number("1E-130"),
		"bytes": []byte{0, 1, 0xff, 0xfe}, "no bytes": []byte{},
		"true": true, "false": false, "null": nil,
		"list":       []any{"a", largeitem.Number("1"), nil, true, []any{}, map[string]any{"x": []byte{0}}},
		"empty list": []any{}, "empty map": map[string]any{},
		"map":     map[string]any{"a": map[string]any{"b": "c"}, "S": "x", "set": largeitem.StringSet{"x"}},
		"texts":   largeitem.StringSet{"b", "a", ""},
		"numbers": largeitem.NumberSet{"3", "-1", "2.5"},
		"bodies":  largeitem.BinarySet{{1}, {}, {0xff}},
		"Text":    "another case", "a.b": "a dot", "#x": "a hash", ":x": "a colon", "size": "a word of DynamoDB", "select": "a word of SQL", `quo"te`: "a quote", "qu?estion $1": "a mark", "é": "an accent",
	}
}

func basicCases() []testCase {
	return []testCase{
		{"Schema", "The schema describes the table, and stays the same.", func(e *env) {
			if err := e.schema.Check(); err != nil || e.schema.Name == "" || e.schema.Table == "" || e.schema.ID == "" {
				e.Errorf("got %+v, %v", e.schema, err)
			}
			again, err := e.other.Schema(e.ctx)
			again.MaxItem = cmp.Or(again.MaxItem, largeitem.MaxItem)
			if err != nil || again != e.schema {
				e.Errorf("got %+v, then %+v, %v", e.schema, again, err)
			}
		}},
		{"GetAbsent", "Get of what does not exist returns an error that matches ErrNotFound.", func(e *env) {
			e.expectAbsent(e.key(0))
			e.put(e.key(1), attributes{"a": "x"})
			e.expectAbsent(e.key(0))
		}},
		{"PutGet", "Get returns what Put wrote, of every type.", func(e *env) {
			e.put(e.key(0), values())
			e.expect(e.key(0), values())
		}},
		{"EmptyItem", "An item without attributes is there.", func(e *env) {
			for i, item := range []attributes{{}, nil} {
				e.put(e.key(i), item)
				e.expect(e.key(i), attributes{})
			}
			if got := e.scan(nil); len(got) != 2 {
				e.Errorf("the scan shows %d items", len(got))
			}
			_, err := e.t.Put(e.ctx, e.key(0), attributes{}, &condition{Absent: true})
			e.refused("put of what is there", err, attributes{})
		}},
		{"Replace", "Put replaces the whole item, and returns what it replaced.", func(e *env) {
			old, err := e.t.Put(e.ctx, e.key(0), attributes{"a": "1", "b": "2"}, nil)
			e.Must("put", err)
			e.same("the first put returns", old, nil)
			old, err = e.t.Put(e.ctx, e.key(0), attributes{"b": "3", "c": "4"}, nil)
			e.Must("put", err)
			e.same("the second put returns", old, attributes{"a": "1", "b": "2"})
			e.expect(e.key(0), attributes{"b": "3", "c": "4"})
			e.put(e.key(1), attributes{})
			old, err = e.t.Put(e.ctx, e.key(1), attributes{"a": "x"}, nil)
			e.Must("put", err)
			e.same("a put over an empty item returns", old, attributes{})
		}},
		{"Select", "Get returns those attributes that it is asked for, also if it is asked for many.", func(e *env) {
			e.put(e.key(0), attributes{"a": "1", "b": nil, "c": "3"})
			for _, c := range []struct {
				names []string
				want  attributes
			}{
				{nil, attributes{"a": "1", "b": nil, "c": "3"}},
				{[]string{"a"}, attributes{"a": "1"}},
				{[]string{"b", "none"}, attributes{"b": nil}},
				{[]string{"none"}, attributes{}},
				{[]string{}, attributes{}},
				{append(manyNames(), "a"), attributes{"a": "1"}},
			} {
				got, err := e.other.Get(e.ctx, e.key(0), &largeitem.GetOptions{Attributes: c.names})
				e.Must(fmt.Sprintf("get %q", c.names), err)
				e.same("get", got, c.want)
			}
			if got, err := e.other.Get(e.ctx, e.key(1), &largeitem.GetOptions{Attributes: []string{"none"}}); !errors.Is(err, store.ErrNotFound) {
				e.Errorf("of an item that is not there: got %v, %v", got, err)
			}
		}},
		{"Update", "Update sets and removes attributes, returns the item, and leaves the others as they are, of every type.", func(e *env) {
			want := values()
			e.put(e.key(0), want)
			want["new"], want["text"], want["list"] = largeitem.Number("7"), []byte("another type"), nil
			delete(want, "map")
			delete(want, "null")
			e.update(e.key(0), change{Set: attributes{"new": largeitem.Number("7.0"), "text": []byte("another type"), "list": nil}, Remove: []string{"map", "null", "none"}}, want)
			for name, value := range values() {
				want[name] = value
				e.update(e.key(0), change{Set: attributes{name: value}}, want)
			}
			e.update(e.key(0), change{}, want)
			e.update(e.key(0), change{Remove: slices.Collect(maps.Keys(want))}, attributes{})
		}},
		{"Largest", "What the rule of sizes allows is read, scanned and removed, in whatever way it is kept; what the table cannot keep is refused.", func(e *env) {
			for i, fill := range []func(n int) any{
				func(n int) any { return strings.Repeat("\x01", n) },
				func(n int) any { return strings.Repeat("\"\\", n/2) },
				func(n int) any { return bytes.Repeat([]byte{0xff}, n) },
			} {
				limit := e.schema.MaxItem
				limit = cmp.Or(limit, largeitem.MaxItem)
				want := attributes{"a": fill(limit - e.schema.ItemSize(e.key(i), attributes{"a": ""}))}
				_, err := e.t.Put(e.ctx, e.key(i), want, &condition{Absent: true})
				if errors.Is(err, store.ErrTooLarge) && store.OutcomeOf(err) == store.NotApplied && limit < largeitem.MaxItem {
					e.expectAbsent(e.key(i)) // the table has a bound of its own
					want = nil
				} else if err != nil {
					e.Fatalf("put of the item %d: %v", i, err)
				} else if e.expect(e.key(i), want); len(e.scan(nil)) != 1 {
					e.Errorf("the scan does not show the item %d", i)
				}
				if old, err := e.t.Delete(e.ctx, e.key(i), nil); err != nil || !largeitem.Equal(map[string]any(old), map[string]any(want)) {
					e.Errorf("delete of the item %d returns %d bytes, %v", i, old.Size(), err)
				}
			}
		}},
		{"UpdateAbsent", "An update without a condition makes the item if there is none.", func(e *env) {
			e.update(e.key(0), change{Set: attributes{"a": "x"}, Remove: []string{"b"}}, attributes{"a": "x"})
			e.update(e.key(1), change{}, attributes{})
		}},
		{"Delete", "Delete removes the item and returns it; deleting what does not exist succeeds.", func(e *env) {
			e.put(e.key(0), values())
			e.put(e.key(1), attributes{})
			e.put(e.key(2), attributes{"a": "x"})
			for i, want := range []attributes{values(), {}} {
				old, err := e.t.Delete(e.ctx, e.key(i), nil)
				e.Must("delete", err)
				e.same("delete returns", old, want)
				e.expectAbsent(e.key(i))
				if old, err := e.t.Delete(e.ctx, e.key(i), nil); err != nil || old != nil {
					e.Errorf("deleting it again returns %s, %v", show(old), err)
				}
			}
			e.expect(e.key(2), attributes{"a": "x"})
			e.update(e.key(0), change{Set: attributes{"b": "x"}}, attributes{"b": "x"}) // nothing is left of the old item
		}},
		{"Keys", "A key is any text or number that the rules allow, and nothing is taken for a pattern, a path or another key.", caseKeys},
		{"NumberKeys", "Numbers that are equal are one key.", caseNumberKeys},
		{"GetMany", "GetMany returns the items in the order of the keys, nil where there is none.", caseGetMany},
		{"Expressions", "An expression is a part of the condition or of the change.", caseExpressions},
	}
}

// manyNames returns the names of attributes that no item has, more than one expression of DynamoDB can have.
func manyNames() (names []string) {
	for i := range 1000 {
		names = append(names, fmt.Sprint("none", i))
	}
	return names
}

// caseKeys uses every key as partition key and, where there is one, as sort key. Only of
// texts with a NUL may a table say that it cannot have them.
func caseKeys(e *env) {
	texts := []string{"a", "A", "a ", " a", "a/b", "a/", "/", "//", "a=b", "pk=a/sk=b", "a%2Fb", "a!2Fb", "a_b", "a%b", "*", "..", ".", "é", "e\u0301", "界", "\U0001F512",
		"null", "[]", "7", "07", "\n", "\x7f", "\"", "'", `\`, "; DROP TABLE x --", strings.Repeat("x", 1000), strings.Repeat("é", 512), strings.Repeat("/", largeitem.MaxSort), "\x00", "a\x00", "a\x01", "a\x01a"}
	long := strings.Repeat("y", largeitem.MaxPartition)
	put := func(key largeitem.Key, want attributes) bool {
		_, err := e.t.Put(e.ctx, key, want, nil)
		if err == nil {
			return true
		}
		if !strings.Contains(key.Partition.Text+key.Sort.Text, "\x00") {
			e.Errorf("put %.100v: %v", key, err)
		} else {
			e.WantRefused("put of a key with a NUL", err, store.ErrKey)
		}
		return false
	}
	want := make(map[largeitem.Key]attributes)
	add := func(key largeitem.Key) {
		if item := (attributes{"is": key.String()}); put(key, item) {
			want[key] = item
		}
	}
	if !e.schema.Partition.Number {
		for _, text := range append(texts, long) {
			add(e.keyOf(text, value(e.schema.Sort, 1)))
		}
	}
	if e.schema.Sort.Name != "" && !e.schema.Sort.Number {
		for _, text := range texts {
			add(e.keyOf(value(e.schema.Partition, 1), text))
		}
		if !e.schema.Partition.Number {
			add(e.keyOf("a/sk=b", "c"))
			add(e.keyOf("a", "sk=b/c"))
		}
	}
	for key, item := range want {
		e.expect(key, item)
	}
	for key, item := range e.scan(nil) {
		e.same("scan", item, want[key])
		delete(want, key)
	}
	for key := range want {
		e.Errorf("the scan does not show %.100v", key)
	}
}

func caseNumberKeys(e *env) {
	if !e.schema.Partition.Number && !e.schema.Sort.Number {
		e.Absent("the key of this table is no number")
	}
	numbers := []largeitem.Number{"0", "1", "-1", "10", "0.1", "12345678901234567890123456789012345678", "12345678901234567890123456789012345679", "1E+100", "-1E-100"}
	key := func(n largeitem.Number) largeitem.Key {
		if e.schema.Partition.Number {
			return e.keyOf(n, value(e.schema.Sort, 1))
		}
		return e.keyOf("p", n)
	}
	for _, n := range numbers {
		e.put(key(n), attributes{"is": string(n)})
	}
	for _, n := range numbers {
		e.expect(key(n), attributes{"is": string(n)})
	}
	e.expect(key("1.0"), attributes{"is": "1"})
	e.expect(key("1e1"), attributes{"is": "10"})
	got := e.scan(nil)
	for _, n := range numbers {
		if _, ok := got[key(n)]; !ok || len(got) != len(numbers) {
			e.Errorf("the scan does not show %s, of %d numbers it shows %d", n, len(numbers), len(got))
		}
	}
}

func caseGetMany(e *env) {
	const n = 230 // more than any database takes in one request
	keys := make([]largeitem.Key, n)
	for i := range keys {
		if keys[i] = e.key(i); i%3 > 0 {
			e.put(keys[i], attributes{"a": keys[i].String(), "b": "x"})
		}
	}
	keys = append(keys, keys[1], keys[1])
	for i, opts := range []*largeitem.GetOptions{nil, {Attributes: []string{"a"}}, {Attributes: append(manyNames(), "a")}} {
		got, err := largeitem.GetMany(e.ctx, e.other, keys, opts)
		if err != nil || len(got) != len(keys) {
			e.Fatalf("%d items of %d, %v", len(got), len(keys), err)
		}
		for j := range keys {
			var want attributes
			if j%3 > 0 || j >= n {
				want = attributes{"a": keys[j].String(), "b": "x"}
				if i > 0 {
					delete(want, "b")
				}
			}
			e.same(keys[j].String(), got[j], want)
		}
	}
	if got, err := largeitem.GetMany(e.ctx, e.other, nil, nil); err != nil || len(got) != 0 {
		e.Errorf("of no keys: %v, %v", got, err)
	}
}

func caseExpressions(e *env) {
	if e.Add == nil || e.Above == nil {
		e.Absent("this table has no expressions")
	}
	n := func(n string) attributes { return attributes{"n": largeitem.Number(n), "a": "x"} }
	e.put(e.key(0), n("1"))
	got, err := e.t.Update(e.ctx, e.key(0), change{Set: attributes{"a": "y"}, Expr: e.Add("n", 2)}, &condition{Equal: attributes{"a": "x"}, Expr: e.Above("n", 0)})
	e.Must("update", err)
	want := attributes{"n": largeitem.Number("3"), "a": "y"}
	e.same("update", got, want)
	e.expect(e.key(0), want)
	for _, w := range e.writes() {
		e.refused(w.name+" whose expression does not hold", w.do(e.t, e.key(0), &condition{Expr: e.Above("n", 3)}), want)
		e.refused(w.name+" whose condition does not hold", w.do(e.t, e.key(0), &condition{Missing: []string{"a"}, Expr: e.Above("n", 0)}), want)
		e.refused(w.name+" of what is not there", w.do(e.t, e.key(1), &condition{Expr: e.Above("n", 0)}), nil)
	}
	e.expect(e.key(0), want)
	_, err = e.t.Update(e.ctx, e.key(0), change{Set: attributes{"n": "x"}, Expr: e.Add("n", 2)}, nil)
	e.WantRefused("an attribute in the change and in its expression", err, store.ErrInvalid)
	e.expect(e.key(0), want)
	for _, w := range e.writes() {
		e.put(e.key(0), n("5"))
		e.OK(w.name, w.do(e.t, e.key(0), &condition{Expr: e.Above("n", 4)}))
	}
	e.expectAbsent(e.key(0))
}

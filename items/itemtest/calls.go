package itemtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

func callCases() []testCase {
	return []testCase{
		{"BadKeys", "A key that cannot be of this table is refused with ErrKey before anything is done.", caseBadKeys},
		{"BadValues", "Names and values that no item can have are refused with ErrInvalid, and nothing is written.", caseBadValues},
		{"BadConditions", "A condition that can never hold, or is in another table's language, is refused with ErrInvalid.", func(e *env) {
			item := attributes{"a": "x"}
			e.put(e.key(0), item)
			bad := []condition{
				{Absent: true, Exists: true},
				{Absent: true, Equal: attributes{"a": "x"}},
				{Equal: attributes{"a": "x"}, Missing: []string{"a"}},
				{Equal: attributes{e.schema.Partition.Name: "x"}},
				{Missing: []string{e.schema.Partition.Name}},
				{Missing: []string{""}},
				{Equal: attributes{"a": 7}},
				{Expr: struct{}{}},
			}
			for _, w := range e.writes() {
				for _, c := range bad {
					e.WantRefused(w.name, w.do(e.t, e.key(0), &c), store.ErrInvalid)
				}
			}
			_, err := e.t.Update(e.ctx, e.key(0), change{Expr: struct{}{}}, nil)
			e.WantRefused("a change in another language", err, store.ErrInvalid)
			e.expect(e.key(0), item)
		}},
		{"TooLarge", "An item above the bound of the table is refused with ErrTooLarge, and nothing is written; one at the bound is kept.", caseTooLarge},
		{"Cancelled", "A call with a context that has ended does nothing, and says so.", func(e *env) {
			item := attributes{"a": "x"}
			e.put(e.key(0), item)
			ctx := e.ctx
			ended, cancel := context.WithCancel(ctx)
			cancel()
			e.ctx = ended
			for _, w := range e.writes() {
				e.WantRefused(w.name, w.do(e.t, e.key(0), nil), context.Canceled)
			}
			e.WantErr("get", suitetest.ErrOf(e.t.Get(ended, e.key(0), nil)), context.Canceled)
			var scanned error
			for _, err := range e.t.Scan(ended, nil) {
				scanned = err
			}
			e.WantErr("scan", scanned, context.Canceled)
			e.ctx = ctx
			e.expect(e.key(0), item)
		}},
		{"Owned", "The caller may change what it passed and what it got.", caseOwned},
	}
}

func caseBadKeys(e *env) {
	text, number := largeitem.KeyValue{Text: "7"}, largeitem.KeyValue{Text: "7", Number: true}
	bad := []largeitem.Key{
		{},
		{Sort: text},
		{Partition: largeitem.KeyValue{Text: "\xff"}, Sort: e.key(0).Sort},
		{Partition: largeitem.KeyValue{Text: strings.Repeat("x", largeitem.MaxPartition+1)}, Sort: e.key(0).Sort},
		{Partition: largeitem.KeyValue{Text: "seven", Number: true}, Sort: e.key(0).Sort},
	}
	for _, v := range []largeitem.KeyValue{text, number} {
		if v.Number != e.schema.Partition.Number {
			bad = append(bad, largeitem.Key{Partition: v, Sort: e.key(0).Sort})
		}
		if e.schema.Sort.Name == "" || v.Number != e.schema.Sort.Number {
			bad = append(bad, largeitem.Key{Partition: e.key(0).Partition, Sort: v})
		}
	}
	if e.schema.Sort.Name != "" {
		bad = append(bad, largeitem.Key{Partition: e.key(0).Partition})
	}
	for _, key := range bad {
		for _, w := range e.writes() {
			e.WantRefused(w.name, w.do(e.t, key, nil), store.ErrKey)
		}
		e.WantErr(fmt.Sprintf("get %.60v", key), suitetest.ErrOf(e.t.Get(e.ctx, key, nil)), store.ErrKey)
		e.WantErr(fmt.Sprintf("get many with %.60v", key), suitetest.ErrOf(largeitem.GetMany(e.ctx, e.t, []largeitem.Key{e.key(0), key}, nil)), store.ErrKey)
	}
	if got := e.scan(nil); len(got) > 0 {
		e.Errorf("the scan shows %d items", len(got))
	}
}

func caseBadValues(e *env) {
	deep := any("x")
	for range largeitem.MaxDepth {
		deep = []any{deep}
	}
	item := attributes{"a": "x"}
	e.put(e.key(0), item)
	refuse := func(what string, set attributes) {
		_, err := e.t.Put(e.ctx, e.key(0), set, nil)
		e.WantRefused("put of "+what, err, store.ErrInvalid)
		_, err = e.t.Update(e.ctx, e.key(0), change{Set: set}, nil)
		e.WantRefused("update to "+what, err, store.ErrInvalid)
	}
	for what, value := range map[string]any{
		"an integer": 7, "a float": 1.5, "a slice": []string{"a"}, "a pointer": &item, "attributes in attributes": attributes{}, "no number": largeitem.Number("seven"),
		"too many digits": largeitem.Number("1.23456789012345678901234567890123456789"), "a number out of range": largeitem.Number("1E126"),
		"an empty set": largeitem.StringSet{}, "an empty set of numbers": largeitem.NumberSet(nil), "an empty set of bytes": largeitem.BinarySet{},
		"an element twice": largeitem.StringSet{"a", "a"}, "a number twice": largeitem.NumberSet{"1", "1.0"}, "bytes twice": largeitem.BinarySet{{1}, {1}},
		"a text that is not UTF-8": "\xff", "such a name within": map[string]any{"\xff": "x"}, "an integer within": []any{map[string]any{"a": 7}}, "great depth": deep,
	} {
		refuse(what, attributes{"a": value})
	}
	refuse("an empty name", attributes{"": "x"})
	refuse("an empty name in a map", attributes{"map": map[string]any{"": "x"}})
	refuse("a name that is not UTF-8", attributes{"\xff": "x"})
	refuse("an attribute of the key", attributes{e.schema.Partition.Name: "x"})
	if e.schema.Sort.Name != "" {
		refuse("an attribute of the key", attributes{e.schema.Sort.Name: "x"})
	}
	for _, c := range []change{
		{Set: attributes{"a": "y"}, Remove: []string{"a"}},
		{Remove: []string{"a", "a"}},
		{Remove: []string{""}},
		{Remove: []string{e.schema.Partition.Name}},
	} {
		_, err := e.t.Update(e.ctx, e.key(0), c, nil)
		e.WantRefused("a change that names an attribute twice, or one of the key", err, store.ErrInvalid)
	}
	e.expect(e.key(0), item)
	deep = deep.([]any)[0]
	e.put(e.key(0), attributes{"a": deep})
	e.expect(e.key(0), attributes{"a": deep})
}

func caseTooLarge(e *env) {
	fill := func(size int) attributes {
		item := attributes{"a": ""}
		item["a"] = strings.Repeat("x", size-e.schema.ItemSize(e.key(0), item))
		return item
	}
	e.put(e.key(0), attributes{"b": "x"})
	_, err := e.t.Put(e.ctx, e.key(0), fill(e.schema.MaxItem+1), nil)
	e.WantRefused("put", err, store.ErrTooLarge)
	// With the attribute that stays the item is too large.
	_, err = e.t.Update(e.ctx, e.key(0), change{Set: fill(e.schema.MaxItem)}, nil)
	e.WantRefused("update", err, store.ErrTooLarge)
	e.expect(e.key(0), attributes{"b": "x"})
	e.put(e.key(0), fill(e.Large))
	e.expect(e.key(0), fill(e.Large))
	_, err = e.t.Update(e.ctx, e.key(0), change{Set: fill(e.schema.MaxItem + 1)}, nil)
	e.WantRefused("update", err, store.ErrTooLarge)
	e.update(e.key(0), change{Set: attributes{"b": "y"}, Remove: []string{"a"}}, attributes{"b": "y"})
}

func caseOwned(e *env) {
	fresh := func() attributes {
		return attributes{"bytes": []byte("one"), "list": []any{[]byte("one"), "x"}, "map": map[string]any{"a": "x"}, "set": largeitem.StringSet{"x"}, "bodies": largeitem.BinarySet{[]byte("one")}}
	}
	spoil := func(item attributes) {
		if item == nil {
			e.Fatalf("nothing was returned")
		}
		item["bytes"].([]byte)[0] = '!'
		item["list"].([]any)[0].([]byte)[0] = '!'
		item["list"].([]any)[1] = "!"
		item["map"].(map[string]any)["a"] = "!"
		item["set"].(largeitem.StringSet)[0] = "!"
		item["bodies"].(largeitem.BinarySet)[0][0] = '!'
		item["new"] = "!"
	}
	passed := fresh()
	e.put(e.key(0), passed)
	spoil(passed)
	e.expect(e.key(0), fresh())
	for range 2 {
		got, err := e.other.Get(e.ctx, e.key(0), nil)
		e.Must("get", err)
		e.same("get", got, fresh())
		spoil(got)
	}
	for row, err := range e.other.Scan(e.ctx, nil) {
		e.Must("scan", err)
		spoil(row.Attributes)
	}
	_, err := e.t.Put(e.ctx, e.key(0), nil, &condition{Absent: true})
	var refused *largeitem.ConditionFailedError
	if errors.As(err, &refused) && refused.HasCurrent {
		spoil(refused.Current)
	}
	passed = fresh()
	got, err := e.t.Update(e.ctx, e.key(0), change{Set: passed}, nil)
	e.Must("update", err)
	spoil(passed)
	e.same("update", got, fresh())
	spoil(got)
	e.expect(e.key(0), fresh())
}

package itemtest

import (
	"fmt"
	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

func conditionCases() []testCase {
	return []testCase{
		{"Absent", "A write on the condition that there is no item is made only then.", func(e *env) {
			for _, w := range e.writes() {
				e.OK(w.name, w.do(e.t, e.key(0), &condition{Absent: true}))
				e.put(e.key(0), attributes{"a": "x"})
				e.refused(w.name, w.do(e.t, e.key(0), &condition{Absent: true}), attributes{"a": "x"})
				e.expect(e.key(0), attributes{"a": "x"})
				e.Must("delete", suitetest.ErrOf(e.t.Delete(e.ctx, e.key(0), nil)))
			}
		}},
		{"Exists", "A write on the condition that there is an item is made only then: an update does not bring a deleted item back.", func(e *env) {
			for _, w := range e.writes() {
				e.refused(w.name, w.do(e.t, e.key(0), &condition{Exists: true}), nil)
				e.expectAbsent(e.key(0))
				e.put(e.key(0), attributes{})
				e.OK(w.name, w.do(e.t, e.key(0), &condition{Exists: true}))
				e.Must("delete after "+w.name, suitetest.ErrOf(e.t.Delete(e.ctx, e.key(0), &condition{Exists: w.name != "delete"})))
				e.refused(w.name, w.do(e.t, e.key(0), &condition{Exists: true}), nil)
				e.expectAbsent(e.key(0))
			}
		}},
		{"Equal", "A condition on the value of an attribute holds for that value only, of every type.", caseEqual},
		{"EqualAbsent", "Where there is no item, no attribute has a value, and every attribute is missing.", func(e *env) {
			for _, w := range e.writes() {
				for _, value := range []any{nil, "", false, largeitem.Number("0"), []byte{}} {
					e.refused(w.name, w.do(e.t, e.key(0), &condition{Equal: attributes{"a": value}}), nil)
				}
				e.expectAbsent(e.key(0))
				e.OK(w.name+" on the condition that attributes are missing", w.do(e.t, e.key(0), &condition{Missing: []string{"a", "b"}}))
				e.refused(w.name, w.do(e.t, e.key(1), &condition{Missing: []string{"a"}, Exists: true}), nil)
				e.Must("delete", suitetest.ErrOf(e.t.Delete(e.ctx, e.key(0), nil)))
			}
		}},
		{"Missing", "A condition that an attribute is missing does not hold for one that is there, null or empty.", func(e *env) {
			for _, value := range []any{nil, "", false, []any{}} {
				item := attributes{"a": value, "b": "x"}
				for _, w := range e.writes() {
					e.put(e.key(0), item)
					e.refused(w.name, w.do(e.t, e.key(0), &condition{Missing: []string{"none", "a"}}), item)
					e.expect(e.key(0), item)
					e.OK(w.name, w.do(e.t, e.key(0), &condition{Missing: []string{"none", "A"}}))
				}
			}
		}},
		{"All", "Everything that a condition says must hold.", func(e *env) {
			item := attributes{"a": "x", "b": "y"}
			for _, w := range e.writes() {
				e.put(e.key(0), item)
				for _, c := range []condition{
					{Exists: true, Equal: attributes{"a": "x", "b": "z"}},
					{Exists: true, Equal: attributes{"a": "z", "b": "y"}},
					{Equal: attributes{"a": "x", "c": nil}},
					{Exists: true, Equal: attributes{"a": "x"}, Missing: []string{"b"}},
				} {
					e.refused(w.name, w.do(e.t, e.key(0), &c), item)
				}
				e.OK(w.name, w.do(e.t, e.key(0), &condition{Exists: true, Equal: attributes{"a": "x", "b": "y"}, Missing: []string{"c"}}))
			}
		}},
		{"OwnCondition", "A write may change the attributes that its condition is about.", func(e *env) {
			e.put(e.key(0), attributes{"a": "x"})
			got, err := e.t.Update(e.ctx, e.key(0), change{Set: attributes{"a": "y", "b": "z"}}, &condition{Equal: attributes{"a": "x"}, Missing: []string{"b"}})
			e.Must("update", err)
			e.same("update", got, attributes{"a": "y", "b": "z"})
			e.OK("removing the attribute that the condition names", suitetest.ErrOf(e.t.Update(e.ctx, e.key(0), change{Remove: []string{"a"}}, &condition{Equal: attributes{"a": "y"}})))
			e.expect(e.key(0), attributes{"b": "z"})
		}},
	}
}

// caseEqual compares each value with all the others, and with texts that look the same.
func caseEqual(e *env) {
	different := []any{
		"1", largeitem.Number("1"), []byte("1"), largeitem.Number("10"), largeitem.Number("1.1"), "", []byte{}, nil, true, false, "true", "null",
		[]any{"1"}, []any{}, map[string]any{}, map[string]any{"1": "1"}, map[string]any{"S": "1"}, map[string]any{"N": "1"}, map[string]any{"1": largeitem.Number("1")},
		largeitem.StringSet{"1"}, largeitem.NumberSet{"1"}, largeitem.BinarySet{[]byte("1")}, largeitem.StringSet{"1", "2"}, []any{"1", "2"}, []any{"2", "1"},
		`{"S":"1"}`, "é", "e\u0301", "E", "x ", "x",
	}
	for i, value := range different {
		item := attributes{"a": value}
		e.put(e.key(0), item)
		for j, other := range different {
			cond := &condition{Equal: attributes{"a": other}}
			_, err := e.t.Update(e.ctx, e.key(0), change{Set: attributes{"b": largeitem.Number("1")}}, cond)
			if i == j && err != nil {
				e.Errorf("%#v is not equal to itself: %v", value, err)
			} else if i != j {
				e.refused("equality with another value", err, attributes{"a": value})
			}
			if err == nil {
				e.put(e.key(0), item)
			}
			if i != j && err == nil {
				e.Errorf("%#v is equal to %#v", value, other)
			}
		}
	}
	for _, pair := range [][2]any{
		{largeitem.Number("1"), largeitem.Number("1.00")},
		{largeitem.Number("1e2"), largeitem.Number("100")},
		{largeitem.NumberSet{"1", "2"}, largeitem.NumberSet{"2.0", "1"}},
		{largeitem.StringSet{"a", "b"}, largeitem.StringSet{"b", "a"}},
		{largeitem.BinarySet{{1}, {2}}, largeitem.BinarySet{{2}, {1}}},
		{[]any{map[string]any{"a": largeitem.Number("1"), "b": largeitem.StringSet{"x", "y"}}}, []any{map[string]any{"b": largeitem.StringSet{"y", "x"}, "a": largeitem.Number("1.0")}}},
	} {
		for _, w := range e.writes() {
			e.put(e.key(0), attributes{"a": pair[0]})
			e.OK(fmt.Sprintf("%s: %#v is not equal to %#v", w.name, pair[0], pair[1]), w.do(e.t, e.key(0), &condition{Equal: attributes{"a": pair[1]}}))
		}
	}
}

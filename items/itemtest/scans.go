package itemtest

import (
	"fmt"
	"maps"

	"github.com/holdfast-go/holdfast/internal/suitetest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

func scanCases() []testCase {
	return []testCase{
		{"ScanNothing", "The scan of an empty table yields nothing.", func(e *env) {
			if got := e.scan(nil); len(got) > 0 {
				e.Errorf("got %d items", len(got))
			}
		}},
		{"Scan", "A scan yields every item once, with all of its attributes.", func(e *env) {
			e.put(e.key(0), values())
			e.put(e.key(1), attributes{})
			e.put(e.key(2), attributes{"a": "x"})
			e.put(e.key(3), attributes{"a": "x"})
			e.Must("delete", suitetest.ErrOf(e.t.Delete(e.ctx, e.key(3), nil)))
			e.expectScan(nil, map[largeitem.Key]attributes{e.key(0): values(), e.key(1): {}, e.key(2): {"a": "x"}})
		}},
		{"ScanSelect", "A scan yields the attributes that it is asked for, and also the items that have none of them.", func(e *env) {
			e.put(e.key(0), attributes{"a": "1", "b": nil, "c": "3"})
			e.put(e.key(1), attributes{"c": "3"})
			e.put(e.key(2), attributes{})
			e.expectScan([]string{"a", "b"}, map[largeitem.Key]attributes{e.key(0): {"a": "1", "b": nil}, e.key(1): {}, e.key(2): {}})
			e.expectScan(append(manyNames(), "a"), map[largeitem.Key]attributes{e.key(0): {"a": "1"}, e.key(1): {}, e.key(2): {}})
			e.expectScan([]string{}, map[largeitem.Key]attributes{e.key(0): {}, e.key(1): {}, e.key(2): {}})
		}},
		{"ScanContinued", "A scan of many items can be continued behind each row that has a position, and misses nothing.", caseScanContinued},
		{"ScanBadPosition", "A position that no scan gave is refused with ErrInvalid.", func(e *env) {
			e.put(e.key(0), nil)
			var last error
			for _, err := range e.t.Scan(e.ctx, &largeitem.ScanOptions{After: "\x00 no position"}) {
				last = err
			}
			e.WantRefused("scan", last, store.ErrInvalid)
		}},
		{"ScanMoving", "A scan yields every item that is there throughout, whatever else is written and deleted meanwhile.", caseScanMoving},
	}
}

func (e *env) expectScan(names []string, want map[largeitem.Key]attributes) {
	got := e.scan(&largeitem.ScanOptions{Attributes: names})
	for key := range got {
		if _, ok := want[key]; !ok {
			e.Errorf("the scan yields %v", key)
		}
	}
	for key, item := range want {
		e.same("scan, "+key.String(), got[key], item)
	}
}

// fill puts the items of the long scan, one after the other: in a file database a writer
// among many may wait for longer than a call lasts.
func (e *env) fill() map[largeitem.Key]attributes {
	want := make(map[largeitem.Key]attributes, e.Items)
	for i := range e.Items {
		want[e.key(i)] = attributes{"n": e.key(i).String()}
		e.put(e.key(i), want[e.key(i)])
	}
	return want
}

func caseScanContinued(e *env) {
	want := e.fill()
	got := make(map[largeitem.Key]attributes)
	// Scans that are cut after 1, 2, 4 ... rows, each continued after the last position.
	after, length := "", 1
	for {
		rows, last := 0, after
		page := make(map[largeitem.Key]attributes) // after the last position
		for row, err := range e.other.Scan(e.ctx, &largeitem.ScanOptions{After: after}) {
			e.Must(fmt.Sprintf("scan after %q", after), err)
			if rows++; rows > e.Items {
				e.Fatalf("the scan after %q does not end", after)
			}
			page[row.Key] = row.Attributes
			if row.Position != "" {
				last = row.Position
				for key, item := range page {
					if _, twice := got[key]; twice {
						e.Errorf("%v is yielded again after %q", key, after)
					}
					got[key] = item
				}
				clear(page)
				if rows >= length {
					break
				}
			}
		}
		if last == after {
			maps.Copy(got, page)
			break
		}
		after, length = last, 2*length
	}
	if len(got) != len(want) {
		e.Errorf("%d items of %d", len(got), len(want))
	}
	for key, item := range want {
		e.same("scan, "+key.String(), got[key], item)
	}
}

func caseScanMoving(e *env) {
	want := e.fill()
	for i := 0; i < e.Items; i += 3 {
		delete(want, e.key(i)) // it is deleted while the scan runs
	}
	i, rows := 0, 0
	got := make(map[largeitem.Key]bool)
	for row, err := range e.other.Scan(e.ctx, nil) {
		e.Must("scan", err)
		if got[row.Key] {
			e.Errorf("%v is yielded twice", row.Key)
		}
		got[row.Key] = true
		if rows++; rows > 3*e.Items {
			e.Fatalf("the scan does not end")
		}
		if i < e.Items {
			e.Must("delete", suitetest.ErrOf(e.t.Delete(e.ctx, e.key(i), nil)))
			if i+1 < e.Items {
				e.put(e.key(i+1), attributes{"n": "changed"})
			}
			e.put(e.key(e.Items+i), attributes{"n": "new"})
			i += 3
		}
	}
	for key := range want {
		if !got[key] {
			e.Errorf("%v is not yielded", key)
		}
	}
}

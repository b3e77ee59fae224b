package largeitem_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// TestErrorOfAChangeFunc: an update returns the error of its function, and does not call the function again.
func TestErrorOfAChangeFunc(t *testing.T) {
	for name, cause := range map[string]error{
		"conflict": store.ErrConflict, "unavailable": store.MarkNotApplied(store.ErrUnavailable), "not found": store.ErrNotFound,
		"another item": &largeitem.ConditionFailedError{HasCurrent: true}, "another item with current": &largeitem.ConditionFailedError{HasCurrent: true, Current: largeitem.Attributes{"x": "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, _ := memtable.New(nil)
				s, err := largeitem.New(table, membucket.New(), &largeitem.Options{BaseURI: "mem://b"})
				if err != nil {
					t.Fatal(err)
				}
				key, _ := largeitem.NewKey("k")
				if _, err := s.Create(t.Context(), key, largeitem.Attributes{"n": "1"}, largeitem.Large{"doc": largeitem.Text("one")}, nil); err != nil {
					t.Fatal(err)
				}
				calls := 0
				start := time.Now()
				_, err = s.Update(t.Context(), key, largeitem.Change{Expr: largeitem.ChangeFunc(func(item largeitem.Attributes) error {
					calls++
					return fmt.Errorf("my own decision: %w", cause)
				})}, largeitem.Large{"doc": largeitem.Text("two")}, nil)
				if calls != 1 || !errors.Is(err, cause) {
					t.Errorf("after %d calls and %v, Update returned %v", calls, time.Since(start), err)
				}
			})
		})
	}
}

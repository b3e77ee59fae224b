package memtable_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
)

func TestTable(t *testing.T) {
	for name, opts := range map[string]*memtable.Options{
		"default":          nil,
		"number":           {Partition: largeitem.KeyAttribute{Name: "id", Number: true}},
		"text and text":    {Sort: largeitem.KeyAttribute{Name: "sk"}},
		"text and number":  {Sort: largeitem.KeyAttribute{Name: "sk", Number: true}},
		"number and texts": {Partition: largeitem.KeyAttribute{Name: "pk", Number: true}, Sort: largeitem.KeyAttribute{Name: "sk"}},
	} {
		t.Run(name, func(t *testing.T) {
			open := func(t *testing.T) largeitem.Table { return newTable(t, opts) }
			itemtest.Run(t, open, &itemtest.Options{Add: add, Above: above})
		})
	}
}

func newTable(t *testing.T, opts *memtable.Options) *memtable.Table {
	t.Helper()
	table, err := memtable.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func add(attr string, n int) any {
	return largeitem.ChangeFunc(func(item largeitem.Attributes) error {
		item[attr] = largeitem.Number(strconv.Itoa(number(item[attr]) + n))
		return nil
	})
}

func above(attr string, n int) any {
	return largeitem.ConditionFunc(func(item largeitem.Attributes) bool {
		_, ok := item[attr]
		return ok && number(item[attr]) > n
	})
}

func number(v any) int {
	n, _ := strconv.Atoi(fmt.Sprint(v))
	return n
}

func TestOptions(t *testing.T) {
	for _, o := range []memtable.Options{
		{Partition: largeitem.KeyAttribute{Name: "a"}, Sort: largeitem.KeyAttribute{Name: "a"}},
		{Partition: largeitem.KeyAttribute{Number: true}},
		{Partition: largeitem.KeyAttribute{Name: "\xff"}},
	} {
		if _, err := memtable.New(&o); !errors.Is(err, largeitem.ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", o, err)
		}
	}
}

// A table that is created again under the same name has another ID.
func TestTablesDiffer(t *testing.T) {
	a, _ := newTable(t, nil).Schema(t.Context())
	b, _ := newTable(t, nil).Schema(t.Context())
	if a.ID == b.ID {
		t.Errorf("two tables have the ID %s", a.ID)
	}
}

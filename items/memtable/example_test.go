package memtable_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/store"
)

func Example() {
	ctx := context.Background()
	table, err := memtable.New(&memtable.Options{Sort: largeitem.KeyAttribute{Name: "year", Number: true}})
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("report", 2025)
	if err != nil {
		log.Fatal(err)
	}
	absent := &largeitem.Condition{Absent: true}
	for range 2 {
		_, err := table.Put(ctx, key, largeitem.Attributes{"state": "draft"}, absent)
		fmt.Println(err == nil, errors.Is(err, store.ErrConflict))
	}
	// Output:
	// true false
	// false true
}

package storetable_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/storetable"
	"github.com/holdfast-go/holdfast/store/memstore"
)

func Example() {
	ctx := context.Background()
	st := memstore.New() // or a directory: filestore.Open
	if err := storetable.Create(ctx, st, nil); err != nil {
		log.Fatal(err)
	}
	table, err := storetable.New(st, nil)
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("invoice-7")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := table.Put(ctx, key, largeitem.Attributes{"total": largeitem.Number("19.90")}, nil); err != nil {
		log.Fatal(err)
	}
	item, err := table.Get(ctx, key, nil)
	fmt.Println(item["total"], err)
	// Output: 19.9 <nil>
}

package largeitem_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/membucket"
)

func ExampleStore_Sweep() {
	ctx := context.Background()
	table, err := memtable.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := largeitem.New(table, membucket.New(), &largeitem.Options{BaseURI: "mem://bucket"})
	if err != nil {
		log.Fatal(err)
	}
	key, _ := largeitem.NewKey("report")
	for _, text := range []string{"first", "second"} {
		large := largeitem.Large{"body": largeitem.Text(text)}
		if _, err := s.Upsert(ctx, key, largeitem.Change{}, large, nil); err != nil {
			log.Fatal(err)
		}
	}
	// The object with "first" has no reference any more. The sweep removes it a day later.
	swept, err := s.Sweep(ctx, &largeitem.SweepOptions{
		DryRun: true,
		Report: func(o largeitem.Orphan, err error) { fmt.Println(o.Object, err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d objects, %d of them younger than the orphan age, %d to remove\n", swept.Seen, swept.TooYoung, swept.Deleted)
	// Output: 2 objects, 2 of them younger than the orphan age, 0 to remove
}

func ExampleStore_Verify() {
	ctx := context.Background()
	table, err := memtable.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	bucket := membucket.New()
	s, err := largeitem.New(table, bucket, &largeitem.Options{BaseURI: "mem://bucket"})
	if err != nil {
		log.Fatal(err)
	}
	key, _ := largeitem.NewKey("report")
	result, err := s.Create(ctx, key, nil, largeitem.Large{"body": largeitem.Text("text")}, nil)
	if err != nil {
		log.Fatal(err)
	}
	verified, err := s.Verify(ctx, nil)
	fmt.Println(verified.References, "reference,", verified.Bytes, "bytes,", err)

	// Another program removes the object.
	if err := bucket.Delete(ctx, result.Puts[0].Reference.Object, nil); err != nil {
		log.Fatal(err)
	}
	_, err = s.Verify(ctx, &largeitem.VerifyOptions{
		Report: func(p largeitem.Problem) { fmt.Printf("attribute %q of item %v: %s\n", p.Attr, p.Key, p.Kind) },
	})
	fmt.Println(err != nil)
	// Output:
	// 1 reference, 4 bytes, <nil>
	// attribute "body" of item "report": missing
	// true
}

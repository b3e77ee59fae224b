package largeitem_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/items/memtable"
	"github.com/holdfast-go/holdfast/object/membucket"
	"github.com/holdfast-go/holdfast/store"
)

// memory returns a store in memory, and its table, with the item "report" in it.
func memory() (*largeitem.Store, *memtable.Table, largeitem.Key) {
	table, err := memtable.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := largeitem.New(table, membucket.New(), &largeitem.Options{Attributes: []string{"body", "image"}})
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("report")
	if err != nil {
		log.Fatal(err)
	}
	large := largeitem.Large{"body": largeitem.Text("a long text"), "image": largeitem.Bytes([]byte{1, 2, 3})}
	if _, err := s.Create(context.Background(), key, largeitem.Attributes{"title": "Report"}, large, nil); err != nil {
		log.Fatal(err)
	}
	return s, table, key
}

// An item keeps its small attributes in the table, and refers to the large ones.
func Example() {
	ctx := context.Background()
	s, _, key := memory()
	item, err := s.Get(ctx, key, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer item.Close()
	body, err := io.ReadAll(item.Body("body")) // size and SHA-256 are checked
	fmt.Println(item.Attributes["title"], item.Refs["image"].Size, string(body), err)
	// Output: Report 3 a long text <nil>
}

func ExampleNew() {
	table, err := memtable.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = largeitem.New(table, membucket.New(), &largeitem.Options{
		Prefix:           "production",
		Attributes:       []string{"body"},
		RemoveSuperseded: true,
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleStore_Create() {
	ctx := context.Background()
	s, _, _ := memory()
	key, _ := largeitem.NewKey("invoice")
	for range 2 {
		_, err := s.Create(ctx, key, nil, largeitem.Large{"body": largeitem.Text("text")}, nil)
		fmt.Println(store.OutcomeOf(err), errors.Is(err, store.ErrConflict))
	}
	// Output:
	// applied false
	// not applied true
}

func ExampleStore_Update() {
	ctx := context.Background()
	s, _, key := memory()
	change := largeitem.Change{Set: largeitem.Attributes{"title": "Report, second edition"}}
	large := largeitem.Large{"body": largeitem.Text("a longer text"), "image": largeitem.Bytes([]byte{1, 2, 3})}
	result, err := s.Update(ctx, key, change, large, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, put := range result.Puts {
		fmt.Println(put.Attr, put.Uploaded)
	}
	fmt.Println(result.Item.Attributes["title"], len(result.Superseded))
	// Output:
	// body true
	// image false
	// Report, second edition 1
}

// A write is made only if what was read is still so.
func ExampleStore_Update_condition() {
	ctx := context.Background()
	s, _, key := memory()
	o := &largeitem.WriteOptions{If: largeitem.Condition{Equal: largeitem.Attributes{"title": "Draft"}}}
	_, err := s.Update(ctx, key, largeitem.Change{}, largeitem.Large{"body": largeitem.Text("text")}, o)
	var refused *largeitem.ConditionFailedError
	fmt.Println(errors.As(err, &refused), store.OutcomeOf(err))
	// Output: true not applied
}

func ExampleStore_Upsert() {
	ctx := context.Background()
	s, _, _ := memory()
	key, _ := largeitem.NewKey("new")
	for _, text := range []string{"first", "second"} {
		result, err := s.Upsert(ctx, key, largeitem.Change{}, largeitem.Large{"body": largeitem.Text(text)}, nil)
		fmt.Println(result.Item.Refs["body"].Size, err)
	}
	// Output:
	// 5 <nil>
	// 6 <nil>
}

func ExampleStore_Replace() {
	ctx := context.Background()
	s, _, key := memory()
	result, err := s.Replace(ctx, key, nil, largeitem.Large{"body": largeitem.Text("all of it")}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(result.Item.Attributes), len(result.Item.Refs), len(result.Superseded))
	// Output: 0 1 2
}

func ExampleStore_Delete() {
	ctx := context.Background()
	s, _, key := memory()
	result, err := s.Delete(ctx, key, nil)
	fmt.Println(result.Item.Attributes["title"], len(result.Superseded), err)
	_, err = s.GetMeta(ctx, key)
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// Report 2 <nil>
	// true
}

func ExampleStore_Get() {
	ctx := context.Background()
	s, _, key := memory()
	item, err := s.Get(ctx, key, &largeitem.ReadOptions{Attributes: []string{"body"}})
	if err != nil {
		log.Fatal(err)
	}
	defer item.Close()
	_, err = io.Copy(io.Discard, item.Body("body"))
	fmt.Println(err, item.Body("image") == nil)
	// Output: <nil> true
}

func ExampleStore_GetMeta() {
	ctx := context.Background()
	s, _, key := memory()
	item, err := s.GetMeta(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(slices.Sorted(maps.Keys(item.Refs)), item.Refs["body"].Size)
	// Output: [body image] 11
}

func ExampleStore_Open() {
	ctx := context.Background()
	s, _, key := memory()
	item, err := s.GetMeta(ctx, key)
	if err != nil {
		log.Fatal(err)
	}
	body, err := s.Open(ctx, item, "body")
	if err != nil {
		log.Fatal(err)
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	fmt.Println(string(text), err)
	// Output: a long text <nil>
}

func ExampleStore_ClaimPrefix() {
	s, _, _ := memory()
	fmt.Println(s.ClaimPrefix(context.Background()))
	// Output: <nil>
}

// The caller writes the item: by an SDK, in a transaction, or in SQL.
func ExampleStore_Prepare() {
	ctx := context.Background()
	s, table, key := memory()
	prepared, err := s.Prepare(ctx, key, largeitem.Large{"body": largeitem.Text("prepared")}, nil)
	if err != nil {
		log.Fatal(err)
	}
	change, condition := prepared.Change(), prepared.Condition()
	change.Set["title"] = "Both at once"
	_, err = table.Update(ctx, key, change, &condition)
	switch store.OutcomeOf(err) {
	case store.Applied, store.Unknown:
		_, err = prepared.Commit(ctx)
	case store.NotApplied:
		err = errors.Join(err, prepared.Abort(ctx))
	}
	item, getErr := s.GetMeta(ctx, key)
	fmt.Println(item.Attributes["title"], item.Refs["body"].Size, err, getErr)
	// Output: Both at once 8 <nil> <nil>
}

func ExampleCustomLayout() {
	layout, err := largeitem.CustomLayout(largeitem.CustomNames{
		Name: func(c largeitem.Content) (string, error) {
			return strings.Join([]string{c.Attr, c.Key.Partition.Text, c.ID}, ":"), nil
		},
		Owner: func(name string) (largeitem.Owner, bool) {
			parts := strings.Split(name, ":")
			if len(parts) != 3 {
				return largeitem.Owner{}, false
			}
			key, err := largeitem.NewKey(parts[1])
			return largeitem.Owner{Key: key, Attr: parts[0], ID: parts[2]}, err == nil
		},
	})
	fmt.Println(layout != nil, err)
	// Output: true <nil>
}

func ExamplePynamoDBMateLayout() {
	table, err := memtable.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	// The store reads what pynamodb_mate has written, and writes what it can read.
	_, err = largeitem.New(table, membucket.New(), &largeitem.Options{Layout: largeitem.PynamoDBMateLayout(), BaseURI: "s3://bucket", Prefix: "items"})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleDefaultLayout() {
	table, err := memtable.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = largeitem.New(table, membucket.New(), &largeitem.Options{Layout: largeitem.DefaultLayout(), Prefix: "items"})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleText() {
	ctx := context.Background()
	s, _, key := memory()
	large := largeitem.Large{"body": largeitem.Text("text"), "image": {Body: strings.NewReader("PNG"), ContentType: "image/png"}}
	_, err := s.Update(ctx, key, largeitem.Change{}, large, nil)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleBytes() {
	ctx := context.Background()
	s, _, key := memory()
	_, err := s.Update(ctx, key, largeitem.Change{}, largeitem.Large{"body": largeitem.Bytes([]byte("text"))}, nil)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleNewKey() {
	for _, values := range [][]any{{"report"}, {"report", 7}, {largeitem.Number("7.50")}, {""}} {
		key, err := largeitem.NewKey(values[0], values[1:]...)
		fmt.Println(key, errors.Is(err, largeitem.ErrKey))
	}
	// Output:
	// "report" false
	// "report"/7 false
	// 7.5 false
	// "" true
}

func ExampleEqual() {
	fmt.Println(largeitem.Equal(largeitem.Number("1.0"), largeitem.Number("1")), largeitem.Equal("1", largeitem.Number("1")))
	// Output: true false
}

func ExampleGetMany() {
	_, table, key := memory()
	none, _ := largeitem.NewKey("none")
	items, err := largeitem.GetMany(context.Background(), table, []largeitem.Key{key, none}, &largeitem.GetOptions{Attributes: []string{"title"}})
	fmt.Println(items, err)
	// Output: [map[title:Report] map[]] <nil>
}

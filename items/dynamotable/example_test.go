package dynamotable_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// A program has a client of its own for DynamoDB; the examples use a stand-in.
func client() *awstest.DynamoDB {
	d := awstest.NewDynamoDB()
	d.AddTable("reports", "id", "")
	return d
}

func Example() {
	ctx := context.Background()
	table, err := dynamotable.New(client().Client(), "reports", nil)
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("2026-11")
	if err != nil {
		log.Fatal(err)
	}
	item := largeitem.Attributes{"title": "November", "views": largeitem.Number("1")}
	if _, err := table.Put(ctx, key, item, &largeitem.Condition{Absent: true}); err != nil {
		log.Fatal(err)
	}
	_, err = table.Put(ctx, key, item, &largeitem.Condition{Absent: true})
	fmt.Println(errors.Is(err, store.ErrConflict))

	change := largeitem.Change{
		Set:  largeitem.Attributes{"title": "November, corrected"},
		Expr: dynamotable.Update{Expression: "ADD #v :one", Names: map[string]string{"#v": "views"}, Values: one},
	}
	now, err := table.Update(ctx, key, change, &largeitem.Condition{Exists: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(now["title"], now["views"])
	// Output:
	// true
	// November, corrected 2
}

var one = map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}

// A change as a part of the caller's own transaction.
func ExampleTable_UpdateOf() {
	ctx := context.Background()
	table, err := dynamotable.New(client().Client(), "reports", nil)
	if err != nil {
		log.Fatal(err)
	}
	key, err := largeitem.NewKey("2026-11")
	if err != nil {
		log.Fatal(err)
	}
	part, err := table.UpdateOf(ctx, key, largeitem.Change{Set: largeitem.Attributes{"title": "November"}}, &largeitem.Condition{Exists: true})
	if err != nil {
		log.Fatal(err)
	}
	items := []types.TransactWriteItem{{Update: part}} // and others, for TransactWriteItems
	fmt.Println(*items[0].Update.UpdateExpression, "if", *items[0].Update.ConditionExpression)
	// Output:
	// SET #hf_0 = :hf_0 if attribute_exists(#hf_1)
}

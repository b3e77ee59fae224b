package dynamostore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/store"
)

// Registers with a client that the program has configured. The client here belongs to a stand-in;
// dynamodb.NewFromConfig makes a real one.
func ExampleNew() {
	ctx := context.Background()
	client := awstest.NewDynamoDB().Client()
	if err := dynamostore.CreateTable(ctx, client, "holdfast", nil); err != nil {
		fmt.Println(err)
		return
	}
	s, err := dynamostore.New(client, "holdfast", &dynamostore.Options{Prefix: "app"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = s.Put(ctx, "leader", "", []byte(`{"host":"a"}`))
	fmt.Println(store.OutcomeOf(err))

	// A conflict carries the state that it found, in the same request.
	_, err = s.Put(ctx, "leader", "", []byte(`{"host":"b"}`))
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.HasCurrent {
		fmt.Printf("%s\n", conflict.Value)
	}
	// Output:
	// applied
	// {"host":"a"}
}

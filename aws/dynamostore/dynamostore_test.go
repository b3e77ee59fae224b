package dynamostore_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/dynamostore"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
)

func newServer() *awstest.DynamoDB {
	d := awstest.NewDynamoDB()
	d.AddTable("table", "part", "key")
	return d
}

func newStore(t *testing.T, d *awstest.DynamoDB, opts *dynamostore.Options) *dynamostore.Store {
	t.Helper()
	s, err := dynamostore.New(d.Client(), "table", opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	var d *awstest.DynamoDB
	open := func(t *testing.T) store.Store {
		d = newServer()
		return newStore(t, d, &dynamostore.Options{Prefix: "pre/fix"})
	}
	storetest.Run(t, open, &storetest.Options{
		Second: func(t *testing.T, _ store.Store) store.Store {
			return newStore(t, d, &dynamostore.Options{Prefix: "pre/fix"})
		},
		Rounds: 5, Keys: 300, Racers: 8,
	})
}

package dynamotable_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// shapes are the kinds of keys that a table may have.
var shapes = map[string][2]largeitem.KeyAttribute{
	"text":             {{Name: "pk"}},
	"number":           {{Name: "id", Number: true}},
	"text and text":    {{Name: "pk"}, {Name: "a.b c"}},
	"text and number":  {{Name: "pk"}, {Name: "sk", Number: true}},
	"number and texts": {{Name: "table", Number: true}, {Name: "sk"}},
}

func newTable(t *testing.T, d *awstest.DynamoDB, shape [2]largeitem.KeyAttribute, client ...func(*dynamodb.Options)) *dynamotable.Table {
	t.Helper()
	var numbers []string
	for _, a := range shape {
		if a.Number {
			numbers = append(numbers, a.Name)
		}
	}
	d.AddTable("items", shape[0].Name, shape[1].Name, numbers...)
	return openTable(t, d, nil, client...)
}

func openTable(t *testing.T, d *awstest.DynamoDB, opts *dynamotable.Options, client ...func(*dynamodb.Options)) *dynamotable.Table {
	t.Helper()
	table, err := dynamotable.New(d.Client(client...), "items", opts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// binaryKey makes a table that no items can be kept in.
func binaryKey(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName:            &name,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeB}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
	}
}

// suite are the options of the suite that every table here gets.
func suite(o itemtest.Options) *itemtest.Options {
	o.Add = func(attr string, n int) any {
		return dynamotable.Update{
			Expression: "ADD #attr :added",
			Names:      map[string]string{"#attr": attr},
			Values:     map[string]types.AttributeValue{":added": &types.AttributeValueMemberN{Value: strconv.Itoa(n)}},
		}
	}
	o.Above = func(attr string, n int) any {
		return &dynamotable.Condition{
			Expression: "#attr > :n",
			Names:      map[string]string{"#attr": attr},
			Values:     map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: strconv.Itoa(n)}},
		}
	}
	return &o
}

func TestTable(t *testing.T) { testTable(t, shapes["text and number"]) }

// TestTableOfEachShape is TestTable for the other keys that a table may have.
func TestTableOfEachShape(t *testing.T) {
	for name, shape := range shapes {
		if name != "text and number" {
			t.Run(name, func(t *testing.T) { testTable(t, shape) })
		}
	}
}

func testTable(t *testing.T, shape [2]largeitem.KeyAttribute) {
	var d *awstest.DynamoDB
	// The server is in this process, and other tests may leave this process little processor time.
	patient := &dynamotable.Options{Timeout: time.Minute}
	open := func(t *testing.T) largeitem.Table {
		d = awstest.NewDynamoDB()
		d.PageSize, d.BatchSize = 100, 60
		newTable(t, d, shape)
		return openTable(t, d, patient)
	}
	itemtest.Run(t, open, suite(itemtest.Options{
		Reopen: func(t *testing.T, _ largeitem.Table) largeitem.Table { return openTable(t, d, patient) },
		Rounds: 3, Racers: 4, Items: 300,
	}))
}

package dynamotable_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/aws/s3bucket"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// items is a store of large items on both stand-ins.
type items struct {
	*largeitem.Store
	table *dynamotable.Table
	d     *awstest.DynamoDB
	s     *awstest.S3
}

func newItems(t *testing.T, opts *largeitem.Options) *items {
	t.Helper()
	d, s := awstest.NewDynamoDB(), awstest.NewS3("bucket")
	bucket, err := s3bucket.New(s.Client(), "bucket", &s3bucket.Options{AssumeAbilities: object.Abilities()})
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(t, d, shapes["text"])
	st, err := largeitem.New(table, bucket, opts)
	if err != nil {
		t.Fatal(err)
	}
	return &items{st, table, d, s}
}

// large makes two large attributes.
func large(text string) largeitem.Large {
	return largeitem.Large{"body": largeitem.Text(text + " body"), "image": largeitem.Text(text + " image")}
}

// TestItemRequests: what a create, an update, a read and a delete of an item with two large
// attributes cost, after the first write of a process.
func TestItemRequests(t *testing.T) {
	st := newItems(t, &largeitem.Options{RemoveSuperseded: true, RemoveYoung: true})
	ctx := t.Context()
	if _, err := st.Create(ctx, mustKey(t, "first"), nil, large("first"), nil); err != nil {
		t.Fatal(err)
	}
	key := mustKey(t, "p")
	for _, c := range []struct {
		name string
		do   func() error
		ops  string // in the order of their names
	}{
		{"create", func() error {
			_, err := st.Create(ctx, key, attributes{"n": largeitem.Number("1")}, large("one"), nil)
			return err
		},
			"PutItem, PutObject PutObject"},
		{"update of both", func() error { _, err := st.Update(ctx, key, largeitem.Change{}, large("two"), nil); return err },
			"GetItem UpdateItem, DeleteObject DeleteObject PutObject PutObject"},
		{"update with the same content", func() error { _, err := st.Update(ctx, key, largeitem.Change{}, large("two"), nil); return err },
			"GetItem UpdateItem, "},
		{"read", func() error {
			item, err := st.Get(ctx, key, nil)
			if err != nil {
				return err
			}
			defer item.Close()
			for _, attr := range []string{"body", "image"} {
				if got, err := io.ReadAll(item.Body(attr)); string(got) != "two "+attr || err != nil {
					t.Errorf("%s: %q, %v", attr, got, err)
				}
			}
			return nil
		}, "GetItem, GetObject GetObject"},
		{"read of the item alone", func() error { _, err := st.GetMeta(ctx, key); return err }, "GetItem, "},
		{"delete", func() error { _, err := st.Delete(ctx, key, nil); return err }, "DeleteItem, DeleteObject DeleteObject"},
	} {
		st.d.Reset()
		st.s.Reset()
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		toTable, toBucket := st.d.Ops(), st.s.Ops()
		slices.Sort(toTable)
		slices.Sort(toBucket)
		if got := strings.Join(toTable, " ") + ", " + strings.Join(toBucket, " "); got != c.ops {
			t.Errorf("%s: requests %q, want %q", c.name, got, c.ops)
		}
	}
}

// TestItemExpressions: large attributes change together with the caller's own expression
// and condition, in one request. An attribute both large and in the expression is refused
// before anything is uploaded.
func TestItemExpressions(t *testing.T) {
	st := newItems(t, &largeitem.Options{Attributes: []string{"body", "image"}})
	ctx, key := t.Context(), mustKey(t, "p")
	if _, err := st.Create(ctx, key, attributes{"n": largeitem.Number("1")}, large("one"), nil); err != nil {
		t.Fatal(err)
	}
	ten := map[string]types.AttributeValue{":ten": number("10")}
	below := &largeitem.WriteOptions{If: largeitem.Condition{Expr: dynamotable.Condition{Expression: "n < :ten", Values: ten}}}
	result, err := st.Update(ctx, key, largeitem.Change{Expr: dynamotable.Update{Expression: "ADD n :ten", Values: ten}}, largeitem.Large{"body": largeitem.Text("two")}, below)
	if err != nil || result.Item.Attributes["n"] != largeitem.Number("11") {
		t.Fatalf("got %+v, %v", result, err)
	}
	_, err = st.Update(ctx, key, largeitem.Change{}, largeitem.Large{"body": largeitem.Text("three")}, below)
	if refused := new(largeitem.ConditionFailedError); !errors.As(err, &refused) {
		t.Errorf("a condition that does not hold: %v", err)
	}
	st.s.Reset()
	for _, expression := range []string{"SET body = n", "SET image = n", "REMOVE image.a", "SET n = body", "SET a = if_not_exists(a, image)"} {
		_, err := st.Update(ctx, key, largeitem.Change{Expr: dynamotable.Update{Expression: expression}}, largeitem.Large{"body": largeitem.Text("four")}, nil)
		if !errors.Is(err, largeitem.ErrInvalid) || len(st.s.Requests()) > 0 {
			t.Errorf("%s: %v after %v", expression, err, st.s.Ops())
		}
	}
}

// TestPreparedTransaction: an upload whose references the caller writes by a request of the
// SDK, with an expression of its own.
func TestPreparedTransaction(t *testing.T) {
	st := newItems(t, nil)
	ctx, key := t.Context(), mustKey(t, "p")
	if _, err := st.Create(ctx, key, attributes{"n": largeitem.Number("1")}, large("one"), nil); err != nil {
		t.Fatal(err)
	}
	prepared, err := st.Prepare(ctx, key, large("two"), nil)
	if err != nil {
		t.Fatal(err)
	}
	change, cond := prepared.Change(), prepared.Condition()
	change.Expr = dynamotable.Update{Expression: "ADD n :one", Values: one}
	u, err := st.table.UpdateOf(ctx, key, change, &cond)
	if err != nil {
		t.Fatal(err)
	}
	if err := send(ctx, st.d.Client(), u); err != nil {
		t.Fatal(err)
	}
	if _, err := prepared.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	item, err := st.Get(ctx, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer item.Close()
	if got, err := io.ReadAll(item.Body("image")); err != nil || string(got) != "two image" || item.Attributes["n"] != largeitem.Number("2") {
		t.Errorf("got %q, %v, %v", got, item.Attributes, err)
	}
	// The same again is refused: the item refers to other objects by now.
	var refused *types.ConditionalCheckFailedException
	if err := send(ctx, st.d.Client(), u); !errors.As(err, &refused) {
		t.Errorf("again: %v", err)
	}
}

// send sends a prepared change as an UpdateItem of the caller's own.
func send(ctx context.Context, c *dynamodb.Client, u *types.Update) error {
	_, err := c.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression, ConditionExpression: u.ConditionExpression,
		ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
	})
	return err
}

// TestItemLostReply: the reply to the write of the item is lost, and the references are
// found in the table.
func TestItemLostReply(t *testing.T) {
	for op, f := range map[string]func(st *items, key largeitem.Key) error{
		"PutItem": func(st *items, key largeitem.Key) error {
			_, err := st.Create(t.Context(), key, nil, large("two"), nil)
			return err
		},
		"UpdateItem": func(st *items, key largeitem.Key) error {
			_, err := st.Upsert(t.Context(), key, largeitem.Change{}, large("two"), nil)
			return err
		},
	} {
		for _, fault := range []awstest.Fault{{Lose: true}, {Twice: true}, {Status: 400, Code: "ThrottlingException"}} {
			st := newItems(t, nil)
			key := mustKey(t, "p")
			st.d.Add(op, 0, 1, fault)
			if err := f(st, key); err != nil {
				t.Errorf("%s, %+v: %v (%v)", op, fault, err, store.OutcomeOf(err))
			}
		}
	}
}

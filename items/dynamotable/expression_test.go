package dynamotable_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

type (
	attributes = largeitem.Attributes
	names      = map[string]string
	values     = map[string]types.AttributeValue
)

func mustKey(t *testing.T, partition any, sort ...any) largeitem.Key {
	t.Helper()
	key, err := largeitem.NewKey(partition, sort...)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

// TestExpressions: the caller's expression and the rest of the change are one request, for
// attributes of any name.
func TestExpressions(t *testing.T) {
	d := awstest.NewDynamoDB()
	table := newTable(t, d, shapes["text and text"])
	key := mustKey(t, "p", "s")
	if _, err := table.Put(t.Context(), key, attributes{"n": largeitem.Number("1"), "a.b": "old", "set": largeitem.StringSet{"x", "y"}, "gone": "x", "also": "x"}, nil); err != nil {
		t.Fatal(err)
	}
	d.Reset()
	change := largeitem.Change{
		Set: attributes{"a.b": "new", "size": nil}, Remove: []string{"gone"},
		Expr: dynamotable.Update{
			Expression: "delete #set :x SET n = n + :one, #new = if_not_exists(#new, :one) remove also ADD counter :one",
			Names:      names{"#set": "set", "#new": "new"}, Values: values{":one": number("1"), ":x": &types.AttributeValueMemberSS{Value: []string{"x"}}},
		},
	}
	cond := &largeitem.Condition{
		Exists: true, Equal: attributes{"a.b": "old"}, Missing: []string{"size"},
		Expr: &dynamotable.Condition{Expression: "n < :ten OR attribute_exists(#new)", Names: names{"#new": "new"}, Values: values{":ten": number("10")}},
	}
	got, err := table.Update(t.Context(), key, change, cond)
	want := attributes{
		"n": largeitem.Number("2"), "a.b": "new", "size": nil, "set": largeitem.StringSet{"y"}, "new": largeitem.Number("1"), "counter": largeitem.Number("1"),
	}
	if err != nil || !largeitem.Equal(map[string]any(got), map[string]any(want)) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if ops := d.Ops(); !slices.Equal(ops, []string{"UpdateItem"}) {
		t.Errorf("requests %v", ops)
	}
	// The caller's OR does not weaken the rest of the condition.
	if _, err := table.Update(t.Context(), key, change, cond); !errors.Is(err, store.ErrConflict) {
		t.Errorf("under a condition that does not hold: %v", err)
	}
	for expr, want := range map[any][]string{
		&dynamotable.Update{Expression: "SET a = if_not_exists(b.c[1], :v) - d, #x[0] = :v ADD e :v", Names: names{"#x": "x.y"}}: {"a", "b", "d", "e", "x.y"},
		&dynamotable.Condition{Expression: "NOT (size(a) IN (b, :v)) AND c BETWEEN :a AND d"}:                                    {"a", "b", "c", "d"},
	} {
		if got, err := table.ExprAttributes(expr); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: got %q, %v, want %q", expr, got, err, want)
		}
	}
}

// TestBadExpressions: what could weaken a condition, touch the key or write one attribute
// twice is refused before anything is sent.
func TestBadExpressions(t *testing.T) {
	d := awstest.NewDynamoDB()
	table := newTable(t, d, shapes["text"])
	key := mustKey(t, "p")
	if _, err := table.Put(t.Context(), key, nil, nil); err != nil {
		t.Fatal(err)
	}
	v := values{":v": text("x")}
	changes := map[string]any{
		"none of ours": "SET a = :v", "nil": (*dynamotable.Update)(nil), "a condition": dynamotable.Condition{Expression: "a = b"},
		"empty":                       dynamotable.Update{},
		"an attribute that is set":    dynamotable.Update{Expression: "SET body = :v", Values: v},
		"its path":                    dynamotable.Update{Expression: "SET body.a[0] = :v", Values: v},
		"by a placeholder":            dynamotable.Update{Expression: "SET a = :v, #b = :v", Names: names{"#b": "body"}, Values: v},
		"an attribute that is gone":   dynamotable.Update{Expression: "ADD gone :v", Values: v},
		"the key":                     dynamotable.Update{Expression: "REMOVE pk"},
		"our placeholder for a name":  dynamotable.Update{Expression: "SET #hf_0 = :v", Names: names{"#hf_0": "a"}, Values: v},
		"our placeholder for a value": dynamotable.Update{Expression: "SET a = :hf_0", Values: values{":hf_0": text("x")}},
		"one of ours without saying":  dynamotable.Update{Expression: "SET #hf_1 = :v", Values: v},
		"no placeholder":              dynamotable.Update{Expression: "SET a = :v", Names: names{"a": "b"}, Values: v},
		"no value":                    dynamotable.Update{Expression: "SET a = :v", Values: values{":v": nil}},
		"two sections of a kind":      dynamotable.Update{Expression: "SET a = :v SET b = :v", Values: v},
		"no section":                  dynamotable.Update{Expression: "a = :v", Values: v},
		"no end":                      dynamotable.Update{Expression: "SET a = ", Values: v},
		"another sign":                dynamotable.Update{Expression: "SET a = :v; REMOVE pk", Values: v},
		"a comment":                   dynamotable.Update{Expression: "SET a = :v /* */", Values: v},
		"too long":                    dynamotable.Update{Expression: "REMOVE " + strings.Repeat("a, ", 2000) + "a"},
		"too deep":                    dynamotable.Update{Expression: "SET a = " + strings.Repeat("(", 1000) + ":v" + strings.Repeat(")", 1000), Values: v},
	}
	conditions := map[string]any{
		"none of ours": "a = :v", "an update": dynamotable.Update{Expression: "SET a = :v", Values: v}, "nil": (*dynamotable.Condition)(nil),
		"out of the parentheses": dynamotable.Condition{Expression: "a = :v) OR (a <> :v", Values: v},
		"half of one":            dynamotable.Condition{Expression: "a = :v) OR attribute_exists(pk", Values: v},
		"no comparison":          dynamotable.Condition{Expression: "a"},
		"our placeholder":        dynamotable.Condition{Expression: "a = :hf_0", Values: values{":hf_0": text("x")}},
		"another value":          dynamotable.Condition{Expression: "a = :w", Values: values{":w": text("y")}},
		"another name":           dynamotable.Condition{Expression: "#n = :w", Names: names{"#n": "y"}, Values: values{":w": text("x")}},
	}
	d.Reset()
	check := func(name string, change largeitem.Change, cond *largeitem.Condition) {
		t.Helper()
		_, err := table.Update(t.Context(), key, change, cond)
		if !errors.Is(err, largeitem.ErrInvalid) || store.OutcomeOf(err) != store.NotApplied {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, expr := range changes {
		check(name, largeitem.Change{Set: attributes{"body": "x"}, Remove: []string{"gone"}, Expr: expr}, nil)
	}
	for name, expr := range conditions {
		change := largeitem.Change{Expr: dynamotable.Update{Expression: "SET #n = :w", Names: names{"#n": "x"}, Values: values{":w": text("x")}}}
		check("condition: "+name, change, &largeitem.Condition{Expr: expr})
	}
	if len(d.Requests()) > 0 {
		t.Errorf("requests %v", d.Ops())
	}
	// What only the server finds wrong is invalid, too.
	check("a value without use", largeitem.Change{Expr: dynamotable.Update{Expression: "SET a = :v", Values: values{":v": text("x"), ":w": text("x")}}}, nil)
	check("a value that is missing", largeitem.Change{Expr: dynamotable.Update{Expression: "SET a = :v"}}, nil)
}

// TestTransactionParts: a change and its condition are the part of a transaction of the SDK,
// and what the table itself sends.
func TestTransactionParts(t *testing.T) {
	d := awstest.NewDynamoDB()
	table := newTable(t, d, shapes["text and number"])
	key := mustKey(t, "p", 7)
	u, err := table.UpdateOf(t.Context(), key, largeitem.Change{
		Set: attributes{"body": "s3://b/k#1"}, Remove: []string{"old"},
		Expr: dynamotable.Update{Expression: "ADD n :n", Values: values{":n": number("1")}},
	}, &largeitem.Condition{Exists: true, Missing: []string{"body"}})
	if err != nil {
		t.Fatal(err)
	}
	if aws.ToString(u.UpdateExpression) != "SET #hf_0 = :hf_0 REMOVE #hf_1 ADD n :n" ||
		aws.ToString(u.ConditionExpression) != "attribute_exists(#hf_2) AND attribute_not_exists(#hf_0)" || *u.TableName != "items" || len(u.Key) != 2 ||
		len(u.ExpressionAttributeNames) != 3 || len(u.ExpressionAttributeValues) != 2 {
		t.Errorf("got %q if %q, %v, %v", *u.UpdateExpression, *u.ConditionExpression, u.ExpressionAttributeNames, u.ExpressionAttributeValues)
	}
	p, err := table.PutOf(t.Context(), key, attributes{"a": "x"}, nil)
	if err != nil || len(p.Item) != 3 || p.ConditionExpression != nil || p.ExpressionAttributeNames != nil || p.ExpressionAttributeValues != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	if del, err := table.DeleteOf(t.Context(), key, nil); err != nil || len(del.Key) != 2 || del.ConditionExpression != nil {
		t.Errorf("got %+v, %v", del, err)
	}
	if ops := d.Ops(); !slices.Equal(ops, []string{"DescribeTable"}) {
		t.Errorf("requests %v", ops)
	}
}

package integration_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/aws/awstest"
	"github.com/holdfast-go/holdfast/items/dynamotable"
	"github.com/holdfast-go/holdfast/items/itemtest"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestItemsOnDynamoDB: the contract of a table of items, on the server itself.
func TestItemsOnDynamoDB(t *testing.T) {
	t.Parallel()
	server := set.DynamoDB(t)
	for name, shape := range map[string][2]largeitem.KeyAttribute{
		"text":            {{Name: "pk"}},
		"number and text": {{Name: "table", Number: true}, {Name: "a.b c"}},
	} {
		t.Run(name, func(t *testing.T) {
			var table string
			second := func(t *testing.T, _ largeitem.Table) largeitem.Table {
				items, err := dynamotable.New(server.Client(), table, nil)
				if err != nil {
					t.Fatal(err)
				}
				return items
			}
			open := func(t *testing.T) largeitem.Table {
				table = servers.Unique("items")
				if err := dynamotable.CreateTable(t.Context(), server.Client(), table, shape[0], shape[1], nil); err != nil {
					t.Fatal(err)
				}
				return second(t, nil)
			}
			number := func(n int) types.AttributeValue { return &types.AttributeValueMemberN{Value: strconv.Itoa(n)} }
			itemtest.Run(t, open, &itemtest.Options{
				Reopen: second,
				Add: func(attr string, n int) any {
					return dynamotable.Update{Expression: "ADD #attr :added", Names: map[string]string{"#attr": attr}, Values: map[string]types.AttributeValue{":added": number(n)}}
				},
				Above: func(attr string, n int) any {
					return dynamotable.Condition{Expression: "#attr > :n", Names: map[string]string{"#attr": attr}, Values: map[string]types.AttributeValue{":n": number(n)}}
				},
				Rounds: 2, Racers: 3, Items: 250,
			})
		})
	}
}

// attrs are attributes as the SDK has them, of pairs of a name and a value.
func attrs(pairs ...any) map[string]types.AttributeValue {
	a := make(map[string]types.AttributeValue)
	for i := 0; i < len(pairs); i += 2 {
		v, err := dynamotable.ToValue(pairs[i+1])
		if err != nil {
			panic(err)
		}
		a[pairs[i].(string)] = v
	}
	return a
}

// TestItemBehaviour: the stand-in of package awstest answers as the server does, in what
// dynamotable and its users' expressions rest on.
func TestItemBehaviour(t *testing.T) {
	t.Parallel()
	once := func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 }
	real, fake := newRawTable(t, set.DynamoDB(t)), awstest.NewDynamoDB()
	fake.AddTable(real.name, "k", "")
	type values = map[string]types.AttributeValue
	type names = map[string]string
	item := attrs("s", "text", "n", largeitem.Number("1.50"), "b", []byte{0, 1}, "t", true, "nil", nil,
		"l", []any{"x", largeitem.Number("7"), []any{}, nil}, "m", map[string]any{"a": map[string]any{"b": largeitem.Number("0")}, "empty": map[string]any{}},
		"ss", largeitem.StringSet{"b", "a"}, "ns", largeitem.NumberSet{"1", "-2.5"}, "bs", largeitem.BinarySet{{1}, {0}},
		"empty", "", "none", []byte{}, "dotted.name [0]", "x", "size", "reserved")
	for _, c := range []struct {
		name      string
		condition string
		update    string // empty: the condition alone, by a DeleteItem
		names     names
		values    values
	}{
		{name: "equal texts", condition: "s = :v", values: attrs(":v", "text")},
		{name: "equal numbers", condition: "n = :v", values: attrs(":v", largeitem.Number("15e-1"))},
		{name: "equal bytes", condition: "b = :v", values: attrs(":v", []byte{0, 1})},
		{name: "other bytes", condition: "b = :v", values: attrs(":v", []byte{0, 2})},
		{name: "a number is no text", condition: "n = :v", values: attrs(":v", "1.5")},
		{name: "equal nulls", condition: "#n = :v", names: names{"#n": "nil"}, values: attrs(":v", nil)},
		{name: "a null is there", condition: "attribute_exists(#n)", names: names{"#n": "nil"}},
		{name: "equal bools", condition: "t = :v", values: attrs(":v", true)},
		{name: "equal lists", condition: "l = :v", values: attrs(":v", []any{"x", largeitem.Number("7.0"), []any{}, nil})},
		{name: "a shorter list", condition: "l = :v", values: attrs(":v", []any{"x"})},
		{name: "equal maps", condition: "m = :v", values: attrs(":v", map[string]any{"empty": map[string]any{}, "a": map[string]any{"b": largeitem.Number("0")}})},
		{name: "equal sets of texts", condition: "ss = :v", values: attrs(":v", largeitem.StringSet{"a", "b"})},
		{name: "equal sets of numbers", condition: "ns = :v", values: attrs(":v", largeitem.NumberSet{"-2.50", "1"})},
		{name: "equal sets of bytes", condition: "bs = :v", values: attrs(":v", largeitem.BinarySet{{0}, {1}})},
		{name: "a smaller set", condition: "ss = :v", values: attrs(":v", largeitem.StringSet{"a"})},
		{name: "empty text", condition: "#e = :v", names: names{"#e": "empty"}, values: attrs(":v", "")},
		{name: "empty bytes", condition: "#e = :v", names: names{"#e": "none"}, values: attrs(":v", []byte{})},
		{name: "equal of what is missing", condition: "nothere = :v", values: attrs(":v", "x")},
		{name: "unequal of what is missing", condition: "nothere <> :v", values: attrs(":v", "x")},
		{name: "below what is missing", condition: "nothere < :v", values: attrs(":v", "x")},
		{name: "a name with a dot", condition: "#d = :v", names: names{"#d": "dotted.name [0]"}, values: attrs(":v", "x")},
		{name: "a path in a map", condition: "m.a.b = :v", values: attrs(":v", largeitem.Number("0"))},
		{name: "a path in a list", condition: "l[1] = :v AND attribute_not_exists(l[9])", values: attrs(":v", largeitem.Number("7"))},
		{name: "and, or, not", condition: "NOT (s = :v OR n = :v) AND (s <> :v)", values: attrs(":v", "other")},
		{name: "precedence", condition: "s = :a OR s = :b AND s = :b", values: attrs(":a", "text", ":b", "other")},
		{name: "between", condition: "n BETWEEN :a AND :b AND n > :a", values: attrs(":a", largeitem.Number("1"), ":b", largeitem.Number("1.5"))},
		{name: "in", condition: "s IN (:a, :b)", values: attrs(":a", "x", ":b", "text")},
		{name: "begins with", condition: "begins_with(s, :a)", values: attrs(":a", "te")},
		{name: "contains in a text", condition: "contains(s, :a)", values: attrs(":a", "ex")},
		{name: "contains in a set", condition: "contains(ns, :a)", values: attrs(":a", largeitem.Number("1.0"))},
		{name: "contains in a list", condition: "contains(l, :a)", values: attrs(":a", "x")},
		{name: "type", condition: "attribute_type(ss, :a)", values: attrs(":a", "SS")},
		{name: "size", condition: "size(s) = :a AND size(l) = :a AND size(b) < :a", values: attrs(":a", largeitem.Number("4"))},
		{name: "a value that is not there", condition: "s = :a"},
		{name: "a name that is not there", condition: "#a = s"},
		{name: "a value without use", condition: "attribute_exists(s)", values: attrs(":a", "x")},
		{name: "a name without use", condition: "attribute_exists(s)", names: names{"#a": "x"}},
		{name: "parentheses that do not match", condition: "s = :a) OR (s = :a", values: attrs(":a", "x")},
		{name: "no comparison", condition: "s"},
		{name: "an unknown function", condition: "exists(s)"},

		{name: "set", update: "SET s = :v, fresh = :v", values: attrs(":v", []any{})},
		{name: "set a null", update: "SET s = :v", values: attrs(":v", nil)},
		{name: "small letters", update: "set s = :v remove n", values: attrs(":v", "x")},
		{name: "sum", update: "SET n = n + :v, x = :v - n", values: attrs(":v", largeitem.Number("0.25"))},
		{name: "sum of a text", update: "SET s = s + :v", values: attrs(":v", largeitem.Number("1"))},
		{name: "sum of what is missing", update: "SET s = nothere + :v", values: attrs(":v", largeitem.Number("1"))},
		{name: "if not exists", update: "SET s = if_not_exists(s, :v), fresh = if_not_exists(fresh, :v)", values: attrs(":v", "x")},
		{name: "list append", update: "SET l = list_append(:v, l)", values: attrs(":v", []any{"first"})},
		{name: "copy", update: "SET n = s, s = n"},
		{name: "remove what is missing", update: "REMOVE nothere, s"},
		{name: "remove from a list", update: "REMOVE l[0], l[2], l[9]"},
		{name: "set in a map", update: "SET m.a.c = :v REMOVE m.a.b", values: attrs(":v", "x")},
		{name: "set in a map that is missing", update: "SET q.a = :v", values: attrs(":v", "x")},
		{name: "set after the end of a list", update: "SET l[9] = :v", values: attrs(":v", "x")},
		{name: "add to a number", update: "ADD n :v, fresh :v", values: attrs(":v", largeitem.Number("-2"))},
		{name: "add to a set", update: "ADD ss :v", values: attrs(":v", largeitem.StringSet{"c", "a"})},
		{name: "add to a text", update: "ADD s :v", values: attrs(":v", largeitem.Number("1"))},
		{name: "add a text", update: "ADD fresh :v", values: attrs(":v", "1")},
		{name: "delete from a set", update: "DELETE ss :v", values: attrs(":v", largeitem.StringSet{"c", "a"})},
		{name: "delete a whole set", update: "DELETE ss :v", values: attrs(":v", largeitem.StringSet{"b", "a"})},
		{name: "delete from what is missing", update: "DELETE fresh :v", values: attrs(":v", largeitem.StringSet{"b", "a"})},
		{name: "all four", update: "DELETE ss :a REMOVE s ADD n :n SET x = :a", values: attrs(":a", largeitem.StringSet{"a"}, ":n", largeitem.Number("1"))},
		{name: "one twice", update: "SET s = :v REMOVE s", values: attrs(":v", "x")},
		{name: "SET twice", update: "SET s = :v SET fresh = :v", values: attrs(":v", "x")},
		{name: "a path in another", update: "SET m = :v REMOVE m.a", values: attrs(":v", "x")},
		{name: "a part of the key", update: "SET k = :v", values: attrs(":v", "x")},
		{name: "a refused update", condition: "attribute_not_exists(s)", update: "SET s = :v", values: attrs(":v", "x")},
		{name: "an empty set", update: "SET x = :v", values: values{":v": &types.AttributeValueMemberSS{}}},
		{name: "a set with one twice", update: "SET x = :v", values: values{":v": &types.AttributeValueMemberSS{Value: []string{"a", "a"}}}},
		{name: "a large number", update: "SET x = :v", values: values{":v": &types.AttributeValueMemberN{Value: "1e126"}}},
		{name: "no number", update: "SET x = :v", values: values{":v": &types.AttributeValueMemberN{Value: "one"}}},
		{name: "an item that is too large", update: "SET x = :v", values: attrs(":v", strings.Repeat("x", 400<<10))},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, client := range []*dynamodb.Client{real.c, fake.Client(once)} {
				got = append(got, writeItem(t, client, &types.Update{
					TableName: &real.name, Key: attrs("k", c.name), ConditionExpression: orNil(c.condition), UpdateExpression: orNil(c.update),
					ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
				}, item))
			}
			if got[0] != got[1] {
				t.Errorf("the server: %s\nthe stand-in: %s", got[0], got[1])
			}
			t.Log(got[0])
		})
	}
}

// writeItem puts an item, changes it, or deletes it where there is no update, and gives the
// answer and the item after it.
func writeItem(t *testing.T, c *dynamodb.Client, u *types.Update, item map[string]types.AttributeValue) string {
	t.Helper()
	item = maps.Clone(item)
	maps.Copy(item, u.Key)
	if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: u.TableName, Item: item}); err != nil {
		t.Fatal(err)
	}
	var err error
	var answered map[string]types.AttributeValue
	if u.UpdateExpression == nil {
		var out *dynamodb.DeleteItemOutput
		out, err = c.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
			TableName: u.TableName, Key: u.Key, ConditionExpression: u.ConditionExpression, ReturnValues: types.ReturnValueAllOld,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		if err == nil {
			answered = out.Attributes
		}
	} else {
		var out *dynamodb.UpdateItemOutput
		out, err = c.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, ConditionExpression: u.ConditionExpression, UpdateExpression: u.UpdateExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
			ReturnValues: types.ReturnValueAllNew, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		})
		if err == nil {
			answered = out.Attributes
		}
	}
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		answered = refused.Item
	}
	now, err2 := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: u.TableName, Key: u.Key, ConsistentRead: aws.Bool(true)})
	if err2 != nil {
		t.Fatal(err2)
	}
	return answer(err) + "; answered " + changed(t, item, answered) + "; now " + changed(t, item, now.Item)
}

// changed says how an item differs from another.
func changed(t *testing.T, from, to map[string]types.AttributeValue) string {
	t.Helper()
	a, err := dynamotable.FromItem(from)
	if err != nil {
		t.Fatal(err)
	}
	b, err := dynamotable.FromItem(to)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) == 0 {
		return "none"
	}
	diff := make(map[string]any)
	for name := range a {
		if v, ok := b[name]; !ok {
			diff[name] = "(removed)"
		} else if !largeitem.Equal(a[name], v) {
			diff[name] = v
		}
	}
	for name, v := range b {
		if _, ok := a[name]; !ok {
			diff[name] = v
		}
	}
	return described(diff)
}

// described writes values down with their types, sets in order.
func described(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var all []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, name+":"+described(v[name]))
		}
		return "{" + strings.Join(all, " ") + "}"
	case []any:
		var all []string
		for _, x := range v {
			all = append(all, described(x))
		}
		return "[" + strings.Join(all, " ") + "]"
	case largeitem.StringSet:
		return fmt.Sprintf("%q", slices.Sorted(slices.Values(v)))
	case largeitem.NumberSet:
		return fmt.Sprint(slices.Sorted(slices.Values(v)))
	case largeitem.Number:
		n, err := v.Canonical()
		return fmt.Sprint(n, err)
	case string:
		return fmt.Sprintf("%.40q", v)
	}
	return fmt.Sprintf("%T %v", v, v)
}

// orNil returns nil for an empty text.
func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// TestItemTransaction: changes of dynamotable are parts of a transaction on the server: all
// are made, or none.
func TestItemTransaction(t *testing.T) {
	t.Parallel()
	client, name := set.DynamoDB(t).Client(), servers.Unique("items")
	if err := dynamotable.CreateTable(t.Context(), client, name, largeitem.KeyAttribute{Name: "pk"}, largeitem.KeyAttribute{Name: "sk", Number: true}, nil); err != nil {
		t.Fatal(err)
	}
	table, err := dynamotable.New(client, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	var keys []largeitem.Key
	for i := range 3 {
		key, err := largeitem.NewKey("p", i)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if _, err := table.Put(t.Context(), keys[2], largeitem.Attributes{"a": "x"}, nil); err != nil {
		t.Fatal(err)
	}
	write := func(deleteIf string) error {
		t.Helper()
		change := largeitem.Change{
			Set:  largeitem.Attributes{"dotted.name": "s3://bucket/key"},
			Expr: dynamotable.Update{Expression: "ADD n :one", Values: attrs(":one", largeitem.Number("1"))},
		}
		update, err := table.UpdateOf(t.Context(), keys[0], change, &largeitem.Condition{Missing: []string{"dotted.name"}})
		if err != nil {
			t.Fatal(err)
		}
		put, err := table.PutOf(t.Context(), keys[1], largeitem.Attributes{"size": nil}, &largeitem.Condition{Absent: true})
		if err != nil {
			t.Fatal(err)
		}
		del, err := table.DeleteOf(t.Context(), keys[2], &largeitem.Condition{Equal: largeitem.Attributes{"a": deleteIf}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Update: update}, {Put: put}, {Delete: del}}})
		return err
	}
	var cancelled *types.TransactionCanceledException
	if err := write("y"); !errors.As(err, &cancelled) {
		t.Fatalf("got %v", err)
	}
	if got, err := table.GetMany(t.Context(), keys, nil); err != nil || got[0] != nil || got[1] != nil || got[2] == nil {
		t.Errorf("after a transaction that failed: %v, %v", got, err)
	}
	if err := write("x"); err != nil {
		t.Fatal(err)
	}
	if got, err := table.GetMany(t.Context(), keys, nil); err != nil || got[0]["dotted.name"] != "s3://bucket/key" || got[1] == nil || got[2] != nil {
		t.Errorf("after it: %v, %v", got, err)
	}
}

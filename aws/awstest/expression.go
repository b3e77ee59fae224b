package awstest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/aws/dynamoexpr"
)

// attribute is a value as it goes over the wire: one type and what has it.
type attribute = map[string]any

// expressions are those of one request, evaluated on one item.
type expressions struct {
	broken DynamoDBBroken
	parser dynamoexpr.Parser
	values map[string]attribute
	item   avItem
}

// invalid is what the server calls a ValidationException.
type invalid struct{ text string }

// refuse ends an evaluation: the request is not valid.
func refuse(format string, args ...any) { panic(invalid{fmt.Sprintf(format, args...)}) }

// newExpressions checks names and values of a request.
func newExpressions(broken DynamoDBBroken, q dynamoRequest, item avItem) *expressions {
	if q.ExpressionAttributeNames != nil && len(q.ExpressionAttributeNames) == 0 {
		refuse("ExpressionAttributeNames must not be empty")
	}
	if q.ExpressionAttributeValues != nil && len(q.ExpressionAttributeValues) == 0 {
		refuse("ExpressionAttributeValues must not be empty")
	}
	checkItem(q.ExpressionAttributeValues)
	return &expressions{broken: broken, parser: dynamoexpr.Parser{Names: q.ExpressionAttributeNames}, values: q.ExpressionAttributeValues, item: item}
}

// allUsed refuses names and values that no expression has.
func (e *expressions) allUsed() {
	for _, p := range append(slices.Sorted(maps.Keys(e.parser.Names)), slices.Sorted(maps.Keys(e.values))...) {
		if !e.parser.Used[p] {
			refuse("Value provided in ExpressionAttributeNames or ExpressionAttributeValues unused in expressions: keys: {%s}", p)
		}
	}
}

// holds evaluates a condition; an empty one holds.
func (e *expressions) holds(text string) bool {
	if text == "" {
		return true
	}
	n, err := e.parser.Condition(text)
	if err != nil {
		refuse("Invalid ConditionExpression: %v", err)
	}
	return e.condition(n)
}

func (e *expressions) condition(n dynamoexpr.Node) bool {
	switch n.Op {
	case "AND":
		left, right := e.condition(n.Args[0]), e.condition(n.Args[1])
		return left && right
	case "OR":
		left, right := e.condition(n.Args[0]), e.condition(n.Args[1])
		return left || right
	case "NOT":
		return !e.condition(n.Args[0])
	case "call":
		return e.function(n)
	case "BETWEEN":
		return e.compare(n.Args[0], ">=", n.Args[1]) && e.compare(n.Args[0], "<=", n.Args[2])
	case "IN":
		return slices.ContainsFunc(n.Args[1:], func(a dynamoexpr.Node) bool { return e.compare(n.Args[0], "=", a) })
	}
	return e.compare(n.Args[0], n.Op, n.Args[1])
}

func (e *expressions) function(n dynamoexpr.Node) bool {
	first := e.operand(n.Args[0])
	switch n.Name {
	case "attribute_exists":
		return first != nil
	case "attribute_not_exists":
		return first == nil || e.broken.IgnoreNotExists
	}
	second := e.operand(n.Args[1])
	switch n.Name {
	case "attribute_type":
		kind, _ := second["S"].(string)
		_, ok := first[kind]
		return ok
	case "begins_with":
		s, ok1 := first["S"].(string)
		prefix, ok2 := second["S"].(string)
		return ok1 && ok2 && strings.HasPrefix(s, prefix)
	case "contains":
		for kind, v := range first {
			switch elements, isList := v.([]any); {
			case kind == "S":
				part, ok := second["S"].(string)
				return ok && strings.Contains(v.(string), part)
			case isList:
				return slices.ContainsFunc(elements, func(x any) bool {
					if kind != "L" { // a set
						x = attribute{kind[:1]: x}
					}
					return equal(x, second)
				})
			}
		}
		return false
	}
	refuse("%s is no condition", n.Name)
	return false
}

// operand returns a value; nil if there is none.
func (e *expressions) operand(n dynamoexpr.Node) attribute {
	switch n.Op {
	case "value":
		v, ok := e.values[n.Name]
		if !ok {
			refuse("An expression attribute value used in expression is not defined; attribute value: %s", n.Name)
		}
		return v
	case "path":
		return at(e.item, n.Path)
	case "+", "-":
		return e.sum(n)
	}
	args := make([]attribute, len(n.Args))
	for i, arg := range n.Args {
		args[i] = e.operand(arg)
	}
	switch n.Name {
	case "if_not_exists":
		if args[0] == nil {
			return args[1]
		}
		return args[0]
	case "list_append":
		a, ok1 := args[0]["L"].([]any)
		b, ok2 := args[1]["L"].([]any)
		if !ok1 || !ok2 {
			refuse("An operand in the update expression has an incorrect data type")
		}
		return attribute{"L": append(slices.Clone(a), b...)}
	case "size":
		for kind, v := range args[0] {
			switch v := v.(type) {
			case string:
				if kind == "B" {
					b, _ := base64.StdEncoding.DecodeString(v)
					v = string(b)
				}
				return attribute{"N": strconv.Itoa(len(v))}
			case []any:
				return attribute{"N": strconv.Itoa(len(v))}
			case map[string]any:
				return attribute{"N": strconv.Itoa(len(v))}
			}
		}
		return nil
	}
	refuse("%s is no operand", n.Name)
	return nil
}

func (e *expressions) sum(n dynamoexpr.Node) attribute {
	var all [2]*big.Rat
	for i, arg := range n.Args {
		v := e.operand(arg)
		if v == nil {
			refuse("The provided expression refers to an attribute that does not exist in the item")
		}
		text, _ := v["N"].(string)
		number, ok := new(big.Rat).SetString(text)
		if !ok {
			refuse("An operand in the update expression has an incorrect data type")
		}
		all[i] = number
	}
	if n.Op == "-" {
		all[1].Neg(all[1])
	}
	return number(all[0].Add(all[0], all[1]))
}

// number returns a number as the server writes it.
func number(r *big.Rat) attribute {
	return attribute{"N": canonicalNumber(r.FloatString(130))}
}

func (e *expressions) compare(l dynamoexpr.Node, sign string, r dynamoexpr.Node) bool {
	left, right := e.operand(l), e.operand(r)
	switch {
	case sign == "=" && e.broken.IgnoreEqual:
		return true
	case left == nil || right == nil:
		return sign == "<>" && (left != nil || right != nil)
	case sign == "=":
		return equal(left, right)
	case sign == "<>":
		return !equal(left, right)
	}
	order := 0
	for kind, v := range left {
		x, ok1 := v.(string)
		y, ok2 := right[kind].(string)
		switch {
		case !ok1 || !ok2:
			return false
		case kind == "N":
			order = rational(x).Cmp(rational(y))
		case kind == "B":
			order = bytes.Compare(decoded(x), decoded(y))
		default:
			order = strings.Compare(x, y)
		}
	}
	switch sign {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// at returns what is at a path; nil if there is nothing.
func at(item avItem, path dynamoexpr.Path) attribute {
	v := item[path[0].Name]
	for _, step := range path[1:] {
		if m, ok := v["M"].(map[string]any); ok && step.Name != "" {
			v, _ = m[step.Name].(attribute)
			continue
		}
		list, _ := v["L"].([]any)
		if step.Name != "" || step.Index >= len(list) {
			return nil
		}
		v, _ = list[step.Index].(attribute)
	}
	return v
}

// update returns the item with this key after an update; e.item stays as it is.
func (e *expressions) update(text string, key avItem) avItem {
	next := copied(e.item)
	if text == "" {
		return next
	}
	actions, err := e.parser.Update(text)
	if err != nil {
		refuse("Invalid UpdateExpression: %v", err)
	}
	for i, a := range actions {
		if name := a.Path[0].Name; key[name] != nil {
			refuse("Cannot update attribute %s. This attribute is part of the key", name)
		}
		for _, b := range actions[:i] {
			if n := min(len(a.Path), len(b.Path)); slices.Equal(a.Path[:n], b.Path[:n]) {
				refuse("Invalid UpdateExpression: Two document paths overlap with each other")
			}
		}
	}
	// A removal from a list moves what follows it: the last element first.
	slices.SortStableFunc(actions, func(a, b dynamoexpr.Action) int {
		if a.Kind != "REMOVE" || b.Kind != "REMOVE" {
			return strings.Compare(order[a.Kind], order[b.Kind])
		}
		return b.Path[len(b.Path)-1].Index - a.Path[len(a.Path)-1].Index
	})
	for _, a := range actions {
		switch a.Kind {
		case "SET":
			v := e.operand(a.Node)
			if v == nil {
				refuse("The provided expression refers to an attribute that does not exist in the item")
			}
			put(next, a.Path, v)
		case "REMOVE":
			put(next, a.Path, nil)
		default:
			e.add(next, a)
		}
	}
	return next
}

var order = map[string]string{"SET": "1", "ADD": "2", "DELETE": "3", "REMOVE": "4"}

// copied returns a copy that shares nothing that put changes.
func copied(item avItem) avItem {
	next := make(avItem, len(item))
	for name, v := range item {
		next[name] = deep(v).(attribute)
	}
	return next
}

func deep(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, x := range v {
			m[name] = deep(x)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			list[i] = deep(x)
		}
		return list
	}
	return v
}

// put writes v at a path, or with nil removes what is there.
func put(item avItem, path dynamoexpr.Path, v attribute) {
	last := path[len(path)-1]
	if len(path) == 1 {
		if v == nil {
			delete(item, last.Name)
		} else {
			item[last.Name] = deep(v).(attribute)
		}
		return
	}
	parent := at(item, path[:len(path)-1])
	m, isMap := parent["M"].(map[string]any)
	list, isList := parent["L"].([]any)
	switch {
	case isMap && last.Name != "" && v == nil:
		delete(m, last.Name)
	case isMap && last.Name != "":
		m[last.Name] = deep(v)
	case isList && last.Name == "" && v == nil:
		if last.Index < len(list) {
			parent["L"] = slices.Delete(list, last.Index, last.Index+1)
		}
	case isList && last.Name == "" && last.Index < len(list):
		list[last.Index] = deep(v)
	case isList && last.Name == "":
		parent["L"] = append(list, deep(v))
	default:
		refuse("The document path provided in the update expression is invalid for update")
	}
}

// add carries out ADD and DELETE, of numbers and sets.
func (e *expressions) add(item avItem, a dynamoexpr.Action) {
	v, now := e.operand(a.Node), at(item, a.Path)
	for kind, x := range v {
		have, same := now[kind]
		elements, isSet := x.([]any)
		isSet = isSet && kind != "L"
		switch {
		case now != nil && !same, !isSet && (kind != "N" || a.Kind == "DELETE"):
			refuse("An operand in the update expression has an incorrect data type")
		case kind == "N" && now == nil:
			put(item, a.Path, v)
		case kind == "N":
			put(item, a.Path, number(new(big.Rat).Add(rational(have.(string)), rational(x.(string)))))
		default:
			old, _ := have.([]any)
			set := slices.DeleteFunc(slices.Clone(old), func(y any) bool {
				return slices.ContainsFunc(elements, func(z any) bool { return equal(attribute{kind[:1]: y}, attribute{kind[:1]: z}) })
			})
			if a.Kind == "ADD" {
				set = append(set, elements...)
			}
			if len(set) == 0 {
				put(item, a.Path, nil)
				continue
			}
			put(item, a.Path, attribute{kind: set})
		}
	}
}

// projected returns those attributes of an item that a projection names; all if it is empty.
func (e *expressions) projected(item avItem, text string) avItem {
	if text == "" || item == nil {
		return item
	}
	paths, err := e.parser.Projection(text)
	if err != nil {
		refuse("Invalid ProjectionExpression: %v", err)
	}
	part := avItem{}
	seen := map[string]bool{}
	for _, path := range paths {
		name := path[0].Name
		if len(path) > 1 {
			refuse("this server projects whole attributes only")
		}
		if seen[name] {
			refuse("Invalid ProjectionExpression: Two document paths overlap with each other")
		}
		seen[name] = true
		if v := item[name]; v != nil {
			part[name] = v
		}
	}
	return part
}

package awstest

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// expression evaluates conditions and filters on one item: AND, OR, NOT,
// parentheses, comparisons, attribute_exists, attribute_not_exists and begins_with.
type expression struct {
	broken DynamoDBBroken
	names  map[string]string
	values map[string]map[string]any
	item   avItem

	tokens []string
}

func (e *expression) eval(text string) (holds bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("invalid expression %q: %v", text, p)
		}
	}()
	for _, sign := range []string{"(", ")", ",", "<>", "<=", ">="} {
		text = strings.ReplaceAll(text, sign, " "+sign+" ")
	}
	if !strings.ContainsAny(text, "<>") {
		text = strings.ReplaceAll(text, "=", " = ")
	}
	e.tokens = strings.Fields(text)
	holds = e.or()
	if len(e.tokens) > 0 {
		panic("at " + e.tokens[0])
	}
	return holds, nil
}

func (e *expression) next() string {
	if len(e.tokens) == 0 {
		panic("it ends too early")
	}
	t := e.tokens[0]
	e.tokens = e.tokens[1:]
	return t
}

func (e *expression) accept(word string) bool {
	if len(e.tokens) > 0 && strings.EqualFold(e.tokens[0], word) {
		e.tokens = e.tokens[1:]
		return true
	}
	return false
}

func (e *expression) expect(word string) {
	if !e.accept(word) {
		panic("no " + word)
	}
}

func (e *expression) or() bool {
	holds := e.and()
	for e.accept("OR") {
		right := e.and()
		holds = holds || right
	}
	return holds
}

func (e *expression) and() bool {
	holds := e.not()
	for e.accept("AND") {
		right := e.not()
		holds = holds && right
	}
	return holds
}

func (e *expression) not() bool {
	if e.accept("NOT") {
		return !e.not()
	}
	if e.accept("(") {
		holds := e.or()
		e.expect(")")
		return holds
	}
	return e.primary()
}

func (e *expression) primary() bool {
	switch first := e.next(); first {
	case "attribute_exists", "attribute_not_exists":
		e.expect("(")
		there := e.operand(e.next()) != nil
		e.expect(")")
		if first == "attribute_not_exists" {
			return !there || e.broken.IgnoreNotExists
		}
		return there
	case "begins_with":
		e.expect("(")
		s, ok1 := e.operand(e.next())["S"].(string)
		e.expect(",")
		prefix, ok2 := e.operand(e.next())["S"].(string)
		e.expect(")")
		return ok1 && ok2 && strings.HasPrefix(s, prefix)
	default:
		left := e.operand(first)
		sign := e.next()
		return e.compare(left, sign, e.operand(e.next()))
	}
}

// operand returns a value of the request or an attribute of the item.
func (e *expression) operand(token string) map[string]any {
	if strings.HasPrefix(token, ":") {
		v, ok := e.values[token]
		if !ok {
			panic("no value " + token)
		}
		return v
	}
	if strings.HasPrefix(token, "#") {
		name, ok := e.names[token]
		if !ok {
			panic("no name " + token)
		}
		token = name
	}
	return e.item[token]
}

func (e *expression) compare(left map[string]any, sign string, right map[string]any) bool {
	if sign == "=" && e.broken.IgnoreEqual {
		return true
	}
	if left == nil || right == nil {
		return sign == "<>" && (left != nil || right != nil)
	}
	a, _ := json.Marshal(left)
	b, _ := json.Marshal(right)
	if sign == "=" || sign == "<>" {
		return (string(a) == string(b)) == (sign == "=")
	}
	order := 0
	if x, ok := left["N"].(string); ok {
		l, ok1 := new(big.Float).SetString(x)
		y, _ := right["N"].(string)
		r, ok2 := new(big.Float).SetString(y)
		if !ok1 || !ok2 {
			return false
		}
		order = l.Cmp(r)
	} else {
		order = strings.Compare(fmt.Sprint(left["S"]), fmt.Sprint(right["S"]))
	}
	switch sign {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case ">=":
		return order >= 0
	}
	panic("no comparison " + sign)
}

package dynamotable

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/internal/aws/dynamoexpr"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// Update is the type of Expr in a [largeitem.Change]: an update expression of DynamoDB ("SET #n =
// #n + :one REMOVE old") with its names and values. It must not write an attribute of the key. It
// must not write an attribute that Set or Remove of the same change names. A Condition of the same
// write may use the same placeholders. Placeholders that begin with #hf_ and :hf_ are reserved.
type Update struct {
	Expression string
	Names      map[string]string
	Values     map[string]types.AttributeValue
}

// Condition is the type of Expr in a [largeitem.Condition]: a condition expression of DynamoDB with
// its names and values. See [Update] for the placeholders.
type Condition struct {
	Expression string
	Names      map[string]string
	Values     map[string]types.AttributeValue
}

// reserved begins our own placeholders, behind # or :.
const reserved = "hf_"

// expressions are those of one request.
type expressions struct {
	schema largeitem.Schema
	names  map[string]string
	values map[string]types.AttributeValue
	ours   map[string]string // placeholders by the names that they stand for
}

func newExpressions(s largeitem.Schema) *expressions {
	return &expressions{s, map[string]string{}, map[string]types.AttributeValue{}, map[string]string{}}
}

// name returns a placeholder for a name.
func (e *expressions) name(name string) string {
	p, ok := e.ours[name]
	if !ok {
		p = fmt.Sprintf("#%s%d", reserved, len(e.ours))
		e.ours[name], e.names[p] = p, name
	}
	return p
}

// value returns a placeholder for a value, which was checked.
func (e *expressions) value(v any) string {
	p := fmt.Sprintf(":%s%d", reserved, len(e.values))
	e.values[p] = toValue(v)
	return p
}

// adopt takes the placeholders of the caller over.
func (e *expressions) adopt(names map[string]string, values map[string]types.AttributeValue) error {
	for p, name := range names {
		if err := checkPlaceholder('#', p); err != nil {
			return err
		}
		if other, ok := e.names[p]; ok && other != name {
			return fmt.Errorf("%w: the placeholder %s stands for %.80q and for %.80q", largeitem.ErrInvalid, p, other, name)
		}
		e.names[p] = name
	}
	for p, v := range values {
		if err := checkPlaceholder(':', p); err != nil {
			return err
		}
		if _, err := FromValue(v); err != nil {
			return fmt.Errorf("%w: the value of %s: %w", largeitem.ErrInvalid, p, err)
		}
		if other, ok := e.values[p]; ok && !reflect.DeepEqual(other, v) {
			return fmt.Errorf("%w: the placeholder %s stands for two values", largeitem.ErrInvalid, p)
		}
		e.values[p] = v
	}
	return nil
}

func checkPlaceholder(sign byte, p string) error {
	if len(p) < 2 || p[0] != sign || strings.HasPrefix(p[1:], reserved) {
		return fmt.Errorf("%w: %.80q is not a placeholder, or it begins with %c%s, which is reserved", largeitem.ErrInvalid, p, sign, reserved)
	}
	return nil
}

// condition returns the expression of a condition; nil if there is none.
func (e *expressions) condition(c *largeitem.Condition) (*string, error) {
	if c == nil {
		return nil, nil
	}
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.Absent {
		add("attribute_not_exists(%s)", e.name(e.schema.Partition.Name))
	}
	if c.Exists {
		add("attribute_exists(%s)", e.name(e.schema.Partition.Name))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Equal)) {
		add("%s = %s", e.name(name), e.value(c.Equal[name]))
	}
	for _, name := range c.Missing {
		add("attribute_not_exists(%s)", e.name(name))
	}
	if c.Expr != nil {
		own, _, err := parseCondition(c.Expr)
		if err != nil {
			return nil, err
		}
		if err := e.adopt(own.Names, own.Values); err != nil {
			return nil, err
		}
		add("(%s)", own.Expression)
	}
	return joined(all, " AND "), nil
}

// update returns the expression of a change; nil if it changes nothing.
func (e *expressions) update(c largeitem.Change) (*string, error) {
	parts := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		parts["SET"] = append(parts["SET"], e.name(name)+" = "+e.value(c.Set[name]))
	}
	for _, name := range c.Remove {
		parts["REMOVE"] = append(parts["REMOVE"], e.name(name))
	}
	if c.Expr != nil {
		own, actions, err := parseUpdate(c.Expr)
		if err != nil {
			return nil, err
		}
		for _, a := range actions {
			written := a.Path[0].Name
			_, set := c.Set[written]
			switch {
			case set || slices.Contains(c.Remove, written):
				return nil, fmt.Errorf("%w: the attribute %.80q is both in the update expression and in the rest of the change", largeitem.ErrInvalid, written)
			case written == e.schema.Partition.Name || written == e.schema.Sort.Name:
				return nil, fmt.Errorf("%w: the update expression changes %.80q, which is a part of the key", largeitem.ErrInvalid, written)
			}
			parts[a.Kind] = append(parts[a.Kind], a.Text)
		}
		if err := e.adopt(own.Names, own.Values); err != nil {
			return nil, err
		}
	}
	var all []string
	for _, kind := range dynamoexpr.Kinds {
		if len(parts[kind]) > 0 {
			all = append(all, kind+" "+strings.Join(parts[kind], ", "))
		}
	}
	return joined(all, " "), nil
}

// joined returns nil for nothing.
func joined(all []string, between string) *string {
	if len(all) == 0 {
		return nil
	}
	text := strings.Join(all, between)
	return &text
}

func parseUpdate(expr any) (Update, []dynamoexpr.Action, error) {
	u, ok := expr.(Update)
	if p, pointer := expr.(*Update); pointer && p != nil {
		u, ok = *p, true
	}
	if !ok {
		return u, nil, fmt.Errorf("%w: the change must be a dynamotable.Update, and is a %T", largeitem.ErrInvalid, expr)
	}
	parser := dynamoexpr.Parser{Names: u.Names}
	actions, err := parser.Update(u.Expression)
	if err != nil {
		err = fmt.Errorf("%w: %w", largeitem.ErrInvalid, err)
	}
	return u, actions, err
}

func parseCondition(expr any) (Condition, dynamoexpr.Node, error) {
	c, ok := expr.(Condition)
	if p, pointer := expr.(*Condition); pointer && p != nil {
		c, ok = *p, true
	}
	if !ok {
		return c, dynamoexpr.Node{}, fmt.Errorf("%w: the condition must be a dynamotable.Condition, and is a %T", largeitem.ErrInvalid, expr)
	}
	parser := dynamoexpr.Parser{Names: c.Names}
	n, err := parser.Condition(c.Expression)
	if err != nil {
		err = fmt.Errorf("%w: %w", largeitem.ErrInvalid, err)
	}
	return c, n, err
}

// ExprAttributes implements [largeitem.ExprReader], for [Update] and [Condition].
func (t *Table) ExprAttributes(expr any) ([]string, error) {
	var all []string
	switch expr.(type) {
	case Condition, *Condition:
		_, n, err := parseCondition(expr)
		if err != nil {
			return nil, err
		}
		all = n.Attributes()
	default:
		_, actions, err := parseUpdate(expr)
		if err != nil {
			return nil, err
		}
		for _, a := range actions {
			all = append(append(all, a.Path[0].Name), a.Node.Attributes()...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// maps returns the names and the values of a request, nil where there are none: the server
// refuses empty ones.
func (e *expressions) maps() (map[string]string, map[string]types.AttributeValue) {
	names, values := e.names, e.values
	if len(names) == 0 {
		names = nil
	}
	if len(values) == 0 {
		values = nil
	}
	return names, values
}

package dynamotable

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// ErrType: an attribute has a type that this version does not know.
var ErrType = errors.New("an attribute of an unknown type")

// ToValue returns a value in the types of the SDK. Numbers are in their canonical form. If no table
// can keep the value, the error matches [largeitem.ErrInvalid]. The result shares no memory with
// the argument.
func ToValue(v any) (types.AttributeValue, error) {
	if err := (largeitem.Attributes{"value": v}).Check(); err != nil {
		return nil, err
	}
	return toValue(v), nil
}

// ToItem calls [ToValue] for all attributes.
func ToItem(a largeitem.Attributes) (map[string]types.AttributeValue, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	item := make(map[string]types.AttributeValue, len(a))
	for name, v := range a {
		item[name] = toValue(v)
	}
	return item, nil
}

// toValue takes what Attributes.Check lets pass.
func toValue(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: v}
	case largeitem.Number:
		return &types.AttributeValueMemberN{Value: canonical(v)}
	case []byte:
		return &types.AttributeValueMemberB{Value: clone(v)}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case []any:
		list := make([]types.AttributeValue, len(v))
		for i, element := range v {
			list[i] = toValue(element)
		}
		return &types.AttributeValueMemberL{Value: list}
	case map[string]any:
		m := make(map[string]types.AttributeValue, len(v))
		for name, element := range v {
			m[name] = toValue(element)
		}
		return &types.AttributeValueMemberM{Value: m}
	case largeitem.StringSet:
		return &types.AttributeValueMemberSS{Value: append([]string{}, v...)}
	case largeitem.NumberSet:
		set := make([]string, len(v))
		for i, n := range v {
			set[i] = canonical(n)
		}
		return &types.AttributeValueMemberNS{Value: set}
	case largeitem.BinarySet:
		set := make([][]byte, len(v))
		for i, b := range v {
			set[i] = clone(b)
		}
		return &types.AttributeValueMemberBS{Value: set}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

// clone never returns nil, which the SDK would leave out.
func clone(b []byte) []byte { return append([]byte{}, b...) }

func canonical(n largeitem.Number) string {
	c, _ := n.Canonical() // Check has let it pass
	return string(c)
}

// FromValue is the inverse of [ToValue]. Numbers have the form in which the server sent them. The
// result shares no memory with the argument. If a value has a type that this version does not know,
// the error matches [ErrType]. If a map or list has the same value in two places, the error also
// matches ErrType. The reason: the SDK replaces a value of an unknown type by the previous value.
func FromValue(v types.AttributeValue) (any, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value, nil
	case *types.AttributeValueMemberN:
		return largeitem.Number(v.Value), nil
	case *types.AttributeValueMemberB:
		return clone(v.Value), nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	case *types.AttributeValueMemberNULL:
		if !v.Value {
			return nil, fmt.Errorf("%w: an attribute has the type NULL and the value false", ErrType)
		}
		return nil, nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		seen := make(once)
		for i, element := range v.Value {
			var err error
			if list[i], err = seen.value(element); err != nil {
				return nil, err
			}
		}
		return list, nil
	case *types.AttributeValueMemberM:
		m, err := FromItem(v.Value)
		return map[string]any(m), err
	case *types.AttributeValueMemberSS:
		return append(largeitem.StringSet{}, v.Value...), nil
	case *types.AttributeValueMemberNS:
		set := make(largeitem.NumberSet, len(v.Value))
		for i, n := range v.Value {
			set[i] = largeitem.Number(n)
		}
		return set, nil
	case *types.AttributeValueMemberBS:
		set := make(largeitem.BinarySet, len(v.Value))
		for i, b := range v.Value {
			set[i] = bytes.Clone(b)
		}
		return set, nil
	case *types.UnknownUnionMember:
		return nil, fmt.Errorf("%w: %.20q", ErrType, v.Tag)
	}
	return nil, fmt.Errorf("%w: %T", ErrType, v)
}

// once are the values that a map or a list had so far.
type once map[types.AttributeValue]struct{}

func (o once) value(v types.AttributeValue) (any, error) {
	if _, twice := o[v]; twice {
		return nil, fmt.Errorf("%w: one AttributeValue is used twice, in two attributes or elements of a list; pass a copy", ErrType)
	}
	o[v] = struct{}{}
	return FromValue(v)
}

// FromItem calls [FromValue] for all attributes.
func FromItem(item map[string]types.AttributeValue) (largeitem.Attributes, error) {
	a := make(largeitem.Attributes, len(item))
	seen := make(once)
	for name, element := range item {
		v, err := seen.value(element)
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", name, err)
		}
		a[name] = v
	}
	return a, nil
}

// toKey returns the attributes of a key.
func toKey(s largeitem.Schema, key largeitem.Key) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{s.Partition.Name: toValue(key.Partition.Any())}
	if key.HasSort() {
		item[s.Sort.Name] = toValue(key.Sort.Any())
	}
	return item
}

// fromItem returns the key of an item and its other attributes.
func fromItem(s largeitem.Schema, item map[string]types.AttributeValue) (key largeitem.Key, rest largeitem.Attributes, err error) {
	rest, err = FromItem(item)
	if err == nil && s.Sort.Name == "" {
		key, err = largeitem.NewKey(rest[s.Partition.Name])
	} else if err == nil {
		key, err = largeitem.NewKey(rest[s.Partition.Name], rest[s.Sort.Name])
	}
	if err == nil {
		err = s.CheckKey(key)
	}
	if err != nil {
		return key, nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	delete(rest, s.Partition.Name)
	delete(rest, s.Sort.Name)
	return key, rest, nil
}

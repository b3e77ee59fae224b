package largeitem

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Attributes contains the values of an item's attributes, by name, without the attributes of the
// key. A value has one of these types:
//
//	string, [Number], []byte, bool, nil,
//	[]any, map[string]any,
//	[StringSet], [NumberSet], [BinarySet]
//
// These are the ten types of DynamoDB's attributes. Lists and maps contain such values.
type Attributes map[string]any

// StringSet, NumberSet and BinarySet are sets. The order of the elements does not matter. Each
// element occurs only once, and no set is empty.
type (
	StringSet []string
	NumberSet []Number
	BinarySet [][]byte
)

// Equal reports whether a and b are the same value. Equal compares numbers by value. It ignores the
// order of the elements of a set.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case Number:
		b, ok := b.(Number)
		return ok && sameNumber(a, b)
	case []byte:
		b, ok := b.([]byte)
		return ok && bytes.Equal(a, b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, Equal)
	case StringSet:
		b, ok := b.(StringSet)
		return ok && sameSet(a, b, func(x string) (string, error) { return x, nil })
	case NumberSet:
		b, ok := b.(NumberSet)
		return ok && sameSet(a, b, numberText)
	case BinarySet:
		b, ok := b.(BinarySet)
		return ok && sameSet(a, b, bytesText)
	case string, bool, nil:
		return a == b
	}
	return false
}

func sameNumber(a, b Number) bool {
	x, err := a.Canonical()
	if err != nil {
		return false
	}
	y, err := b.Canonical()
	return err == nil && x == y
}

func numberText(n Number) (string, error) {
	c, err := n.Canonical()
	return string(c), err
}

func bytesText(b []byte) (string, error) { return string(b), nil }

// sameSet compares sets by the text that stands for each element. Lists with an element
// twice, or with one that has no text, are no sets, and equal nothing.
func sameSet[T any](a, b []T, text func(T) (string, error)) bool {
	x, err := setOf(a, text)
	if err != nil {
		return false
	}
	y, err := setOf(b, text)
	return err == nil && maps.Equal(x, y)
}

func setOf[T any](list []T, text func(T) (string, error)) (map[string]struct{}, error) {
	set := make(map[string]struct{}, len(list))
	for _, element := range list {
		t, err := text(element)
		if err != nil {
			return nil, err
		}
		if _, twice := set[t]; twice {
			return nil, fmt.Errorf("%w: a set has the element %.60q twice", ErrInvalid, t)
		}
		set[t] = struct{}{}
	}
	return set, nil
}

// Clone returns a deep copy. The copy of nil is nil.
func (a Attributes) Clone() Attributes {
	if a == nil {
		return nil
	}
	c := make(Attributes, len(a))
	for name, value := range a {
		c[name] = cloneValue(value)
	}
	return c
}

// cloneValue never returns nil for what is empty: nil is a value of its own.
func cloneValue(v any) any {
	switch v := v.(type) {
	case []byte:
		return append([]byte{}, v...)
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = cloneValue(v[i])
		}
		return c
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, value := range v {
			c[name] = cloneValue(value)
		}
		return c
	case StringSet:
		return slices.Clone(v)
	case NumberSet:
		return slices.Clone(v)
	case BinarySet:
		c := make(BinarySet, len(v))
		for i := range v {
			c[i] = append([]byte{}, v[i]...)
		}
		return c
	}
	return v
}

// Select returns the attributes with the given names. If names is nil, Select returns all
// attributes. The result is a new map with the same values. It is never nil.
func (a Attributes) Select(names []string) Attributes {
	selected := make(Attributes)
	for name, value := range a {
		if names == nil || slices.Contains(names, name) {
			selected[name] = value
		}
	}
	return selected
}

// Size returns the size of the attributes in bytes, by the rules of DynamoDB. The size of a name or
// text is the number of its UTF-8 bytes. The size of a number is one byte for each two digits, plus
// one byte. A list or map adds three bytes, plus one byte for each element. See [Schema].ItemSize.
func (a Attributes) Size() int {
	n := 0
	for name, value := range a {
		n += len(name) + sizeOf(value)
	}
	return n
}

func sizeOf(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		return len(v)
	case Number:
		return numberSize(v)
	case []byte:
		return len(v)
	case []any:
		n = 3
		for _, element := range v {
			n += 1 + sizeOf(element)
		}
	case map[string]any:
		n = 3
		for name, element := range v {
			n += 1 + len(name) + sizeOf(element)
		}
	case StringSet:
		for _, element := range v {
			n += len(element)
		}
	case NumberSet:
		for _, element := range v {
			n += numberSize(element)
		}
	case BinarySet:
		for _, element := range v {
			n += len(element)
		}
	default: // bool, nil
		return 1
	}
	return n
}

// numberSize counts the digits between the first and the last that are not zero. A negative
// number has one byte more.
func numberSize(n Number) int {
	text, negative := strings.CutPrefix(string(n), "-")
	mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := len(strings.Trim(whole+fraction, "0"))
	size := (digits+1)/2 + 1
	if negative {
		size++
	}
	return min(size, 21)
}

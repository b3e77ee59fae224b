package largeitem

import (
	"bytes"
	"slices"
)

// Attributes are the attributes of an item by name, without those of the key. A value is
// one of
//
//	string, [Number], []byte, bool, nil,
//	[]any, map[string]any,
//	[StringSet], [NumberSet], [BinarySet]
//
// which are the ten types of DynamoDB's attributes. Lists and maps contain such values.
type Attributes map[string]any

// The sets. The order of their elements does not matter, and none is there twice.
type (
	StringSet []string
	NumberSet []Number
	BinarySet [][]byte
)

// Equal reports whether a and b are the same value: numbers by what they are worth, sets
// without regard to order.
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
		return ok && equalMaps(a, b)
	case StringSet:
		b, ok := b.(StringSet)
		return ok && sameSet(a, b, func(x, y string) bool { return x == y })
	case NumberSet:
		b, ok := b.(NumberSet)
		return ok && sameSet(a, b, sameNumber)
	case BinarySet:
		b, ok := b.(BinarySet)
		return ok && sameSet(a, b, func(x, y []byte) bool { return bytes.Equal(x, y) })
	case string, bool, nil:
		return a == b
	}
	return false
}

func equalMaps(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		other, ok := b[name]
		if !ok || !Equal(value, other) {
			return false
		}
	}
	return true
}

func sameNumber(a, b Number) bool {
	x, err := a.Canonical()
	if err != nil {
		return false
	}
	y, err := b.Canonical()
	return err == nil && x == y
}

func sameSet[T any](a, b []T, same func(x, y T) bool) bool {
	within := func(a, b []T) bool {
		return !slices.ContainsFunc(a, func(x T) bool {
			return !slices.ContainsFunc(b, func(y T) bool { return same(x, y) })
		})
	}
	return len(a) == len(b) && within(a, b) && within(b, a)
}

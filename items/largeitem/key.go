package largeitem

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxPartition and MaxSort are the largest sizes of a partition key and of a sort key, in
	// bytes.
	MaxPartition = 2048
	MaxSort      = 1024
)

// KeyValue is one value of a key: a text or a number. It is comparable.
type KeyValue struct {
	Text   string // the text; for a number, the result of [Number.Canonical]
	Number bool
}

// Key names an item of a table. It is comparable. The zero value names no item.
type Key struct {
	Partition KeyValue
	Sort      KeyValue // the zero value if the table has no sort key
}

// NewKey returns a key from a partition key and, if the table has one, a sort key. Each value is a
// string, a [Number], or an integer of any type. If a value is not valid, the error matches
// [ErrKey].
func NewKey(partition any, sort ...any) (Key, error) {
	var k Key
	var err error
	k.Partition, err = keyValue("partition key", partition, MaxPartition)
	switch {
	case err == nil && len(sort) > 1:
		err = fmt.Errorf("%w: the key has %d sort keys; at most one is allowed", ErrKey, len(sort))
	case err == nil && len(sort) == 1:
		k.Sort, err = keyValue("sort key", sort[0], MaxSort)
	}
	if err != nil {
		return Key{}, err
	}
	return k, nil
}

func keyValue(what string, v any, limit int) (KeyValue, error) {
	switch v := v.(type) {
	case string:
		return textValue(what, v, limit)
	case KeyValue:
		if v.Number {
			return keyValue(what, Number(v.Text), limit)
		}
		return textValue(what, v.Text, limit)
	case Number:
		n, err := v.Canonical()
		if err != nil {
			return KeyValue{}, fmt.Errorf("%w: the %s: %w", ErrKey, what, err)
		}
		return KeyValue{Text: string(n), Number: true}, nil
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return KeyValue{Text: fmt.Sprint(v), Number: true}, nil
	}
	return KeyValue{}, fmt.Errorf("%w: the %s is a %T; use a string, a Number or an integer", ErrKey, what, v)
}

func textValue(what, text string, limit int) (KeyValue, error) {
	switch {
	case text == "":
		return KeyValue{}, fmt.Errorf("%w: the %s is empty", ErrKey, what)
	case len(text) > limit:
		return KeyValue{}, fmt.Errorf("%w: the %s has %d bytes; at most %d are allowed", ErrKey, what, len(text), limit)
	case !utf8.ValidString(text):
		return KeyValue{}, fmt.Errorf("%w: the %s %q is not valid UTF-8", ErrKey, what, text)
	}
	return KeyValue{Text: text}, nil
}

// HasSort reports whether the key has a sort key.
func (k Key) HasSort() bool { return k.Sort != KeyValue{} }

// If the key cannot name an item, Check returns an error that gives the reason and matches
// [ErrKey].
func (k Key) Check() error {
	_, err := k.canonical()
	return err
}

// canonical returns the key with its numbers in their canonical form.
func (k Key) canonical() (Key, error) {
	if k.HasSort() {
		return NewKey(k.Partition, k.Sort)
	}
	return NewKey(k.Partition)
}

// String returns the key for people. Texts have quotes, numbers do not.
func (k Key) String() string {
	if !k.HasSort() {
		return k.Partition.String()
	}
	return k.Partition.String() + "/" + k.Sort.String()
}

// String returns the value for people. A text has quotes, a number does not.
func (v KeyValue) String() string {
	if v.Number {
		return v.Text
	}
	return strconv.Quote(v.Text)
}

// Any returns the value as a string or, if it is a number, as a [Number].
func (v KeyValue) Any() any {
	if v.Number {
		return Number(v.Text)
	}
	return v.Text
}

// MarshalText writes the key as a JSON array of one or two values, for example ["a"] or ["a",7].
// Equal keys have equal texts.
func (k Key) MarshalText() ([]byte, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	text := appendKeyValue([]byte{'['}, k.Partition)
	if k.HasSort() {
		text = appendKeyValue(append(text, ','), k.Sort)
	}
	return append(text, ']'), nil
}

func appendKeyValue(text []byte, v KeyValue) []byte {
	if v.Number {
		return append(text, v.Text...)
	}
	return appendString(text, v.Text)
}

// UnmarshalText reads the result of MarshalText. If the text is not valid, the error matches
// [ErrKey].
func (k *Key) UnmarshalText(text []byte) error {
	bad := func(why any) error { return fmt.Errorf("%w: %.80q: %v", ErrKey, text, why) }
	if err := checkJSONText(text); err != nil {
		return bad(err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var list []any
	if err := dec.Decode(&list); err != nil {
		return bad(err)
	}
	if _, err := dec.Token(); err != io.EOF || len(list) == 0 {
		return bad("a key is a JSON array of one or two values")
	}
	for i, v := range list {
		if n, ok := v.(json.Number); ok {
			list[i] = Number(n)
		}
	}
	key, err := NewKey(list[0], list[1:]...)
	if err == nil {
		*k = key
	}
	return err
}

// maxDigits and maxExponent are the bounds of DynamoDB's numbers.
const (
	maxDigits   = 38
	maxExponent = 125
	minExponent = -130
)

// Number is a decimal number with up to 38 digits, as a text: "7", "-1.5", "6.02e23".
type Number string

// Canonical returns the canonical text of the number. Equal numbers have the same canonical text.
// An integer of at most 38 digits has no exponent and no leading zeros ("100"). A fraction has no
// trailing zeros ("0.5"). Larger and smaller numbers have an exponent ("1E+100", "1E-50"). If n is
// not valid, the error matches [ErrInvalid].
func (n Number) Canonical() (Number, error) {
	text := string(n)
	bad := func(why string) (Number, error) {
		return "", fmt.Errorf("%w: the number %.60q %s", ErrInvalid, text, why)
	}
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest, _ = strings.CutPrefix(rest, "+")
	}
	mantissa, exp := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		var err error
		if exp, err = strconv.Atoi(rest[i+1:]); errors.Is(err, strconv.ErrSyntax) {
			return bad("is not a decimal number")
		} else if exp > 1000 || exp < -1000 {
			return bad("has an exponent outside -1000 to 1000")
		}
		mantissa = rest[:i]
	}
	whole, fraction, point := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" || point && fraction == "" {
		return bad("is not a decimal number")
	}
	if len(digits) > 1000 {
		return bad("has too many characters")
	}
	exp -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	exp += len(digits) - len(trimmed)
	digits = strings.TrimLeft(trimmed, "0")
	if digits == "" {
		return "0", nil
	}
	if len(digits) > maxDigits {
		return bad(fmt.Sprintf("has more than %d digits", maxDigits))
	}
	if magnitude := exp + len(digits) - 1; magnitude > maxExponent || magnitude < minExponent {
		return bad(fmt.Sprintf("is not between 1E%d and 1E+%d", minExponent, maxExponent))
	}
	out := ""
	if negative {
		out = "-"
	}
	switch {
	case exp >= 0 && exp+len(digits) <= maxDigits:
		return Number(out + digits + strings.Repeat("0", exp)), nil
	case exp < 0 && -exp < len(digits):
		return Number(out + digits[:len(digits)+exp] + "." + digits[len(digits)+exp:]), nil
	case exp < 0 && -exp <= maxDigits:
		return Number(out + "0." + strings.Repeat("0", -exp-len(digits)) + digits), nil
	}
	return Number(fmt.Sprintf("%s%sE%+d", out, digits, exp)), nil
}

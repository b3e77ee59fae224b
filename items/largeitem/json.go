package largeitem

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/drivers/jsontext"
)

// maxJSON is the longest JSON text of attributes that is read, in bytes. The largest item
// of DynamoDB, in the longest way of writing it, is shorter.
const maxJSON = 16 << 20

// MarshalTyped returns attributes in the JSON format of DynamoDB's tools. Each value has its type:
//
//	{"a":{"S":"text"},"b":{"N":"7"},"c":{"B":"AQI="},"d":{"L":[{"BOOL":true},{"NULL":true}]},"e":{"SS":["x","y"]}}
//
// The types are S, N, B (in base64), BOOL, NULL, L, M, SS, NS and BS. Names and elements of sets
// are sorted, and numbers are canonical. So equal attributes have equal texts in every version of
// this package. If an attribute is not valid ([Attributes.Check]), the error matches [ErrInvalid].
func MarshalTyped(a Attributes) ([]byte, error) { return marshal(a, appendTyped) }

// MarshalPlain returns attributes as JSON without types. A number becomes a JSON number, bytes
// become a text in base64, and a set becomes an array. [UnmarshalPlain] does not turn them back: it
// returns a text and a list. The order of names and the errors are the same as in [MarshalTyped].
func MarshalPlain(a Attributes) ([]byte, error) { return marshal(a, appendPlain) }

func marshal(a Attributes, write func([]byte, any) []byte) ([]byte, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	return appendObject(nil, a, write), nil
}

func appendObject(text []byte, members map[string]any, write func([]byte, any) []byte) []byte {
	text = append(text, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = write(append(appendString(text, name), ':'), members[name])
	}
	return append(text, '}')
}

func appendArray[T any](text []byte, list []T, write func([]byte, T) []byte) []byte {
	text = append(text, '[')
	for i, element := range list {
		if i > 0 {
			text = append(text, ',')
		}
		text = write(text, element)
	}
	return append(text, ']')
}

func appendTyped(text []byte, v any) []byte {
	open := func(kind string) []byte { return append(appendString(append(text, '{'), kind), ':') }
	switch v := v.(type) {
	case string:
		text = appendString(open("S"), v)
	case Number:
		text = appendString(open("N"), numberKey(v))
	case []byte:
		text = appendPlain(open("B"), v)
	case bool:
		text = appendPlain(open("BOOL"), v)
	case nil:
		text = appendPlain(open("NULL"), true)
	case []any:
		text = appendArray(open("L"), v, appendTyped)
	case map[string]any:
		text = appendObject(open("M"), v, appendTyped)
	case StringSet:
		text = appendPlain(open("SS"), v)
	case NumberSet:
		text = appendArray(open("NS"), sorted(v, numberKey), appendString)
	case BinarySet:
		text = appendPlain(open("BS"), v)
	}
	return append(text, '}')
}

func appendPlain(text []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return appendString(text, v)
	case Number:
		return append(text, numberKey(v)...)
	case []byte:
		return appendString(text, base64.StdEncoding.EncodeToString(v))
	case bool:
		return strconv.AppendBool(text, v)
	case []any:
		return appendArray(text, v, appendPlain)
	case map[string]any:
		return appendObject(text, v, appendPlain)
	case StringSet:
		return appendArray(text, sorted(v, func(s string) string { return s }), appendString)
	case NumberSet:
		return appendArray(text, sorted(v, numberKey), func(text []byte, n string) []byte { return append(text, n...) })
	case BinarySet:
		return appendArray(text, sorted(v, func(b []byte) string { return string(b) }), func(text []byte, b string) []byte { return appendPlain(text, []byte(b)) })
	}
	return append(text, "null"...)
}

// numberKey returns the canonical text of a number that was checked.
func numberKey(n Number) string {
	c, _ := n.Canonical()
	return string(c)
}

func sorted[T any](set []T, key func(T) string) []string {
	keys := make([]string, len(set))
	for i := range set {
		keys[i] = key(set[i])
	}
	slices.Sort(keys)
	return keys
}

// appendString appends a JSON string in which as little as possible is escaped.
func appendString(text []byte, s string) []byte {
	text = append(text, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		case c < ' ':
			text = fmt.Appendf(text, `\u%04x`, c)
		default:
			text = append(text, c)
		}
	}
	return append(text, '"')
}

// UnmarshalTyped reads the JSON that [MarshalTyped] or a tool of DynamoDB has written. The limits
// are 16 MiB of text, and lists and maps that are nested at most [MaxDepth] deep. For all other
// input, for example a map with the same name twice, the error matches [ErrInvalid].
func UnmarshalTyped(text []byte) (Attributes, error) { return unmarshal(text, (*decoder).typed) }

// UnmarshalPlain reads attributes from JSON without types: texts, numbers, booleans, null, lists
// and maps. It has the same limits and the same error as [UnmarshalTyped].
func UnmarshalPlain(text []byte) (Attributes, error) { return unmarshal(text, (*decoder).plain) }

func unmarshal(text []byte, value func(*decoder, int) (any, error)) (Attributes, error) {
	if len(text) > maxJSON {
		return nil, fmt.Errorf("%w: the JSON has %d bytes; at most %d are allowed", ErrInvalid, len(text), maxJSON)
	}
	if err := checkJSONText(text); err != nil {
		return nil, err
	}
	d := &decoder{json.NewDecoder(bytes.NewReader(text))}
	d.UseNumber()
	members, err := d.members(0, value)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: the JSON text continues after the end of the attributes", ErrInvalid)
	}
	if err := Attributes(members).Check(); err != nil {
		return nil, err
	}
	return members, nil
}

// decoder reads attributes. Its methods take the depth of the value.
type decoder struct{ *json.Decoder }

// next returns a token; brackets are a json.Delim, the end of the text is an error.
func (d *decoder) next() (json.Token, error) {
	token, err := d.Token()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the JSON: %w", ErrInvalid, err)
	}
	return token, nil
}

func (d *decoder) expect(want json.Delim, what string) error {
	token, err := d.next()
	if err != nil {
		return err
	}
	if token != want {
		return unexpected(token, what)
	}
	return nil
}

func unexpected(token json.Token, want string) error {
	return fmt.Errorf("%w: the JSON has %.40q, but %s is expected here", ErrInvalid, fmt.Sprint(token), want)
}

// members reads an object.
func (d *decoder) members(depth int, value func(*decoder, int) (any, error)) (map[string]any, error) {
	if err := d.expect('{', "an object"); err != nil {
		return nil, err
	}
	return d.membersAfter(depth, value)
}

// membersAfter reads the rest of an object.
func (d *decoder) membersAfter(depth int, value func(*decoder, int) (any, error)) (map[string]any, error) {
	members := make(map[string]any)
	for d.More() {
		token, err := d.next()
		if err != nil {
			return nil, err
		}
		name := token.(string)
		if _, twice := members[name]; twice {
			return nil, fmt.Errorf("%w: the JSON has the name %.60q twice", ErrInvalid, name)
		}
		if members[name], err = d.below(depth, value); err != nil {
			return nil, err
		}
	}
	_, err := d.next()
	return members, err
}

// elements reads the rest of an array of values.
func (d *decoder) elements(depth int, value func(*decoder, int) (any, error)) ([]any, error) {
	return restOf(d, func() (any, error) { return d.below(depth, value) })
}

// restOf reads the rest of an array.
func restOf[T any](d *decoder, element func() (T, error)) ([]T, error) {
	all := []T{}
	for d.More() {
		e, err := element()
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	_, err := d.next()
	return all, err
}

// below reads a value of a list or map.
func (d *decoder) below(depth int, value func(*decoder, int) (any, error)) (any, error) {
	if err := checkDepth(depth + 1); err != nil {
		return nil, err
	}
	return value(d, depth+1)
}

// plain reads a value without a type.
func (d *decoder) plain(depth int) (any, error) {
	token, err := d.next()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return Number(token).Canonical()
	case json.Delim:
		if token == '[' {
			return d.elements(depth, (*decoder).plain)
		}
		return d.membersAfter(depth, (*decoder).plain)
	}
	return token, nil // a string, a bool or nil
}

// typed reads an object with one member, whose name is the type.
func (d *decoder) typed(depth int) (any, error) {
	if err := d.expect('{', `a value with its type, such as {"S":"text"},`); err != nil {
		return nil, err
	}
	token, err := d.next()
	if err != nil {
		return nil, err
	}
	kind, ok := token.(string)
	if !ok {
		return nil, unexpected(token, "a type")
	}
	v, err := d.content(kind, depth)
	if err != nil {
		return nil, err
	}
	return v, d.expect('}', "the end of a value")
}

func (d *decoder) content(kind string, depth int) (any, error) {
	switch kind {
	case "M":
		return d.members(depth, (*decoder).typed)
	case "L":
		if err := d.expect('[', "an array"); err != nil {
			return nil, err
		}
		return d.elements(depth, (*decoder).typed)
	case "SS":
		elements, err := set(d, textOf)
		return StringSet(elements), err
	case "NS":
		elements, err := set(d, numberOf)
		return NumberSet(elements), err
	case "BS":
		elements, err := set(d, bytesOf)
		return BinarySet(elements), err
	}
	token, err := d.next()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "S":
		return textOf(token)
	case "N":
		return numberOf(token)
	case "B":
		return bytesOf(token)
	case "BOOL":
		if b, ok := token.(bool); ok {
			return b, nil
		}
	case "NULL":
		if token == true {
			return nil, nil
		}
	default:
		return nil, fmt.Errorf("%w: the JSON has the unknown type %.40q; the types are S, N, B, BOOL, NULL, L, M, SS, NS and BS", ErrInvalid, kind)
	}
	return nil, unexpected(token, "true")
}

func set[T any](d *decoder, element func(json.Token) (T, error)) ([]T, error) {
	if err := d.expect('[', "an array"); err != nil {
		return nil, err
	}
	return restOf(d, func() (e T, err error) {
		token, err := d.next()
		if err == nil {
			e, err = element(token)
		}
		return e, err
	})
}

func textOf(token json.Token) (string, error) {
	if text, ok := token.(string); ok {
		return text, nil
	}
	return "", unexpected(token, "a string")
}

func numberOf(token json.Token) (Number, error) {
	text, err := textOf(token)
	if err != nil {
		return "", err
	}
	return Number(text).Canonical()
}

func bytesOf(token json.Token) ([]byte, error) {
	text, err := textOf(token)
	if err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("%w: the JSON has %.40q, but bytes in base64 are expected here", ErrInvalid, text)
	}
	return b, nil
}

// checkJSONText reports what package encoding/json would silently replace: bytes that are
// no UTF-8, and escapes that are half of a character.
func checkJSONText(text []byte) error {
	if !utf8.Valid(text) {
		return fmt.Errorf("%w: the JSON is not valid UTF-8", ErrInvalid)
	}
	if i := jsontext.LoneSurrogate(text); i >= 0 {
		return fmt.Errorf(`%w: %s is one half of a surrogate pair`, ErrInvalid, bytes.ToLower(text[i:i+6]))
	}
	return nil
}

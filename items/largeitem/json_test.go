package largeitem_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/items/largeitem"
)

// Texts that earlier versions wrote: they must be read, and be written again, for ever.
var goldenJSON = []struct {
	item         largeitem.Attributes
	typed, plain string
}{
	{largeitem.Attributes{}, `{}`, `{}`},
	{largeitem.Attributes{"s": "a \"b\" \\ \n <é界\u2028\x7f>", "": ""}, "", ""}, // an empty name: refused
	{largeitem.Attributes{"s": "a \"b\" \\ \n <é界\u2028\x7f>", "e": ""},
		`{"e":{"S":""},"s":{"S":"a \"b\" \\ \u000a <é界` + "\u2028\x7f" + `>"}}`, `{"e":"","s":"a \"b\" \\ \u000a <é界` + "\u2028\x7f" + `>"}`},
	{largeitem.Attributes{"n": largeitem.Number("-1.50"), "h": largeitem.Number("1e100"), "i": largeitem.Number("+7")},
		`{"h":{"N":"1E+100"},"i":{"N":"7"},"n":{"N":"-1.5"}}`, `{"h":1E+100,"i":7,"n":-1.5}`},
	{largeitem.Attributes{"b": []byte{0, 0xff, 0xfe}, "e": []byte{}, "t": true, "f": false, "z": nil},
		`{"b":{"B":"AP/+"},"e":{"B":""},"f":{"BOOL":false},"t":{"BOOL":true},"z":{"NULL":true}}`, `{"b":"AP/+","e":"","f":false,"t":true,"z":null}`},
	{largeitem.Attributes{"l": []any{"x", []any{}, map[string]any{}}, "m": map[string]any{"b": nil, "a": map[string]any{"c": largeitem.Number("1")}}},
		`{"l":{"L":[{"S":"x"},{"L":[]},{"M":{}}]},"m":{"M":{"a":{"M":{"c":{"N":"1"}}},"b":{"NULL":true}}}}`, `{"l":["x",[],{}],"m":{"a":{"c":1},"b":null}}`},
	{largeitem.Attributes{"s": largeitem.StringSet{"b", "a"}, "n": largeitem.NumberSet{"10", "9.0"}, "b": largeitem.BinarySet{{2}, {1}}},
		`{"b":{"BS":["AQ==","Ag=="]},"n":{"NS":["10","9"]},"s":{"SS":["a","b"]}}`, `{"b":["AQ==","Ag=="],"n":[10,9],"s":["a","b"]}`},
}

func TestGoldenJSON(t *testing.T) {
	for _, c := range goldenJSON {
		typed, err := largeitem.MarshalTyped(c.item)
		plain, plainErr := largeitem.MarshalPlain(c.item)
		if c.typed == "" {
			if !errors.Is(err, largeitem.ErrInvalid) || !errors.Is(plainErr, largeitem.ErrInvalid) {
				t.Errorf("%v: %v, %v", c.item, err, plainErr)
			}
			continue
		}
		if err != nil || string(typed) != c.typed {
			t.Errorf("typed: got %s, %v\nwant %s", typed, err, c.typed)
		}
		if plainErr != nil || string(plain) != c.plain {
			t.Errorf("plain: got %s, %v\nwant %s", plain, plainErr, c.plain)
		}
		back, err := largeitem.UnmarshalTyped([]byte(c.typed))
		if err != nil || !largeitem.Equal(map[string]any(back), map[string]any(c.item)) {
			t.Errorf("%s: got %#v, %v", c.typed, back, err)
		}
		again, err := largeitem.UnmarshalPlain([]byte(c.plain))
		if err != nil {
			t.Errorf("%s: %v", c.plain, err)
		}
		if text, err := largeitem.MarshalPlain(again); err != nil || string(text) != c.plain {
			t.Errorf("%s: after reading it is %s, %v", c.plain, text, err)
		}
	}
}

// What DynamoDB's tools write in another way than this package is read.
func TestForeignTypedJSON(t *testing.T) {
	got, err := largeitem.UnmarshalTyped([]byte("\n{ \"a\" : { \"N\" : \"007.50e1\" }, \"b\": {\"S\": \"\\u00e9\\/\\ud83d\\ude00\"} }\n"))
	want := map[string]any{"a": largeitem.Number("75"), "b": "é/\U0001F600"}
	if err != nil || !largeitem.Equal(map[string]any(got), want) {
		t.Errorf("got %#v, %v", got, err)
	}
}

func TestBadJSON(t *testing.T) {
	nested := func(n int, open, inner, closing string) string {
		return `{"a":` + strings.Repeat(open, n) + inner + strings.Repeat(closing, n) + `}`
	}
	both := []string{
		``, ` `, `null`, `[]`, `"a"`, `{`, `{"a"`, `{"a":}`, `{"a":1,}`, `{} {}`, `{}x`, `{"":1}`, "{\"\xff\":1}", `{"\ud800":1}`,
		nested(8_000_000, `[`, ``, `]`), nested(100_000, `{"L":[`, ``, `]}`), nested(100_000, `{"a":`, `1`, `}`), nested(100_000, `{"M":{"a":`, `1`, `}}`),
		`{"a":"` + strings.Repeat("x", largeitem.MaxJSON) + `"}`,
	}
	for _, text := range append(both,
		`{"a":"\udc00"}`, `{"a":{"b":1,"b":2}}`, `{"a":1,"a":1}`, `{"a":1e999}`, `{"a":123456789012345678901234567890123456789}`, `{"a":NaN}`,
		nested(largeitem.MaxDepth, `[`, `1`, `]`)) {
		if got, err := largeitem.UnmarshalPlain([]byte(text)); !errors.Is(err, largeitem.ErrInvalid) || got != nil {
			t.Errorf("plain %.60s: got %v, %v", text, got, err)
		}
	}
	for _, text := range append(both,
		`{"a":1}`, `{"a":{}}`, `{"a":{"S":1}}`, `{"a":{"S":"x","N":"1"}}`, `{"a":{"S":"x","S":"y"}}`, `{"a":{"X":"x"}}`, `{"a":{"s":"x"}}`, `{"a":["S"]}`,
		`{"a":{"N":7}}`, `{"a":{"N":"seven"}}`, `{"a":{"N":""}}`, `{"a":{"NULL":false}}`, `{"a":{"NULL":null}}`, `{"a":{"BOOL":"true"}}`,
		`{"a":{"B":"AQ"}}`, `{"a":{"B":"AR=="}}`, `{"a":{"B":"A\nQ=="}}`, `{"a":{"B":1}}`, `{"a":{"L":{}}}`, `{"a":{"L":["x"]}}`, `{"a":{"M":[]}}`, `{"a":{"M":{"b":"x"}}}`,
		`{"a":{"SS":[]}}`, `{"a":{"SS":["x","x"]}}`, `{"a":{"SS":[1]}}`, `{"a":{"NS":["1","1.0"]}}`, `{"a":{"NS":[1]}}`, `{"a":{"BS":["AQ==","AQ=="]}}`, `{"a":{"SS":"x"}}`,
		`{"a":{"M":{"b":{"S":"x"},"b":{"S":"x"}}}}`, nested(largeitem.MaxDepth, `{"L":[`, `{"S":""}`, `]}`)) {
		if got, err := largeitem.UnmarshalTyped([]byte(text)); !errors.Is(err, largeitem.ErrInvalid) || got != nil {
			t.Errorf("typed %.60s: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{nested(largeitem.MaxDepth-1, `{"L":[`, `{"S":""}`, `]}`), nested(largeitem.MaxDepth, `{"L":[`, ``, `]}`)} {
		got, err := largeitem.UnmarshalTyped([]byte(text))
		if err != nil {
			t.Errorf("depth %d: %v", largeitem.MaxDepth, err)
		}
		if back, err := largeitem.MarshalTyped(got); err != nil || string(back) != text {
			t.Errorf("depth %d: %s, %v", largeitem.MaxDepth, back, err)
		}
	}
}

// Whatever is read is valid, and is written and read again as it is.
func FuzzTypedJSON(f *testing.F) {
	for _, c := range goldenJSON {
		f.Add([]byte(c.typed))
		f.Add([]byte(c.plain))
	}
	f.Add([]byte(`{"a":{"S":"\ud83d\ude00"},"b":{"N":"1e-5"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, form := range []struct {
			read  func([]byte) (largeitem.Attributes, error)
			write func(largeitem.Attributes) ([]byte, error)
		}{{largeitem.UnmarshalTyped, largeitem.MarshalTyped}, {largeitem.UnmarshalPlain, largeitem.MarshalPlain}} {
			item, err := form.read(text)
			if err != nil {
				continue
			}
			if err := item.Check(); err != nil {
				t.Fatalf("what was read is not valid: %v", err)
			}
			written, err := form.write(item)
			if err != nil {
				t.Fatal(err)
			}
			again, err := form.read(written)
			if err != nil || !largeitem.Equal(map[string]any(again), map[string]any(item)) {
				t.Fatalf("%q is written as %q, and read as %#v, %v", text, written, again, err)
			}
			if twice, err := form.write(again); err != nil || string(twice) != string(written) {
				t.Fatalf("%q is written as %q, then as %q, %v", text, written, twice, err)
			}
		}
	})
}

package jsontext_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/drivers/jsontext"
)

func TestAppendString(t *testing.T) {
	const text, want = "a\x00\x1f\b\t\n\f\r\"\\/é\u2028\x7f<", "x\"a\\u0000\\u001f\\b\\t\\n\\f\\r\\\"\\\\/é\u2028\x7f<\""
	if got := string(jsontext.AppendString([]byte("x"), text)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoneSurrogate(t *testing.T) {
	for text, want := range map[string]string{
		``:                        "",
		`"\`:                      "",
		`"a\u00e9\n"`:             "",
		`"\ud83d\ude00"`:          "",
		`"\\ud83d"`:               "", // an escaped backslash
		`"\\\ud83d"`:              `\ud83d`,
		`"\uD83Dx"`:               `\uD83D`,
		`"\ude00"`:                `\ude00`,
		`"\ud83d\ud83d\ude00"`:    `\ud83d`,
		`"\ud83d\n"`:              `\ud83d`,
		`"\ud83d\ude0`:            `\ud83d`,
		`"\ud83d\ude00\ud83d"`:    `\ud83d`,
		`"\ud8"`:                  "",
		`"\ud8zz"`:                "", // not valid JSON
		`["\ud83d\ude00","\udc00`: `\udc00`,
	} {
		got := ""
		if i := jsontext.LoneSurrogate([]byte(text)); i >= 0 {
			got = text[i : i+6]
		}
		if got != want {
			t.Errorf("LoneSurrogate(%s): got %q, want %q", text, got, want)
		}
	}
}

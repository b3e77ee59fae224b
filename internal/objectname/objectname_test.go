package objectname_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/objectname"
)

func letters(r rune) bool { return r >= 'a' && r <= 'z' || r == 'ü' }

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":       "",
		"job":    "job",
		"a/b!":   "a!2Fb!21",
		"über é": "über!20!C3!A9",
		"\x01":   "!01",
	} {
		got := objectname.Escape(text, letters)
		back, ok := objectname.Unescape(got)
		if got != want || !ok || back != text {
			t.Errorf("%q becomes %q, want %q; and back %q, %v", text, got, want, back, ok)
		}
	}
	for _, name := range []string{"!", "!2", "a!2", "!GG", "!+1"} {
		if text, ok := objectname.Unescape(name); ok {
			t.Errorf("%q is %q, want a refusal", name, text)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a/b!")
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		name := objectname.Escape(text, letters)
		back, ok := objectname.Unescape(name)
		if !ok || back != text || strings.ContainsAny(name, "/ %") {
			t.Errorf("%q becomes %q, and back %q, %v", text, name, back, ok)
		}
	})
}

package printable_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// Every character that could control a terminal, end a line of a log, or change the
// order in which a line is read is escaped; all others stay.
func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"host 7, pid 9 – grün 世界": "host 7, pid 9 – grün 世界",
		"\x1b[2J\x1b]0;owned\a":   `\x1b[2J\x1b]0;owned\x07`,
		"a\nholdfast: b\r\tc":     `a\nholdfast: b\r\tc`,
		"del \x7f":                `del \x7f`,
		"C1 \u009b31m \u0085":     `C1 \u009b31m \u0085`,
		"\u202egnp.exe\u2066":     `\u202egnp.exe\u2066`,
		"\u200e\u200f\u061c":      `\u200e\u200f\u061c`,
		"one\u2028two\u2029":      `one\u2028two\u2029`,
		"raw \x9b31m":             "raw \ufffd31m",
	} {
		if got := printable.Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		got := printable.Text(string(r))
		switch bad := unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x2028 || r == 0x2029; {
		case bad && strings.ContainsRune(got, r):
			t.Errorf("%U stays", r)
		case !bad && unicode.IsPrint(r) && got != string(r):
			t.Errorf("%U becomes %q", r, got)
		}
	}
}

func TestLine(t *testing.T) {
	if got, want := printable.Line("one\n two\x1b \n\nthree\n"), `one; two\x1b; three`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What is written as JSON contains none of them, and is read as what it was.
func TestJSON(t *testing.T) {
	var all strings.Builder
	for r := rune(0); r <= 0x2100; r++ {
		all.WriteRune(r)
	}
	all.WriteString(`<b>&"\` + "\U0001F512")
	for _, indent := range []string{"", "\t"} {
		var b bytes.Buffer
		enc := printable.JSON(&b)
		enc.SetIndent("", indent)
		for range 2 {
			if err := enc.Encode(map[string]string{all.String(): all.String()}); err != nil {
				t.Fatal(err)
			}
		}
		text := b.String()
		if plain := strings.NewReplacer("\n", "", "\t", "").Replace(text); printable.Text(plain) != plain {
			t.Errorf("indent %q: controls are left", indent)
		}
		if !strings.Contains(text, "<b>&") {
			t.Errorf("more was escaped than that")
		}
		dec := json.NewDecoder(&b)
		for range 2 {
			var got map[string]string
			if err := dec.Decode(&got); err != nil || got[all.String()] != all.String() {
				t.Fatalf("indent %q: it is not read as what it was (%v)", indent, err)
			}
		}
	}
}

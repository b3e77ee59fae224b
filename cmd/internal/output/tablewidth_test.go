package output

import (
	"bytes"
	"strings"
	"testing"
)

// Tables are cut to the width of a terminal by letters, and whole in a pipe.
func TestFitter(t *testing.T) {
	for _, c := range []struct {
		width    int
		in, want string
	}{
		{0, "a long line\nand more", "a long line\nand more"},
		{6, "a long line\nshort\n", "a lon…\nshort\n"},
		{4, "äöüß\näöüßé\n", "äöüß\näöü…\n"},
		{5, "ab      \n", "ab\n"},
	} {
		var out bytes.Buffer
		f := &Table{to: &out, Width: c.width}
		for _, b := range []byte(c.in) {
			if _, err := f.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil || out.String() != c.want {
			t.Errorf("%q at %d: %q, want %q", c.in, c.width, out.String(), c.want)
		}
	}
}

// Wide characters are cut by the columns that they take.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		line  string
		width int
		want  string
	}{
		{"waiting", 7, "waiting"}, {"waiting", 6, "waiti…"}, {"waiting", 1, "…"}, {"waiting", 0, "waiting"},
		{"夜間作業", 8, "夜間作業"}, {"夜間作業", 7, "夜間作…"}, {"夜間作業", 6, "夜間…"}, {"", 3, ""},
	} {
		if got := string(truncateLine([]byte(c.line), c.width)); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.line, c.width, got, c.want)
		}
	}
}

// What a terminal shows of a long name leaves the other columns in it.
func TestLongNamesKeepTheColumns(t *testing.T) {
	f := &Table{Width: 80}
	if got := f.Name(strings.Repeat("n", 200)); len([]rune(got)) != 26 {
		t.Errorf("%d letters: %s", len([]rune(got)), got)
	}
}

package holdfast_test

import (
	"path"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/plainwords"
)

// TestWords checks that the sentences of all documents are short, and use no words that
// readers of other languages look up.
func TestWords(t *testing.T) {
	_, texts, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	documents := 0
	for name, text := range texts {
		if path.Ext(name) != ".md" {
			continue
		}
		documents++
		sentences := plainwords.Markdown(text)
		if n := len(sentences); n < 10 {
			t.Errorf("%s: only %d sentences were found", name, n)
		}
		for _, problem := range plainwords.Problems(sentences) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	if documents < 20 {
		t.Errorf("only %d documents were read", documents)
	}
}

// TestWordsAreNoticed is the control.
func TestWordsAreNoticed(t *testing.T) {
	words := func(n int) string { return strings.Repeat("word ", n) }
	for _, c := range []struct{ text, problem string }{
		{"# A title\n\nA " + words(29) + "\nof.", "31 words"},
		{words(27) + "of 1.5 s.", ""},
		{"- " + words(20) + "\n- " + words(20), ""},
		{"- " + words(20) + "\n  " + words(20), "40 words"},
		{"| " + words(31) + " | b |", "31 words"},
		{"| " + words(20) + " | " + words(20) + " |", ""},
		{"Use `" + words(40) + "` now.", ""},
		{words(20) + "(see it.) `Get` " + words(20), ""},
		{words(20) + "[a](b.html). " + words(20), "41 words"}, // a small letter begins no sentence
		{"```sh\nholdfast told " + words(40) + "\n```\nIt ends.", ""},
		{"The version goes\non.", "goes on"},
		{"Its `gone` is gone.", `"gone"`},
		{"**Nobody** holds it.", "Nobody"},
		{"It waits behind\na lock, and is foretold.", "behind a"},
		{"The lock stands there.", "stands"},
		{"T stands for a type. A condition is not met.", ""},
	} {
		problems := plainwords.Problems(plainwords.Markdown(c.text))
		if c.problem == "" && len(problems) > 0 || c.problem != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.problem)) {
			t.Errorf("%q: got %q, want %q", c.text, problems, c.problem)
		}
	}
}

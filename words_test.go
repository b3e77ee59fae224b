package holdfast_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/plainwords"
)

// plain lists the documents that keep the rules of TestWords. A document that was rewritten
// is added here, and none is taken out.
var plain = []string{
	"CHANGELOG.md",
	"CONTRIBUTING.md",
	"README.md",
	"SECURITY.md",
	"docs/adding-a-store.md",
	"docs/architecture.md",
	"docs/checkpoints.md",
	"docs/commits.md",
	"docs/concepts.md",
	"docs/decisions.md",
	"docs/json.md",
	"docs/large-items.md",
	"docs/migrating.md",
	"docs/operations.md",
	"docs/performance.md",
	"docs/quickstart.md",
	"docs/safety.md",
	"docs/security.md",
	"docs/stores.md",
}

// TestWords checks that the sentences of the plain documents are short, and use no words that
// readers of other languages look up.
func TestWords(t *testing.T) {
	_, texts, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range plain {
		if n := len(plainwords.Markdown(texts[name])); n < 10 {
			t.Errorf("%s: only %d sentences were found", name, n)
		}
		for _, problem := range plainwords.Problems(plainwords.Markdown(texts[name])) {
			t.Errorf("%s: %s", name, problem)
		}
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
	if i := slices.IndexFunc(plain, func(name string) bool { return !strings.HasSuffix(name, ".md") }); i >= 0 {
		t.Errorf("%s is no document", plain[i])
	}
}

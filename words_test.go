package holdfast_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
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

const (
	longest = 30 // words of a sentence
	code    = "CODE"
)

var (
	odd        = regexp.MustCompile(`(?i)\b(?:told|tells|gone|anew|likewise|goes on|becomes of|whoever|nobody|somebody|anybody|behind a)\b`)
	codeSpan   = regexp.MustCompile("``[^`]+``|`[^`]+`")
	markup     = regexp.MustCompile(`\]\([^)\s]*\)|[*\[]|<[^>]*>|\]`)
	newItem    = regexp.MustCompile(`^\s*(?:[-*+]|[0-9]+\.)\s+|^#+\s+|^>\s*`)
	separator  = regexp.MustCompile(`^[-:\s]*$`)
	between    = regexp.MustCompile(`([.!?]["')]*)\s+([^a-z\s])`)
	fence, bar = "```", regexp.MustCompile(`\s*\|\s*`)
)

// sentences returns the sentences of a document in Markdown. A heading, an item of a list and
// a cell of a table end a sentence as well. Blocks of code, which also show what programs
// print, are left out. A span of code counts as one word.
func sentences(text string) (all []string) {
	var paragraphs []string
	inside, open := false, false // of a block of code; of a paragraph
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, fence):
			inside, open = !inside, false
		case inside || line == "":
			open = false
		case strings.HasPrefix(line, "|"):
			line = codeSpan.ReplaceAllString(line, code) // which may contain a bar
			for _, cell := range bar.Split(line, -1) {
				if !separator.MatchString(cell) {
					paragraphs = append(paragraphs, cell)
				}
			}
			open = false
		case open && !newItem.MatchString(line):
			paragraphs[len(paragraphs)-1] += " " + line
		default:
			paragraphs = append(paragraphs, newItem.ReplaceAllString(line, ""))
			open = !strings.HasPrefix(line, "#")
		}
	}
	for _, p := range paragraphs {
		p = markup.ReplaceAllString(codeSpan.ReplaceAllString(p, code), "")
		p = between.ReplaceAllString(p, "$1\n$2")
		all = append(all, strings.Split(p, "\n")...)
	}
	return all
}

// unclear returns what a tired reader would stumble over.
func unclear(text string) (problems []string) {
	for _, s := range sentences(text) {
		if n := len(strings.Fields(s)); n > longest {
			problems = append(problems, fmt.Sprintf("a sentence of %d words, at most %d are allowed: %s", n, longest, s))
		}
		for _, word := range odd.FindAllString(s, -1) {
			problems = append(problems, fmt.Sprintf("%q: name the actor and use the usual word: %s", word, s))
		}
	}
	return problems
}

// TestWords checks that the sentences of the plain documents are short, and use no words that
// readers of other languages look up.
func TestWords(t *testing.T) {
	_, texts, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range plain {
		if n := len(sentences(texts[name])); n < 10 {
			t.Errorf("%s: only %d sentences were found", name, n)
		}
		for _, problem := range unclear(texts[name]) {
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
		{"It stands behind\na lock, and is foretold.", "behind a"},
	} {
		problems := unclear(c.text)
		if c.problem == "" && len(problems) > 0 || c.problem != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.problem)) {
			t.Errorf("%q: got %q, want %q", c.text, problems, c.problem)
		}
	}
	if i := slices.IndexFunc(plain, func(name string) bool { return !strings.HasSuffix(name, ".md") }); i >= 0 {
		t.Errorf("%s is no document", plain[i])
	}
}

// Package plainwords checks texts for people: documents in Markdown, and the help of the command. Tests
// use it.
package plainwords

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

const (
	longest = 30 // words of a sentence
	code    = "CODE"
)

var (
	odd        = &pattern{text: `(?i)\b(?:told|tells|gone|anew|likewise|go(?:es)?\s+on|went\s+on|becomes\s+of|became\s+of|whoever|nobody|somebody|anybody|beside|stands|stood|lies|met|behind\s+a)\b`}
	usual      = &pattern{text: `(?i)\b(?:stands? for|(?:is|are|be|was|were) (?:not )?met|stands alone|anybody picks)\b`}
	codeSpan   = &pattern{text: "``[^`]+``|`[^`]+`"}
	markup     = &pattern{text: `\]\([^)\s]*\)|[*\[]|<[^>]*>|\]`}
	newItem    = &pattern{text: `^\s*(?:[-*+]|[0-9]+\.)\s+|^#+\s+|^>\s*`}
	separator  = &pattern{text: `^[-:\s]*$`}
	between    = &pattern{text: `([.!?]["')]*)\s+([^a-z\s])`}
	betweenAny = &pattern{text: `([.!?]["')]*)\s+(\S)`} // the name of a command may begin a sentence
	columns    = &pattern{text: `\s{2,}`}
	fence, bar = "```", &pattern{text: `\s*\|\s*`}
)

// pattern is an expression that is compiled when it is first used: the tests of the command, which
// count what its start costs, have this package, too.
type pattern struct {
	text string
	once sync.Once
	re   *regexp.Regexp
}

func (p *pattern) get() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.text) })
	return p.re
}

// Markdown returns the sentences of a document in Markdown. A heading, an item of a list and a cell of a
// table end a sentence as well. Markdown omits blocks of code, which also show what programs print. A
// span of code is one word.
func Markdown(text string) (all []string) {
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
			line = codeSpan.get().ReplaceAllString(line, code) // which may contain a bar
			for _, cell := range bar.get().Split(line, -1) {
				if !separator.get().MatchString(cell) {
					paragraphs = append(paragraphs, cell)
				}
			}
			open = false
		case open && !newItem.get().MatchString(line):
			paragraphs[len(paragraphs)-1] += " " + line
		default:
			paragraphs = append(paragraphs, newItem.get().ReplaceAllString(line, ""))
			open = !strings.HasPrefix(line, "#")
		}
	}
	for _, p := range paragraphs {
		all = append(all, split(between, markup.get().ReplaceAllString(codeSpan.get().ReplaceAllString(p, code), ""))...)
	}
	return all
}

// Help returns the sentences of a text on a terminal. A line that is indented by two blanks is a row of a
// table. At least two blanks separate its columns. Lines with a deeper indentation continue the last
// column.
func Help(text string) (all []string) {
	var paragraphs []string
	open, row := false, false
	for line := range strings.Lines(text) {
		words := strings.TrimSpace(line)
		indent := len(line) - len(strings.TrimLeft(line, " "))
		switch {
		case words == "":
			open, row = false, false
		case indent == 2 || indent > 2 && !row:
			paragraphs = append(paragraphs, columns.get().Split(words, -1)...)
			open, row = false, true
		case indent > 2 || open:
			paragraphs[len(paragraphs)-1] += " " + words
		default:
			paragraphs = append(paragraphs, words)
			open, row = true, false
		}
	}
	for _, p := range paragraphs {
		all = append(all, split(betweenAny, p)...)
	}
	return all
}

func split(between *pattern, paragraph string) []string {
	return strings.Split(between.get().ReplaceAllString(paragraph, "$1\n$2"), "\n")
}

// Unusual finds words that readers of other languages look up, except in their usual technical uses. It
// returns the beginning and the end of each such word.
func Unusual(text string) [][]int {
	blank := func(s string) string { return strings.Repeat("_", len(s)) }
	return odd.get().FindAllStringIndex(usual.get().ReplaceAllStringFunc(text, blank), -1)
}

// Problems returns what a tired reader of the sentences would not understand at first reading.
func Problems(sentences []string) (problems []string) {
	for _, s := range sentences {
		if n := len(strings.Fields(s)); n > longest {
			problems = append(problems, fmt.Sprintf("a sentence of %d words, at most %d are allowed: %s", n, longest, s))
		}
		for _, at := range Unusual(s) {
			problems = append(problems, fmt.Sprintf("%q: name the actor and use the usual word: %s", s[at[0]:at[1]], s))
		}
	}
	return problems
}

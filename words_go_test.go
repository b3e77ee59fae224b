package holdfast_test

import (
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/plainwords"
)

// source matches a string that is a part of a program.
var source = regexp.MustCompile(`^[^\s]+\.go$|^package `)

// passage is a comment, or a text that the program may print.
type passage struct {
	line    int
	text    string
	comment bool
}

// passages returns the comments of a Go file, and the strings of at least four words of one that
// is no test. Lines of comments that follow each other are one passage. Code in a comment is left out.
func passages(name, text string) (all []passage) {
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	for {
		pos, tok, literal := s.Scan()
		line := 0
		if pos.IsValid() {
			line = file.Line(pos)
		}
		switch tok {
		case token.EOF:
			return all
		case token.COMMENT:
			if strings.HasPrefix(literal, "//go:") {
				continue
			}
			body, isLine := strings.CutPrefix(literal, "//")
			if !isLine {
				body = strings.TrimSuffix(strings.TrimPrefix(literal, "/*"), "*/")
			}
			if strings.HasPrefix(body, "\t") || strings.HasPrefix(body, "    ") {
				body = "" // code
			}
			if n := len(all) - 1; n >= 0 && isLine && all[n].comment && all[n].line+strings.Count(all[n].text, "\n")+1 == line {
				all[n].text += "\n" + body
				continue
			}
			all = append(all, passage{line, body, true})
		case token.STRING:
			value, err := strconv.Unquote(literal)
			if err == nil && !strings.HasSuffix(name, "_test.go") && len(strings.Fields(value)) >= 4 && !source.MatchString(value) {
				all = append(all, passage{line, value, false})
			}
		}
	}
}

// unusual returns the words of a Go file that its readers look up.
func unusual(name, text string) (problems []string) {
	for _, p := range passages(name, text) {
		for _, at := range plainwords.Unusual(p.text) {
			line := p.line
			if p.comment {
				line += strings.Count(p.text[:at[0]], "\n")
			}
			problems = append(problems, fmt.Sprintf("%d: %q", line, strings.Join(strings.Fields(p.text[at[0]:at[1]]), " ")))
		}
	}
	return problems
}

// TestGoWords checks that comments, help and messages use words that an engineer who reads
// English as a second language does not look up.
func TestGoWords(t *testing.T) {
	_, texts, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, name := range slices.SortedFunc(maps.Keys(texts), cmp.Compare) {
		if path.Ext(name) != ".go" || strings.HasPrefix(name, "words_") || strings.HasPrefix(name, "internal/plainwords/") {
			continue
		}
		names++
		for _, problem := range unusual(name, texts[name]) {
			t.Errorf("%s:%s: name the actor and use the usual word", name, problem)
		}
	}
	if names < 100 {
		t.Errorf("only %d files were read", names)
	}
}

// TestGoWordsAreNoticed is the control.
func TestGoWordsAreNoticed(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"package p\n\n// The holder is told\n// that it ends.\n", `[3: "told"]`},
		{"package p\n\n// The holder hears, and\n// it goes\n// on.\n", `[4: "goes on"]`},
		{"package p\n\n/* A lock that\nstands there. */\n", `[4: "stands"]`},
		{"package p\n\n// T stands for a type; the condition is met.\n", `[]`},
		{"package p\n\nvar told = \"told\"\n", `[]`},
		{"package p\n\nvar a = \"the lock of this name is gone\"\n", `[3: "gone"]`},
		{"package p\n\n// See:\n//\n//\ttold := lies()\n", `[]`},
	} {
		if got := fmt.Sprint(unusual("p.go", c.text)); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

package holdfast_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A text of this repository refers to nothing that is outside of it and has no address:
// no document, no path of a workplace, no number in a list that a reader cannot see.
var (
	documents = regexp.MustCompile(`([\w./*-]*[\w*-]\.md)\b(?:#([\w-]+))?`)
	addresses = regexp.MustCompile(`https?://[^\s)"']+`)
	links     = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?`)
	headings  = regexp.MustCompile("(?ms)^```.*?^```|^#+ +([^\n]+)") // those in code have no text
	unslugged = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	tests     = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	runs      = regexp.MustCompile(`-run[ =]'?([A-Z][\w\\|]*)`)
	outside   = regexp.MustCompile(`(?i)/wor[k]/\w|/tmp/tool[s]\b|\bissue #?\d|\b(?:rule|item|pitfall|protocol|section) [A-Z]\d+\b|\bsee [A-Z]\d{1,2}\b`)
	numbered  = regexp.MustCompile(`\bfunc (?:Test|Fuzz|Benchmark)[A-Z]{1,2}\d+\(`)
)

// numberedTests have tests that are named after S3.
var numberedTests = []string{"cmd/internal/doctor/aws_test.go"}

// repository is what references are looked up in: the files, the anchors of the documents, and
// the names of tests.
type repository struct {
	files   map[string]bool
	anchors map[string][]string
	tests   []string
}

// anchorsOf returns the anchors that a code host gives the headings of a document.
func anchorsOf(text string) (all []string) {
	for _, heading := range headings.FindAllStringSubmatch(text, -1) {
		title := unslugged.ReplaceAllString(strings.ToLower(links.ReplaceAllString(heading[1], "")), "")
		if title != "" {
			all = append(all, strings.ReplaceAll(strings.TrimSpace(title), " ", "-"))
		}
	}
	return all
}

// dangling returns what the text of a file refers to and is not there.
func (r *repository) dangling(name, text string) (problems []string) {
	add := func(format string, args ...any) {
		if problem := fmt.Sprintf("%s: ", name) + fmt.Sprintf(format, args...); !slices.Contains(problems, problem) {
			problems = append(problems, problem)
		}
	}
	// there looks a target up from the directories base, and its anchor if it has one.
	there := func(target, anchor string, bases ...string) bool {
		return slices.ContainsFunc(bases, func(base string) bool {
			file := path.Join(base, target)
			return r.files[file] && (anchor == "" || slices.Contains(r.anchors[file], anchor))
		})
	}
	text = addresses.ReplaceAllString(text, "")
	for _, match := range documents.FindAllStringSubmatch(text, -1) {
		anchor := match[2]
		if path.Ext(name) == ".md" {
			anchor = "" // its links are read below
		}
		if !strings.Contains(match[1], "*") && !there(strings.TrimPrefix(match[1], "/"), anchor, ".", path.Dir(name)) {
			add("there is no document %s", match[0])
		}
	}
	for _, match := range outside.FindAllString(text, -1) {
		add("%q is outside of the repository", match)
	}
	if match := numbered.FindString(text); match != "" && !slices.Contains(numberedTests, name) {
		add("%q is named after a number in a list", match)
	}
	switch path.Ext(name) {
	case ".md":
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			target, base := link[1], path.Dir(name)
			if target == "" {
				target = path.Base(name)
			}
			if !strings.Contains(target, ":") && !there(target, link[2], base) {
				add("the link to %s leads nowhere", strings.TrimPrefix(link[0], "]("))
			}
		}
		fallthrough
	case ".sh", ".yml":
		for _, test := range tests.FindAllString(text, -1) {
			// As in go test -run, the beginning of a name is enough.
			if !slices.ContainsFunc(r.tests, func(name string) bool { return strings.HasPrefix(name, test) }) {
				add("there is no %s", test)
			}
		}
		for _, run := range runs.FindAllStringSubmatch(text, -1) {
			for part := range strings.SplitSeq(strings.ReplaceAll(run[1], `\`, ""), "|") {
				if !tests.MatchString(part) && !slices.ContainsFunc(r.tests, func(name string) bool { return strings.Contains(name, part) }) {
					add("-run %s runs no test", part)
				}
			}
		}
	}
	return problems
}

// readRepository returns the texts of the files below dir that people write.
func readRepository(dir string) (*repository, map[string]string, error) {
	r, texts := &repository{files: map[string]bool{}, anchors: map[string][]string{}}, map[string]string{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() && (entry.Name() == ".git" || name == "dist" || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		r.files[name] = true
		if entry.IsDir() || !slices.Contains([]string{".go", ".md", ".sh", ".yml", ".txtar", ".mod"}, path.Ext(name)) && name != "Makefile" && name != "Dockerfile" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		texts[name] = string(text)
		if path.Ext(name) == ".md" {
			r.anchors[name] = anchorsOf(string(text))
		}
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			r.tests = append(r.tests, match[1])
		}
		return nil
	})
	return r, texts, err
}

// TestReferences checks that nothing in the repository refers to a text outside of it,
// no link to a file or a heading that is not there, and no document or script to such a test.
func TestReferences(t *testing.T) {
	r, texts, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.tests, "TestReferences") || !r.files["docs/architecture.md"] {
		t.Fatal("the repository was not found")
	}
	for name, text := range texts {
		if name == "references_test.go" {
			continue // it contains what must be noticed
		}
		for _, problem := range r.dangling(name, text) {
			t.Error(problem)
		}
	}
}

// TestReferencesAreNoticed is the control.
func TestReferencesAreNoticed(t *testing.T) {
	r := &repository{
		files:   map[string]bool{"CONTRIBUTING.md": true, "docs/stores.md": true, "docs/operations.md": true, "docs": true},
		anchors: map[string][]string{"CONTRIBUTING.md": {"files"}, "docs/stores.md": anchorsOf("# Stores\n```sh\n# code\n```\n## A `put`, [of](a.html) 2 parts\n")},
		tests:   []string{"TestImports"},
	}
	for _, c := range []struct{ name, text, problem string }{
		{"lease/lease.go", "// see CONTRIBUTING.md and docs/stores.md, or https://example.com/OTHER.md", ""},
		{"docs/operations.md", "[stores](stores.md), [contributing](../CONTRIBUTING.md#files), [page](https://example.com); TestImports", ""},
		{"docs/operations.md", "[stores](stores.md#a-put-of-2-parts), [all](../docs/stores.md#stores)", ""},
		{"docs/stores.md", "[a](#stores) and [b](#code)", "link to #code leads nowhere"},
		{"docs/operations.md", "[a](../docs/stores.md#put)", "link to ../docs/stores.md#put leads nowhere"},
		{"docs/operations.md", "[a](docs)", "link to docs leads nowhere"}, // not from this directory
		{"lease/lease.go", "// see docs/stores.md#stores", ""},
		{"lease/lease.go", "// see docs/stores.md#missing.", "no document docs/stores.md#missing"},
		{"lease/lease.go", "// PROTOCOLS.md says why", "no document PROTOCOLS.md"},
		{"docs/operations.md", "[gone](missing.html)", "leads nowhere"},
		{"CONTRIBUTING.md", "TestExports shows it", "no TestExports"},
		{"internal/test.sh", "-run TestNothing", "no TestNothing"},
		{"docs/operations.md", "go test -run 'Imports|TestImports\\|Impo' and -run xxx", ""},
		{"docs/operations.md", "go test -run 'Imports|Exports' .", "-run Exports runs no test"},
		{"lease/lease.go", "// as in /Work/main", "outside of the repository"},
		{"lease/lease.go", "// issue 12", "outside of the repository"},
		{"lease/lease.go", "// by rule A3", "outside of the repository"},
		{"lease/lease_test.go", "func TestA3(t *testing.T) {", "a number in a list"},
	} {
		problems := r.dangling(c.name, c.text)
		if c.problem == "" && len(problems) > 0 || c.problem != "" && (len(problems) != 1 || !strings.Contains(problems[0], c.problem)) {
			t.Errorf("%s: %q: got %q, want %q", c.name, c.text, problems, c.problem)
		}
	}
}

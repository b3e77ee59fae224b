package command

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
)

// Every command line of the documentation is one that the command understands: the
// subcommand exists, and so do its flags with such values. What the examples do is
// tested by the scripts.
func TestDocumentedCommandLines(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(pages, "../../../README.md", "../../../examples/hold/hold.sh") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, args := range commandLines(line) {
				count++
				checkCommandLine(t, page, n+1, args)
			}
		}
	}
	if count < 20 {
		t.Errorf("only %d command lines found in the documentation", count)
	}
	// The examples in the help of each command, too.
	var walk func(a *app, args []string)
	walk = func(a *app, args []string) {
		cmd, _, err := a.root.Find(args)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(cmd.Example, "\n") {
			for _, example := range commandLines(line) {
				checkCommandLine(t, "help of "+cmd.CommandPath(), n+1, example)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(a, append(args[:len(args):len(args)], sub.Name()))
		}
	}
	a := &app{}
	a.root = a.command()
	walk(a, nil)
}

var invocation = regexp.MustCompile(`(?:^|[ $(/{])holdfast ([a-z-].*)`)

// commandLines finds the calls of holdfast in a line of a page.
func commandLines(line string) [][]string {
	if list, ok := strings.CutPrefix(strings.TrimSpace(line), "command: ["); ok {
		line = strings.ReplaceAll(strings.TrimSuffix(list, "]"), ",", "") // of a container
	}
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
	line, _, _ = strings.Cut(line, "|")
	var found [][]string
	m := invocation.FindStringSubmatch(line)
	if m == nil || strings.HasPrefix(line, "holdfast: ") {
		return nil
	}
	call := strings.NewReplacer("`", " ` ", ")", " ", ";", " ; ", "}", " ; ").Replace(m[1])
	var args []string
	for _, word := range strings.Fields(call) {
		if word == "`" || word == ";" || word == "&" {
			break
		}
		args = append(args, strings.Trim(word, `"'`))
	}
	if len(args) > 0 {
		found = append(found, args)
	}
	return found
}

func checkCommandLine(t *testing.T, page string, n int, args []string) {
	t.Helper()
	a := &app{Invocation: cmdline.Invocation{Access: stores.Access{Printer: output.Printer{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}}}}
	a.root = a.command()
	a.root.InitDefaultCompletionCmd()
	cmd, rest, err := a.root.Find(args)
	if err != nil || cmd == a.root {
		if len(args) > 1 && regexp.MustCompile(`^[a-z]+$`).MatchString(args[0]) || strings.HasPrefix(args[0], "-") {
			// A sentence that continues after the word "holdfast" has no flags.
			if !strings.Contains(strings.Join(args, " "), " -") {
				return
			}
		}
		t.Errorf("%s:%d: holdfast %s: %v", page, n, strings.Join(args, " "), err)
		return
	}
	for i, arg := range rest {
		// N, NAME and the like stand for values.
		switch {
		case arg == "N":
			rest[i] = "1"
		case strings.HasPrefix(arg, "$") && i > 0 && rest[i-1] == "--fence":
			rest[i] = "1"
		}
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s:%d: holdfast %s: %v", page, n, strings.Join(args, " "), err)
	}
}

// The tests that docs/security.md names are there: what it says holds is shown by them.
func TestDocumentedTests(t *testing.T) {
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([a-z]+))?`").FindAllStringSubmatch(string(page), -1)
	if len(named) < 40 {
		t.Errorf("only %d tests found", len(named))
	}
	for _, m := range named {
		files, err := filepath.Glob(filepath.Join("../../..", m[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(text, []byte("func "+m[2]+"("))
		}
		if !found {
			t.Errorf("%s is not in %s", m[2], m[1])
		}
		if m[3] != "" {
			if _, err := os.Stat(filepath.Join("testdata/script", m[3]+".txtar")); err != nil {
				t.Errorf("%s has no such script: %v", m[2], err)
			}
		}
	}
	// So does each row of a table that has a column for it.
	tests := false
	for _, line := range strings.Split(string(page), "\n") {
		switch {
		case !strings.HasPrefix(line, "|"):
			tests = false
		case strings.HasSuffix(line, "| test |"):
			tests = true
		case tests && !strings.HasPrefix(line, "|---") && !strings.HasSuffix(line, "` |"):
			t.Errorf("no test is named: %s", line)
		}
	}
}

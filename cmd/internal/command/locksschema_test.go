package command

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// TestDocumentedFields: docs/json.md and the schema of locks have the fields of messages and of hold.
// Each row of the tables is of a field that there is.
func TestDocumentedFields(t *testing.T) {
	jsontest.Fields(t, "message", output.Problem{}, "Messages and errors")
	s := jsontest.LocksSchema(t)
	hold := jsontest.Section(t, "`hold`: one per line")
	for field := range s.Defs["hold"].Properties {
		if !strings.Contains(hold, "`"+field+"`") {
			t.Errorf("hold: docs/json.md does not have `%s`", field)
		}
	}
	rows := jsontest.Section(t, "A lock: ") + jsontest.Section(t, "Messages and errors") + hold + jsontest.Section(t, "`run --report")
	for _, m := range regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9_]+`(?:, | or )?)+) \\|").FindAllStringSubmatch(rows, -1) {
		for _, field := range regexp.MustCompile("[a-z0-9_]+").FindAllString(strings.ReplaceAll(m[1], " or ", " "), -1) {
			if !slices.ContainsFunc([]string{"lock", "message", "hold", "report"}, func(name string) bool { return s.Defs[name].Properties[field] != nil }) {
				t.Errorf("docs/json.md has a field %s, which is not there", field)
			}
		}
	}
}

// TestGoldenMessage: a message about a busy lock is as the schema says.
func TestGoldenMessage(t *testing.T) {
	jsontest.Golden(t, map[string]any{
		"bench":       benchResult{Operation: "renew", Requests: 1, MedianUS: 1.5, P99US: 2, Ratio: 0.9},
		"busyreaders": output.Problem{Level: "error", Message: "why", Status: exit.Busy, Kind: "busy", Lock: "doc", Store: "file:/x", Holder: "ada, bob", Token: 7},
	})
	jsontest.GoldenFits(t, map[string]string{"busyreaders": "message"})
}

// TestLocksSchemaFitsWhatIsPrinted: commands that continue, and locks of each kind, print what the
// schema says.
func TestLocksSchemaFitsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	s := jsontest.LocksSchema(t)
	p, store := newPlaceOfFiles(t)
	p.must(t, store, "init")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// start starts a command, whose lines next then returns and checks.
	start := func(def string, args ...string) (in io.Closer, next func() string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, p.bin, args...)
		cmd.Dir, cmd.Env = p.dir, environ(p.dir)
		input, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		lines := bufio.NewScanner(out)
		return input, func() string {
			t.Helper()
			if !lines.Scan() {
				t.Fatalf("%v: the output has ended (%v)", args, lines.Err())
			}
			if err := s.Check(def, lines.Bytes()); err != nil {
				t.Errorf("%v: %v: %s", args, err, lines.Bytes())
			}
			return lines.Text()
		}
	}
	until := func(next func() string, part string) {
		t.Helper()
		for !strings.Contains(next(), part) {
			continue
		}
	}
	_, led := start("leader", "leader", "job", "--watch", "--json")
	until(led, `"none"`)
	input, line := start("hold", "hold", "job")
	until(line, `"held"`)
	_, change := start("lock", "watch", "job", "--json")
	until(change, `"held"`)
	until(led, `"elected"`)
	if err := s.Check("ask", []byte(p.must(t, store, "ask", "job", "--reason", "why", "--json"))); err != nil {
		t.Error(err)
	}
	until(line, `"yield_requested"`)
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	until(line, `"released"`)
	until(change, `"free"`)
	until(led, `"none"`)

	// Readers, a slot and runs of a job, while they last and after it.
	for name, flags := range map[string][]string{"doc": {"--shared"}, "pool": {"--slots", "2"}, "daily": {"--once-per", "day"}} {
		report := filepath.Join(p.dir, name+".report")
		args := append([]string{"run", name, "--report", report}, flags...)
		within := p.must(t, store, append(args, "--", p.bin, "show", name, "--json")...)
		if err := s.Check("lock", []byte(within)); err != nil || !strings.Contains(within, map[string]string{"doc": `"shared"`, "pool": `"slot": 1`, "daily": `"running"`}[name]) {
			t.Errorf("%s: %v: %s", name, err, within)
		}
		text, err := os.ReadFile(report)
		if err == nil {
			err = s.Check("report", text)
		}
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	all := p.must(t, store, "ls", "--json")
	if err := s.Check("locks", []byte(all)); err != nil || !strings.Contains(all, `"succeeded"`) {
		t.Errorf("%v: %s", err, all)
	}
}

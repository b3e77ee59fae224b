package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// closedSchema reads the schema of locks, in which no object may have a field that is not
// documented.
func closedSchema(t *testing.T) *schema {
	t.Helper()
	s, no := readSchema(t, "locks"), false
	for _, def := range s.Defs {
		if def.Properties != nil {
			def.Additional = &no
		}
	}
	return s
}

// TestLocksSchemaHasEveryField: the schema and docs/json.md have each field of what the commands
// print, and no other. A field that is always there is required.
func TestLocksSchemaHasEveryField(t *testing.T) {
	s := closedSchema(t)
	text, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	// section returns the part of the page below a heading that begins so.
	section := func(heading string) string {
		t.Helper()
		_, rest, found := strings.Cut(string(text), "\n## "+heading)
		if !found {
			t.Fatalf("no section %q", heading)
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
		return rest
	}
	for name, c := range map[string]struct {
		of      any
		heading string
	}{
		"lock":          {watchLine{}, "A lock: "},
		"member":        {leases.MemberView{}, "A lock: "},
		"run":           {leases.RunView{}, "A lock: "},
		"yield_request": {leases.YieldRequestView{}, "A lock: "},
		"ask":           {askView{}, "`ask`, `leader`"},
		"leader":        {leaderView{}, "`ask`, `leader`"},
		"report":        {report{}, "`run --report"},
		"held":          {leases.HeldLock{}, "`run --report"},
		"message":       {output.Problem{}, "Messages and errors"},
		"hold":          {nil, "`hold`: one per line"},
	} {
		def := s.Defs[name]
		page := section(c.heading)
		for field := range def.Properties {
			if !strings.Contains(page, "`"+field+"`") {
				t.Errorf("%s: docs/json.md does not have `%s` below %q", name, field, c.heading)
			}
		}
		if c.of == nil {
			continue
		}
		var fields, always []string
		for _, f := range reflect.VisibleFields(reflect.TypeOf(c.of)) {
			field, omitted, _ := strings.Cut(f.Tag.Get("json"), ",")
			if field == "" || field == "-" {
				continue
			}
			fields = append(fields, field)
			if def.Properties[field] == nil {
				t.Errorf("%s: the schema does not have %s", name, field)
			}
			if omitted == "" && (name != "lock" || field != "time") { // only watch has the time
				always = append(always, field)
			}
		}
		if len(fields) != len(def.Properties) {
			t.Errorf("%s: the schema has fields that are not printed: %v has %d", name, fields, len(def.Properties))
		}
		if slices.Sort(always); !slices.Equal(always, slices.Sorted(slices.Values(def.Required))) {
			t.Errorf("%s: %v are always there, and the schema requires %v", name, always, def.Required)
		}
	}
	// Each row of the tables is of a field that there is.
	for _, m := range regexp.MustCompile("(?m)^\\| ((?:`[a-z0-9_]+`(?:, | or )?)+) \\|").FindAllStringSubmatch(section("A lock: ")+section("Messages and errors")+section("`hold`: one per line")+section("`run --report"), -1) {
		for _, field := range regexp.MustCompile("[a-z0-9_]+").FindAllString(strings.ReplaceAll(m[1], " or ", " "), -1) {
			if !slices.ContainsFunc([]string{"lock", "message", "hold", "report"}, func(name string) bool { return s.Defs[name].Properties[field] != nil }) {
				t.Errorf("docs/json.md has a field %s, which is not there", field)
			}
		}
	}
}

// TestLocksSchemaFitsTheGoldenFiles: what the commands are known to print is as the schema says.
func TestLocksSchemaFitsTheGoldenFiles(t *testing.T) {
	s := closedSchema(t)
	for file, def := range map[string]string{
		"lock": "lock", "readers": "lock", "slots": "lock", "insession": "lock", "candidates": "lock", "watch": "lock",
		"asked": "ask", "askreaders": "ask", "elected": "leader", "seen": "leader", "unled": "leader", "none": "leader",
		"report": "report", "inslot": "report", "busyreaders": "message", "hold": "hold", "lost": "hold",
	} {
		text, err := os.ReadFile("testdata/golden/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.check(def, text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		// Control: the same with another field.
		if err := s.check(def, bytes.Replace(text, []byte("{"), []byte(`{"stranger": 1,`), 1)); err == nil {
			t.Errorf("%s: it fits with an unknown field", file)
		}
	}
}

// TestLocksSchemaFitsWhatIsPrinted: commands that continue, and locks of each kind, print what the
// schema says.
func TestLocksSchemaFitsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	s := closedSchema(t)
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
			if err := s.check(def, lines.Bytes()); err != nil {
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
	if err := s.check("ask", []byte(p.must(t, store, "ask", "job", "--reason", "why", "--json"))); err != nil {
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
		if err := s.check("lock", []byte(within)); err != nil || !strings.Contains(within, map[string]string{"doc": `"shared"`, "pool": `"slot": 1`, "daily": `"running"`}[name]) {
			t.Errorf("%s: %v: %s", name, err, within)
		}
		text, err := os.ReadFile(report)
		if err == nil {
			err = s.check("report", text)
		}
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	all := p.must(t, store, "ls", "--json")
	if err := s.check("locks", []byte(all)); err != nil || !strings.Contains(all, `"succeeded"`) {
		t.Errorf("%v: %s", err, all)
	}
}

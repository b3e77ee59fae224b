package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/internal/jsontest"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
)

// With --json every command that has a result prints it as JSON, and says nothing else on
// stdout.
func TestEveryResultAsJSON(t *testing.T) {
	p, store := newPlaceOfFiles(t)
	locks, checked := jsontest.LocksSchema(t), map[string]bool{}
	p.must(t, store, "checkpoint", "--file", "state.json", "advance", strings.Repeat("ab", 32), "5")
	p.must(t, store, "run", "sem", "--slots", "2", "--", "true")
	for _, line := range []string{
		"version", "init", "copy-store file:store file:copy", "lock job --handle h.json", "renew h.json", "show job", "ask job", "leader job", "ls", "break job --token TOKEN",
		"lock other --handle o.json", "unlock o.json", "resize sem --slots 3", "sweep --older-than 24h", "bench --rounds 1",
		"checkpoint advance orders 5", "checkpoint get orders", "checkpoint ls", "checkpoint export",
		"checkpoint reset orders 3", "checkpoint rm orders", "checkpoint import export.json",
		"put export.json file:bucket/a", "object stat file:bucket/a", "get file:bucket/a out", "object cp file:bucket/a file:bucket/b",
		"object mv file:bucket/b file:bucket/c", "object fence file:bucket/a --fence 3 --lock job", "object rm file:bucket/a --force", "object ls --recursive file:bucket",
		"commit-log append file:bucket/log export.json", "commit-log latest file:bucket/log", "commit-log read file:bucket/log", "commit-log trim file:bucket/log --before 1",
		"object sweep file:bucket",
		"checkpoint resume-key https://a.example x {}", "checkpoint --file state.json restore --dry-run",
	} {
		switch {
		case strings.Contains(line, "TOKEN"):
			line = strings.ReplaceAll(line, "TOKEN", tokenOf(p.must(t, store, "show", "job", "--json")))
		case strings.Contains(line, "import"):
			if err := os.WriteFile(filepath.Join(p.dir, "export.json"), []byte(`[{"key":"k","exists":true,"sequence":4}]`), 0o600); err != nil {
				t.Fatal(err)
			}
		case strings.Contains(line, "restore"):
			p.must(t, store, "checkpoint", "--file", "state.json", "advance", strings.Repeat("ab", 32), "6")
			if err := os.WriteFile(filepath.Join(p.dir, "state.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stdout, stderr, status := p.run(t, store, append(strings.Fields(line), "--json")...)
		name, _, _ := strings.Cut(line, " ")
		if def := map[string]string{"show": "lock", "break": "lock", "resize": "lock", "ls": "locks", "ask": "ask", "leader": "leader"}[name]; def != "" {
			checked[name] = true
			if err := locks.Check(def, []byte(stdout)); err != nil {
				t.Errorf("%s: the schema refuses it: %v: %s", line, err, stdout)
			}
		}
		var v any
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || status != 0 {
			t.Errorf("%s: status %d, %q, %s (%v)", line, status, stdout, stderr, err)
		}
		if stderr != "" {
			eachProblem(t, stderr)
		}
	}
	if len(checked) != 6 {
		t.Errorf("the schema was applied to the output of %v", checked)
	}
}

// eachProblem reads what --json writes to stderr, and returns the last.
func eachProblem(t *testing.T, stderr string) (last output.Problem) {
	t.Helper()
	locks := jsontest.LocksSchema(t)
	for _, line := range strings.Split(strings.TrimSuffix(stderr, "\n"), "\n") {
		if err := locks.Check("message", []byte(line)); err != nil {
			t.Errorf("%s: the schema refuses it: %v", line, err)
		}
		last = output.Problem{}
		if err := json.Unmarshal([]byte(line), &last); err != nil || last.Message == "" {
			t.Errorf("%q: %v", line, err)
		}
	}
	return last
}

// With --json every error is one object, with its status and what that stands for: of
// every command, of the command line too, and of a lock that is busy with who holds it.
func TestEveryErrorAsJSON(t *testing.T) {
	p, store := newPlaceOfFiles(t)
	p.must(t, store, "lock", "job", "--handle", "h.json", "--holder", "ada")
	token := number(t, tokenOf(p.must(t, store, "show", "job", "--json")))
	for _, c := range []struct {
		line   string
		status int
		kind   string
	}{
		{"show nothing", 66, "not_found"}, {"run -n job -- true", 75, "busy"}, {"run -n -E 9 job -- true", 9, "busy"},
		{"run x -- no-such-program", 127, "command_not_found"}, {"nonsense", 64, "usage"}, {"run --nonsense x -- true", 64, "usage"},
		{"run x --timeout 50ms -- sleep 60", 124, "timed_out"}, {"break job --token 1", 73, "condition_not_met"}, {"--store s3+x://a ls", 64, "usage"},
		{"unlock nowhere", 66, "not_found"}, {"lock -n job", 75, "busy"}, {"checkpoint get k", 66, "not_found"},
		{"--store s3://u:p@b ls", 78, "unsafe"},
	} {
		stdout, stderr, status := p.run(t, store, append([]string{"--json"}, strings.Fields(c.line)...)...)
		last := eachProblem(t, stderr)
		if status != c.status || last.Status != c.status || last.Kind != c.kind || last.Level != "error" || stdout != "" {
			t.Errorf("%s: status %d, want %d %s: %s%s", c.line, status, c.status, c.kind, stdout, stderr)
		}
		if c.kind == "busy" && (last.Lock != "job" || last.Holder != "ada" || last.Token != token || last.Store != store) {
			t.Errorf("%s: %s", c.line, stderr)
		}
	}
	// The status of a command is no error of ours.
	if _, stderr, status := p.run(t, store, "run", "x", "--json", "--", "sh", "-c", "exit 5"); status != 5 || stderr != "" {
		t.Errorf("status %d: %s", status, stderr)
	}
}

package gcs_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestCommand: the command on gs: stores and objects.
func TestCommand(t *testing.T) {
	t.Parallel()
	server := servers.NewGCSInMemory(t, true)
	dir, bin := t.TempDir(), servers.BuildCommand(t)
	holdfast := func(stdin string, args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // the status says it
		return out.String(), cmd.ProcessState.ExitCode()
	}
	must := func(want, stdin string, args ...string) {
		t.Helper()
		if out, status := holdfast(stdin, args...); status != 0 || !strings.Contains(out, want) {
			t.Errorf("holdfast %q: status %d, %s, want %q", args, status, out, want)
		}
	}
	bucket, parameters, _ := strings.Cut(server.URL(server.NewBucket(t), ""), "?")
	at := func(key string) string { return bucket + "/" + key + "?" + parameters }

	must("done", "", "--store", at("locks"), "run", "job", "--", "echo", "done")
	must("job", "", "--store", at("locks"), "ls", "--all")
	must("", "one", "put", "-", at("a/x"), "--if-absent")
	if out, status := holdfast("two", "put", "-", at("a/x"), "--if-absent"); status == 0 {
		t.Errorf("a second put: status %d, %s", status, out)
	}
	must("one", "", "get", at("a/x"), "-")
	must("", "", "object", "mv", at("a/x"), at("a/y"))
	must("a/y", "", "object", "ls", at("a/"))
	must("", "", "object", "fence", at("a/y"), "--fence", "5", "--lock", "job")
	if out, status := holdfast("late", "put", "-", at("a/y"), "--fence", "4", "--lock", "job"); status != 76 {
		t.Errorf("a put with a lower token: status %d, %s", status, out)
	}
	must("", "", "object", "rm", at("a/y"), "--fence", "6", "--lock", "job")

	out, status := holdfast("", "--store", at("locks"), "doctor", "--json")
	var report struct {
		Safe   bool
		Kind   string
		Checks []struct{ ID, Result string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || status != 0 || !report.Safe || report.Kind != "gcs" {
		t.Fatalf("doctor: status %d, %v: %s", status, err, out)
	}
	for _, c := range report.Checks {
		if c.Result != "ok" {
			t.Errorf("%s is %s", c.ID, c.Result)
		}
	}
	must("lock/job.json", "", "object", "ls", at(""), "--recursive")
	if out, _ := holdfast("", "object", "ls", at("locks/.holdfast/"), "--recursive"); strings.Contains(out, "doctor") || strings.Contains(out, "probe") {
		t.Errorf("test data remain: %s", out)
	}

	for _, tt := range []struct{ url, want string }{
		{"gs://nosuchbucket/p?" + parameters, "bucket does not exist"},
		{at("p") + "&nosuch=1", "nosuch"},
		{bucket + "?endpoint=http://127.0.0.1:1", "no TLS"},
		{bucket + "?anonymous&endpoint=http://127.0.0.1:1", "connection refused"},
		{bucket + "?anonymous&endpoint=https://" + server.Address(), "http:// in place of https://"},
	} {
		out, status := holdfast("", "--store", tt.url, "run", "-n", "x", "--", "true")
		if first, _, _ := strings.Cut(out, "\n"); status == 0 || !strings.Contains(first, tt.want) {
			t.Errorf("%s: status %d, %s, want %q", tt.url, status, out, tt.want)
		}
	}
}

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/proof/integration/servers"
)

// TestMoveToS3 moves a fleet from a directory to a bucket and back, with the script of the command that
// moves to a database: workers count under the lock through the whole move.
func TestMoveToS3(t *testing.T) {
	t.Parallel()
	holdfast := servers.BuildCommand(t)
	archive, err := os.ReadFile("../../cmd/internal/command/testdata/script/moving.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(archive), "-- fleet.sh --\n")
	script, _, ends := strings.Cut(rest, "-- control.sh --")
	moved := strings.Replace(script, "new=sqlite:$WORK/new.db", `new="$NEW"`, 1)
	if !found || !ends || moved == script {
		t.Fatal("the script has another form")
	}
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			dir := t.TempDir()
			worker := "#!/bin/sh\nread -r n <$1 || n=0\nsleep 0.01\necho $((n + 1)) >$1\n"
			if err := os.WriteFile(filepath.Join(dir, "worker"), []byte(worker), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "n"), []byte("0\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "sh", "-c", moved)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "WORK="+dir, "HOME="+dir, "XDG_STATE_HOME="+dir, "PATH="+dir+":"+filepath.Dir(holdfast)+":"+os.Getenv("PATH"),
				"NEW=s3://"+server.NewBucket(t, false)+"/app?endpoint="+server.Endpoint)
			cmd.Env = append(cmd.Env, server.Env()...)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestTwoKindsOfStoresOnS3: while a program has a lock in s3+versioned://, a program in s3:// with the same
// prefix is refused, although doctor has found the bucket safe before.
func TestTwoKindsOfStoresOnS3(t *testing.T) {
	t.Parallel()
	holdfast := servers.BuildCommand(t)
	for name, start := range s3Servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			at := "://" + server.NewBucket(t, true) + "/app?endpoint=" + server.Endpoint
			if r, status := examine(t, holdfast, "s3"+at, server.Env()); status != 0 || !r.Safe {
				t.Errorf("doctor on the empty prefix: status %d, safe %v", status, r.Safe)
			}
			inner := `"` + holdfast + `" --store "s3` + at + `" run -n job -- true; echo status $?`
			cmd := exec.CommandContext(t.Context(), holdfast, "--store", "s3+versioned"+at+"&put_lifetime=1s", "run", "job", "--ttl", "60s", "--", "sh", "-c", inner)
			cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "XDG_STATE_HOME="), server.Env()...)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "status 78") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

//go:build unix

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lines that docs/migrating.md puts in the place of others, and those of the README
// on S3, run as they stand there, on a stand-in for S3 where they name it.
func TestDocumentedLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := filepath.Dir(holdfastBinary(t))
	for _, name := range []string{"job.sh", "run", "deploy.sh", "java"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho ran\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s3, _ := serveS3(t, nil)
	shell := func(line, store string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+dir+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_STATE_HOME="+dir, "HOLDFAST_STORE="+store,
			"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	page, err := os.ReadFile("../../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	named := regexp.MustCompile(`s3://[a-z]+/([a-z]+)`)
	for _, m := range regexp.MustCompile(`(?m)^(holdfast .*\S) +# after$`).FindAllStringSubmatch(string(page), -1) {
		count++
		line := named.ReplaceAllString(m[1], "'"+strings.Replace(s3, "/app?", "/$1?", 1)+"'")
		// The test does not wait for the 5 and 50 minutes.
		line = regexp.MustCompile(`--min-interval [0-9]+m`).ReplaceAllString(line, "--min-interval 50ms")
		if out, err := shell(line, "file:"+filepath.Join(dir, "store")); err != nil || !strings.Contains(out, "ran") {
			t.Errorf("%s: %v, %s", line, err, out)
		}
	}
	if count < 6 {
		t.Errorf("only %d lines found", count)
	}

	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "## On several machines")
	lines := regexp.MustCompile(`(?m)^export HOLDFAST_STORE='s3://[^']*'\n((?:holdfast .*\n)+)`).FindStringSubmatch(rest)
	if lines == nil {
		t.Fatal("no lines on S3 in the README")
	}
	if out, err := shell(lines[1], s3); err != nil || !strings.Contains(out, "leases are safe") || !strings.HasSuffix(out, "ran\n") {
		t.Errorf("%s: %v, %s", lines[1], err, out)
	}
}

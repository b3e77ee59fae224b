//go:build unix

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// The jobs of docs/operations.md run as they stand there: the line of cron, the unit of
// systemd, the container, and the steps of the pipeline. Only the places of programs are
// others, and the store.
func TestDocumentedJobs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	bin := filepath.Dir(holdfastBinary(t))
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	job := script("job.sh", `echo "$0 runs with $HOLDFAST_LOCK"`)
	for _, name := range []string{"build.sh", "deploy.sh"} {
		script(name, "holdfast run -n deploy -- true; test $? = 75")
	}
	shell := func(t *testing.T, line string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = environ(dir, "PATH="+bin+":"+os.Getenv("PATH"), "RUNNER_TEMP="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	// block returns the first fenced block below a heading.
	block := func(heading string) string {
		t.Helper()
		_, rest, found := strings.Cut(string(page), "## "+heading+"\n")
		parts := strings.SplitN(rest, "```", 3)
		if !found || len(parts) < 3 {
			t.Fatalf("nothing under %q", heading)
		}
		return parts[1]
	}
	one := func(heading, pattern, program string) string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(block(heading))
		if m == nil || !strings.Contains(m[1], program) {
			t.Fatalf("no command under %q", heading)
		}
		return strings.ReplaceAll(strings.ReplaceAll(m[1], program, job), "/usr/bin/holdfast", "holdfast")
	}
	for name, line := range map[string]string{
		"cron":       one("cron", `(?m)^[0-9*]+ [0-9*]+ [0-9*]+ [0-9*]+ [0-9*]+ (.*)$`, "/usr/local/bin/job.sh"),
		"systemd":    one("systemd", `(?m)^ExecStart=(.*)$`, "/usr/local/bin/report"),
		"Kubernetes": strings.NewReplacer(",", " ").Replace(one("Kubernetes", `command: \[(.*)\]`, "/job.sh")),
	} {
		t.Run(name, func(t *testing.T) {
			if out, status := shell(t, line); status != 0 || !strings.HasSuffix(out, "job.sh runs with nightly\n") {
				t.Errorf("%s: status %d, %s", line, status, out)
			}
		})
	}
	t.Run("pipeline", func(t *testing.T) {
		steps := regexp.MustCompile(`(?m)^ +(?:- )?run: (.*)$`).FindAllStringSubmatch(block("The steps of a pipeline"), -1)
		if len(steps) != 5 {
			t.Fatalf("%d steps, want 5", len(steps))
		}
		for _, step := range steps {
			if out, status := shell(t, step[1]); status != 0 {
				t.Errorf("%s: status %d, %s", step[1], status, out)
			}
		}
		if out, status := shell(t, "holdfast run -n deploy -- true"); status != 0 {
			t.Errorf("after the pipeline: status %d, %s", status, out)
		}
		// Broken in between: the pipeline ends at its renewal.
		line := steps[0][1] + ` && holdfast break deploy --now --token $(holdfast show deploy --json | sed -n 's/.*"token": \([0-9]*\).*/\1/p')`
		if out, status := shell(t, line); status != 0 {
			t.Fatalf("%s: status %d, %s", line, status, out)
		}
		if out, status := shell(t, steps[2][1]); status != 76 {
			t.Errorf("%s: status %d, want 76: %s", steps[2][1], status, out)
		}
	})
	t.Run("systemd-analyze", func(t *testing.T) {
		analyze := suitetest.NeedProgram(t, "systemd-analyze")
		unit := strings.NewReplacer("/usr/local/bin/report", job, "/usr/bin/holdfast", filepath.Join(bin, "holdfast")).Replace(strings.TrimPrefix(block("systemd"), "ini\n"))
		path := filepath.Join(dir, "nightly.service")
		if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil && strings.Contains(string(out), "nightly.service") {
			t.Errorf("%v: %s", err, out)
		}
	})
}

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
	steps := regexp.MustCompile(`(?m)^handle=.*\nholdfast renew.*\nholdfast unlock.*$`).FindString(string(page))
	if out, err := shell(steps, "file:"+filepath.Join(dir, "store")); err != nil || steps == "" {
		t.Errorf("%s: %v, %s", steps, err, out)
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

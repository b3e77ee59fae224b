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

// Each block of docs/quickstart.md runs as it is there; only the bucket is another one.
func TestQuickstart(t *testing.T) {
	page, err := os.ReadFile("../../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, bin := t.TempDir(), filepath.Dir(holdfastBinary(t))
	for _, name := range []string{"job.sh", "build.sh", "deploy.sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho \"$0 ran\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bucket, _ := serveS3(t, nil)
	run := func(cmd *exec.Cmd) string {
		t.Helper()
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true")
		if strings.HasPrefix(filepath.Base(cmd.Path), "sh") {
			cmd.Env = append(cmd.Env, "HOLDFAST_STORE=file:"+filepath.Join(dir, "store"))
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v, %s", cmd.Args, err, out)
		}
		return string(out)
	}
	wants := []string{"s3://bucket/app", "nightly", "deploy.sh ran", "error for an older token: checkpoint"}
	blocks := regexp.MustCompile("(?s)```(sh|go)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != len(wants) {
		t.Fatalf("%d blocks, want %d", len(blocks), len(wants))
	}
	for i, block := range blocks {
		var out string
		if block[1] == "sh" {
			script := strings.ReplaceAll(block[2], "s3://my-bucket/locks?region=eu-central-1", bucket)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Dir = dir
			out = run(cmd)
		} else {
			source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "worker")
			if err := os.WriteFile(source, []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.CommandContext(t.Context(), "go", "build", "-o", program, source)
			build.Dir = "../../.." // with the modules of this workspace
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			cmd := exec.CommandContext(t.Context(), program)
			cmd.Dir = dir
			out = run(cmd)
		}
		if !strings.Contains(out, wants[i]) {
			t.Errorf("block %d says %q, and not %q", i+1, out, wants[i])
		}
	}
}

// The scripts of several steps in docs/quickstart.md and in the help run in a plain shell. They do not deploy without
// the lock, and report its loss.
func TestDocumentedPipelines(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	help := func(command string) string {
		out, err := exec.CommandContext(t.Context(), holdfastBinary(t), command, "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	script := regexp.MustCompile(`(?m)^ *(set -e.*\n *)?handle=(.*\n)+? *holdfast unlock.*$`)
	const broken = `holdfast break deploy --now --token $(holdfast show deploy --json | sed -n 's/.*"token": *\([0-9]*\).*/\1/p')`
	for _, source := range []struct{ name, text string }{{"quickstart", string(page)}, {"lock", help("lock")}, {"unlock", help("unlock")}} {
		text := script.FindString(source.text)
		for _, test := range []struct {
			name, build, deploy, want string
			busy                      bool
		}{
			{name: "free", want: "deployed\nstatus 0\n"},
			{name: "busy", busy: true, want: "status 75\n"},
			{name: "lost in the first step", build: broken, want: "status 76\n"},
			{name: "lost in the last step", deploy: broken, want: "deployed\nstatus 76\n"},
			{name: "a step fails", deploy: "exit 7", want: "deployed\nstatus 7\n"},
		} {
			if test.build != "" && !strings.Contains(text, "./build.sh") {
				continue
			}
			t.Run(source.name+"/"+test.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				for name, body := range map[string]string{"build.sh": test.build, "deploy.sh": "echo deployed\n" + test.deploy, "script.sh": strings.Replace(text, "--wait 10m", "", 1)} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil {
						t.Fatal(err)
					}
				}
				line := "sh script.sh; echo status $?"
				if test.busy {
					line = "holdfast lock deploy >/dev/null && " + line
				}
				cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(holdfastBinary(t))+":"+os.Getenv("PATH"), "HOME="+dir, "XDG_STATE_HOME="+dir, "HOLDFAST_WAIT=0s", "HOLDFAST_STORE=file:"+filepath.Join(dir, "store"))
				var stderr strings.Builder
				cmd.Stderr = &stderr
				if out, err := cmd.Output(); err != nil || string(out) != test.want {
					t.Errorf("%s\n%v, stdout %q, want %q; stderr %s", text, err, out, test.want, &stderr)
				}
			})
		}
	}
}

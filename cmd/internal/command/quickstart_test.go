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
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
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

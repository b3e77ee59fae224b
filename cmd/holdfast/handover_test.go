//go:build unix

package main_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestNoLibraries: the program that everybody starts has no library of a store, and no client of HTTP.
func TestNoLibraries(t *testing.T) {
	for pkg, allowed := range map[string]bool{".": true, "../holdfast-stores": false} {
		out, err := exec.Command("go", "list", "-deps", pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var found []string
		for path := range strings.FieldsSeq(string(out)) {
			for _, library := range []string{"aws", "pgx", "sqlite", "net/http", "crypto/tls", "database/sql", "os/user"} {
				if strings.Contains(path, library) {
					found = append(found, path)
				}
			}
		}
		if (len(found) == 0) != allowed { // the other program is the control
			t.Errorf("%s imports %q", pkg, found)
		}
	}
}

// programs are both programs, built as users build them.
type programs struct {
	dir    string // of the files of a test
	small  string // a directory with holdfast alone
	both   string // a directory with both programs
	config string
}

// built is the directory of all tests.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "holdfast-programs-"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(status)
}

// buildOnce builds the programs.
var buildOnce = sync.OnceValues(func() ([]byte, error) {
	state := "-s -w -X github.com/holdfast-go/holdfast/cmd/internal/stores.RootState=" + filepath.Join(built, "state")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags", state, "-o", filepath.Join(built, "both")+"/", ".", "../holdfast-stores").CombinedOutput()
	if err == nil {
		err = os.Mkdir(filepath.Join(built, "small"), 0o700)
	}
	if err == nil {
		err = os.Link(filepath.Join(built, "both", "holdfast"), filepath.Join(built, "small", "holdfast"))
	}
	return out, err
})

func build(t *testing.T) *programs {
	t.Helper()
	if out, err := buildOnce(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := t.TempDir()
	return &programs{dir: dir, small: filepath.Join(built, "small"), both: filepath.Join(built, "both"), config: filepath.Join(dir, "holdfast.conf")}
}

// command returns a program with an environment of its own. It finds no companion in PATH.
func (p *programs) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"HOME=" + p.dir, "XDG_STATE_HOME=" + filepath.Join(p.dir, "state"), "PATH=/usr/bin:/bin", "HOLDFAST_CONFIG=" + p.config}
	return cmd
}

// status runs a command, and returns what it says and its exit status.
func status(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, status int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (p *programs) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, errs, code := status(t, p.command(program, args...))
	if code != 0 {
		t.Fatalf("%s %q: status %d, %s", program, args, code, errs)
	}
	return out
}

// TestHandOver: holdfast opens directories by itself, and becomes holdfast-stores for all other stores.
// Neither the user nor the job sees a difference.
func TestHandOver(t *testing.T) {
	p := build(t)
	if err := os.WriteFile(p.config, []byte("store base = sqlite:"+p.dir+"/db\nstore disk = file:"+p.dir+"/locks\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	small, both, stores := filepath.Join(p.small, "holdfast"), filepath.Join(p.both, "holdfast"), filepath.Join(p.both, "holdfast-stores")
	base, disk := "sqlite:"+p.dir+"/db", "file:"+p.dir+"/locks"

	t.Run("a directory", func(t *testing.T) {
		if out := p.must(t, small, "--store", disk, "run", "job", "--", "echo", "hello"); out != "hello\n" {
			t.Errorf("got %q", out)
		}
		for _, program := range []string{small, stores} { // each starts itself as a helper
			if out := p.must(t, program, "--store", disk, "doctor"); !regexp.MustCompile(`recognition of dead processes +ok`).MatchString(out) {
				t.Errorf("doctor says %s", out)
			}
		}
		p.must(t, small, "--store", disk, "show", "job")
		p.must(t, small, "put", small, "file:"+p.dir+"/bucket/program")
		if out := p.must(t, small, "help", "stores"); !strings.Contains(out, "dynamodb://TABLE/PREFIX") {
			t.Errorf("the help lacks stores: %s", out)
		}
		// Only the other program has the server of serve.
		if out, err := exec.Command(small, "--store", disk, "serve", "--listen", "banana").CombinedOutput(); err == nil || !strings.Contains(string(out), "serve needs the program holdfast-stores") {
			t.Errorf("serve alone: %v: %s", err, out)
		}
		if out, err := exec.Command(both, "--store", disk, "serve", "--listen", "banana").CombinedOutput(); err == nil || !strings.Contains(string(out), "--listen must be an address") {
			t.Errorf("serve: %v: %s", err, out)
		}
		if out := p.must(t, small, "version"); !strings.Contains(out, "holdfast-stores is missing") {
			t.Errorf("version says %q", out)
		}
	})

	t.Run("no companion", func(t *testing.T) {
		for _, args := range [][]string{
			{"--store", base, "ls"}, {"--store", "base", "run", "x", "--", "touch", "ran"}, {"run", "--store", disk, "--also-store", "base", "x", "--", "touch", "ran"},
			{"put", "-", "s3://bucket/key"}, {"object", "cp", "s3://bucket/key", "ran"}, {"--store", "S3+Versioned://bucket", "ls"},
			{"item", "ls", "--table", "dynamodb://table", "--bucket", "file:b"}, {"init", "--store", "postgres://host/db"}, {"ls", "--store", "mysql://host/db"},
		} {
			_, errs, code := status(t, p.command(small, args...))
			if code != 78 || !strings.Contains(errs, "needs the program holdfast-stores") || !strings.Contains(errs, "\n  install both programs: go install github.com/holdfast-go/holdfast/cmd/...@latest") {
				t.Errorf("%q: status %d, %s", args, code, errs)
			}
		}
		if _, err := os.Stat(filepath.Join(p.dir, "ran")); err == nil {
			t.Error("a command ran")
		}
		if out, errs, code := status(t, p.command(small, "__complete", "--store", base, "show", "")); code != 0 || out != ":4\n" {
			t.Errorf("completion: status %d, %q, %s", code, out, errs)
		}
		// The name of a lock may look like a URL.
		if out := p.must(t, small, "--store", disk, "run", "s3:job", "--", "echo", "hello"); out != "hello\n" {
			t.Errorf("got %q", out)
		}
	})

	t.Run("not the companion", func(t *testing.T) {
		dir := filepath.Join(p.dir, "wrong")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"holdfast", "holdfast-stores"} {
			if err := os.Link(small, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if _, errs, code := status(t, p.command(filepath.Join(dir, "holdfast"), "--store", base, "ls")); code != 78 || !strings.Contains(errs, "is not the program holdfast-stores") {
			t.Errorf("status %d, %s", code, errs)
		}
	})

	t.Run("another version", func(t *testing.T) {
		cmd := p.command(stores, "--store", base, "ls")
		cmd.Env = append(cmd.Env, "HOLDFAST_CALLER_VERSION=v0.0.1")
		if _, errs, code := status(t, cmd); code != 78 || !strings.Contains(errs, "holdfast has the version v0.0.1, but "+stores+" has the version (devel)") {
			t.Errorf("status %d, %s", code, errs)
		}
	})

	t.Run("both", func(t *testing.T) {
		p.must(t, both, "--store", base, "init")
		if out := p.must(t, both, "version"); !strings.Contains(out, "holdfast-stores (devel) ("+stores+")") {
			t.Errorf("version says %q", out)
		}
		cmd := p.command(both, "--store", "base", "run", "job", "--", "cat")
		cmd.Stdin = strings.NewReader("what is on stdin")
		if out, errs, code := status(t, cmd); out != "what is on stdin" || errs != "" || code != 0 {
			t.Errorf("status %d, %q, %q", code, out, errs)
		}
		if _, _, code := status(t, p.command(both, "--store", base, "run", "job", "--", "sh", "-c", "exit 7")); code != 7 {
			t.Errorf("status %d, want 7", code)
		}
		if out := p.must(t, both, "__complete", "--store", base, "show", ""); !strings.HasPrefix(out, "job\n") {
			t.Errorf("completion offers %q", out)
		}
		// It is found by a link, and in PATH.
		link := filepath.Join(p.dir, "link")
		if err := os.Symlink(both, link); err != nil {
			t.Fatal(err)
		}
		p.must(t, link, "--store", base, "show", "job")
		cmd = p.command(small, "--store", base, "show", "job")
		cmd.Env = append(cmd.Env, "PATH="+p.both+":/usr/bin:/bin")
		if _, errs, code := status(t, cmd); code != 0 {
			t.Errorf("status %d, %s", code, errs)
		}
		// Notes are printed once, by the program that does the work.
		cmd = p.command(both, "-v", "--store", "disk", "run", "--also-store", "base", "job", "--", "true")
		cmd.Env = append(cmd.Env, "HOLDFAST_NOSUCH=1")
		_, errs, code := status(t, cmd)
		for _, note := range []string{"the store is disk", "the store is base", "HOLDFAST_NOSUCH"} {
			if strings.Count(errs, note) != 1 || code != 0 {
				t.Errorf("status %d, %q not once in %s", code, note, errs)
			}
		}
		// Only the file knows the store.
		handle := filepath.Join(p.dir, "handle")
		p.must(t, both, "--store", base, "lock", "kept", "--handle", handle)
		p.must(t, both, "renew", handle)
		_, errs, code = status(t, p.command(small, "renew", handle))
		if code != 78 || !strings.Contains(errs, "needs the program holdfast-stores") {
			t.Errorf("status %d, %s", code, errs)
		}
		p.must(t, both, "unlock", handle)
	})

	t.Run("the same process", func(t *testing.T) {
		// What the job inherits, and its parent.
		const job = `for f in /proc/self/fd/*; do readlink "$f"; done; grep -E "Sig|Shd" /proc/self/status; ulimit -n; env | grep -v -E "^(_|HOLDFAST_TOKEN|HOLDFAST_LOCKS)="; echo parent $PPID`
		run := func(program string) string {
			script := `trap '' HUP INT; exec "$@" 9<"$0"`
			cmd := p.command("/bin/sh", "-c", script, p.config, program, "--store", base, "run", "job", "--", "sh", "-c", job)
			out, errs, code := status(t, cmd)
			if code != 0 || !strings.Contains(out, "parent "+strconv.Itoa(cmd.Process.Pid)) {
				t.Fatalf("status %d, %s%s; the process is %d", code, out, errs, cmd.Process.Pid)
			}
			out, _, _ = strings.Cut(out, "parent")
			return regexp.MustCompile(`(pipe:|SigQ:).*`).ReplaceAllString(out, "$1")
		}
		got, want := run(both), run(stores)
		if got != want {
			t.Errorf("through holdfast:\n%s\ndirectly:\n%s", got, want)
		}
		if _, err := os.Stat("/proc/self/fd"); err == nil && !strings.Contains(got, p.config) {
			t.Errorf("the control: the job has not inherited the file: %s", got)
		}
	})

	t.Run("a signal", func(t *testing.T) {
		ready := filepath.Join(p.dir, "ready")
		cmd := p.command(both, "--store", base, "run", "job", "--", "sh", "-c", "touch "+ready+"; sleep 600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for limit := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(ready); err == nil {
				break
			}
			if time.Now().After(limit) {
				t.Fatal("the job does not start")
			}
		}
		if _, _, code := status(t, p.command(both, "--store", base, "run", "-n", "job", "--", "true")); code != 75 {
			t.Errorf("status %d while the lock is held, want 75", code)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
			t.Errorf("ended with %v, want status 143", cmd.ProcessState)
		}
		if out := p.must(t, both, "--store", base, "show", "job"); !strings.Contains(out, "free") {
			t.Errorf("the lock is held: %s", out)
		}
	})
}

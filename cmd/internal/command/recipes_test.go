//go:build unix

package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// recipes is a machine on which the files of examples/recipes run as they are. Only the places of
// programs are different, and the store.
type recipes struct {
	t        *testing.T
	bin, dir string
	places   *strings.Replacer // of programs in the files
}

func newRecipes(t *testing.T) *recipes {
	t.Helper()
	r := &recipes{t: t, bin: filepath.Dir(holdfastBinary(t)), dir: t.TempDir()}
	job := r.script("job.sh", `echo "$0 runs with $HOLDFAST_LOCK"`)
	for _, name := range []string{"build.sh", "deploy.sh"} {
		r.script(name, "holdfast run -n deploy -- true; test $? = 75")
	}
	r.script("go", "test $1 = install") // of a pipeline
	r.places = strings.NewReplacer("/var/lib/app/app.db", filepath.Join(r.dir, "app.db"), "/usr/local/bin/app", filepath.Join(r.dir, "app"),
		"/usr/local/bin/job.sh", job, "/usr/local/bin/report", job, "/usr/local/bin/worker", job,
		"/usr/bin/holdfast", filepath.Join(r.bin, "holdfast"))
	return r
}

func (r *recipes) script(name, text string) (path string) {
	r.t.Helper()
	path = filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		r.t.Fatal(err)
	}
	return path
}

func (r *recipes) file(name string) string {
	r.t.Helper()
	text, err := os.ReadFile("../../../examples/recipes/" + name)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.places.Replace(string(text))
}

// decode reads a file of YAML, and refuses fields that the value does not have.
func (r *recipes) decode(name string, into any) {
	r.t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(r.file(name)))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
}

// run runs a program, and fails the test if it has another status.
func (r *recipes) run(t *testing.T, want int, argv ...string) (out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/env", argv...)
	cmd.Dir = r.dir
	cmd.Env = environ(r.dir, "PATH="+r.bin+":"+r.dir+":"+os.Getenv("PATH"), "RUNNER_TEMP="+r.dir)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if status := cmd.ProcessState.ExitCode(); status != want {
		t.Errorf("%q: status %d, want %d: %s", argv, status, want, text)
	}
	return string(text)
}

// argv is the command of a pod.
func (r *recipes) argv(t *testing.T, name string) (argv []string) {
	t.Helper()
	m := regexp.MustCompile(`command: (\[.*\])`).FindStringSubmatch(r.file(name))
	if m == nil || yaml.Unmarshal([]byte(m[1]), &argv) != nil {
		t.Fatalf("%s has no command", name)
	}
	argv[len(argv)-1] = "./job.sh"
	return argv
}

func (r *recipes) shell(t *testing.T, want int, line string) (out string) {
	t.Helper()
	return r.run(t, want, "sh", "-c", line)
}

// TestRecipes runs the commands in examples/recipes, and the line of cron in docs/operations.md.
func TestRecipes(t *testing.T) {
	r := newRecipes(t)
	ran := func(t *testing.T, out, lock string) {
		t.Helper()
		if !strings.HasSuffix(out, "job.sh runs with "+lock+"\n") {
			t.Errorf("the job did not run with %s: %s", lock, out)
		}
	}
	t.Run("cron", func(t *testing.T) {
		page, err := os.ReadFile("../../../docs/operations.md")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(page), "### cron\n")
		m := regexp.MustCompile(`(?m)^[0-9*]+ [0-9*]+ [0-9*]+ [0-9*]+ [0-9*]+ (.*)$`).FindStringSubmatch(rest)
		if m == nil {
			t.Fatal("no line of cron")
		}
		ran(t, r.shell(t, 0, r.places.Replace(m[1])), "nightly")
	})
	t.Run("systemd", func(t *testing.T) {
		var files []string
		for name, lock := range map[string]string{"nightly.service": "nightly", "worker.service": "worker", "nightly.timer": ""} {
			text := r.file(name)
			path := filepath.Join(r.dir, name)
			files = append(files, path)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if lock != "" {
				m := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text)
				if m == nil {
					t.Fatalf("%s has no command", name)
				}
				ran(t, r.shell(t, 0, m[1]), lock)
			}
		}
		analyze := suitetest.NeedProgram(t, "systemd-analyze")
		verify := func(files ...string) string {
			out, err := exec.Command(analyze, append([]string{"verify"}, files...)...).CombinedOutput()
			if err != nil && regexp.MustCompile(`nightly|worker`).Match(out) {
				return string(out)
			}
			return ""
		}
		if problems := verify(files...); problems != "" {
			t.Error(problems)
		}
		wrong := filepath.Join(r.dir, "worker-wrong.service")
		text := strings.Replace(r.file("worker.service"), "ExecStart=", "ExecStart=no/", 1)
		if err := os.WriteFile(wrong, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if verify(wrong) == "" { // the control
			t.Error("systemd-analyze accepts a wrong command")
		}
	})
	// A real API server decodes these files in proof/integration/kubernetes.
	t.Run("Kubernetes", func(t *testing.T) {
		for name, lock := range map[string]string{"cronjob.yaml": "report", "deployment.yaml": "worker"} {
			ran(t, r.run(t, 0, r.argv(t, name)...), lock)
		}
	})
	// A pod and a runner of GitHub begin with an empty disk, and a database does not tell the age of a record: they must
	// watch the lock of a dead node for a TTL.
	t.Run("a node died", func(t *testing.T) {
		argv := r.argv(t, "cronjob.yaml")
		if wait, err := time.ParseDuration(argv[slices.Index(argv, "--wait")+1]); err != nil || wait < 35*time.Second {
			t.Errorf("the pod waits for %v, %v: too short for the default TTL", wait, err)
		}
		script, err := filepath.Abs("../../../action/run.sh")
		if err != nil {
			t.Fatal(err)
		}
		store := "HOLDFAST_STORE=sqlite:" + filepath.Join(r.dir, "locks.db")
		r.run(t, 0, store, "holdfast", "init")
		action := []string{"LOCK=report", "IF_BUSY=skip", "OPTIONS=", "STORE=", "GITHUB_OUTPUT=/dev/null", "RUN=./job.sh", "bash", script}
		for _, argv := range [][]string{argv, action} {
			r.run(t, -1, store, "holdfast", "run", "--ttl", "1s", "report", "--", "sh", "-c", "kill -9 $PPID; sleep 1")
			time.Sleep(time.Second) // the deadline
			next := newRecipes(t)
			ran(t, next.run(t, 0, append([]string{store, "XDG_STATE_HOME=" + next.dir}, argv...)...), "report")
		}
		r.run(t, 0, store, "holdfast", "lock", "report", "--handle", "alive.json")
		began := time.Now()
		if out := r.run(t, 0, append([]string{store}, action...)...); !strings.Contains(out, "another job has the lock") || time.Since(began) > 20*time.Second {
			t.Errorf("after %v: %s", time.Since(began), out)
		}
		r.run(t, 0, "holdfast", "unlock", "alive.json")
	})
	t.Run("GitHub Actions", func(t *testing.T) {
		var w struct {
			Name        string
			On          struct{ Push struct{ Branches []string } }
			Permissions map[string]string
			Env         map[string]string
			Jobs        map[string]struct {
				RunsOn  string `yaml:"runs-on"`
				Timeout int    `yaml:"timeout-minutes"`
				Steps   []struct {
					Uses, Run, ID, If string
					With              map[string]string
				}
			}
		}
		r.decode("github-actions.yml", &w)
		var lines []string
		for _, step := range w.Jobs["deploy"].Steps {
			if (step.Uses == "") == (step.Run == "") {
				t.Errorf("a step needs one of uses and run: %+v", step)
			}
			if step.Run != "" {
				lines = append(lines, step.Run)
			}
		}
		if len(lines) != 6 || w.Env["HOLDFAST_STORE"] == "" {
			t.Fatalf("%d commands, want 6", len(lines))
		}
		for _, line := range lines {
			r.shell(t, 0, line)
		}
		r.shell(t, 0, "holdfast run -n deploy -- true")
		// The lock is broken in between: the pipeline ends at its renewal.
		r.shell(t, 0, lines[1])
		r.shell(t, 0, `holdfast break deploy --now --token $(holdfast show deploy --json | sed -n 's/.*"token": \([0-9]*\).*/\1/p')`)
		r.shell(t, 76, lines[3])
	})
	t.Run("GitLab", func(t *testing.T) {
		var jobs map[string]struct {
			Image, Timeout string
			Rules          []struct{ If string }
			Before         []string `yaml:"before_script"`
			Script         []string
		}
		r.decode("gitlab-ci.yml", &jobs)
		job := jobs["deploy"]
		if len(job.Before) == 0 || len(job.Script) == 0 {
			t.Fatalf("no script: %+v", jobs)
		}
		for _, line := range append(job.Before, job.Script...) {
			r.shell(t, 0, line)
		}
	})
	t.Run("Jenkins", func(t *testing.T) {
		text := r.file("Jenkinsfile")
		if opened := strings.Count(text, "{"); opened == 0 || opened != strings.Count(text, "}") {
			t.Error("the braces are not balanced")
		}
		lines := regexp.MustCompile(`(?m)^ *sh '(.*)'$`).FindAllStringSubmatch(text, -1)
		if len(lines) != 2 {
			t.Fatalf("%d commands, want 2", len(lines))
		}
		r.shell(t, 0, lines[1][1])
	})
	// The program litestream is a fake: it copies the whole file when the application ends.
	t.Run("Litestream", func(t *testing.T) {
		var config struct {
			DBs []struct {
				Path    string
				Replica struct{ URL string }
			}
		}
		r.decode("litestream.yml", &config)
		db := filepath.Join(r.dir, "app.db")
		if len(config.DBs) != 1 || config.DBs[0].Path != db {
			t.Errorf("litestream.yml is about %+v, litestream.sh about %s", config, db)
		}
		r.script("app", `echo "$HOLDFAST_LOCK" >> app.db`)
		r.script("litestream", `case "$1 $2" in
"restore -if-replica-exists") test "$3 $5" = "-o $PWD/app.db" && { test ! -e replica || cp replica "$4"; } ;;
"replicate -exec") "$3" && cp app.db replica ;;
*) exit 2 ;;
esac`)
		script := r.script("litestream.sh", r.file("litestream.sh"))
		for n := 1; n <= 3; n++ {
			r.run(t, 0, "holdfast", "lead", "app.db", "--", script)
			got, err := os.ReadFile(db)
			if want := strings.Repeat("app.db\n", n); err != nil || string(got) != want {
				t.Errorf("in term %d, the database is %q, %v; want %q", n, got, err, want)
			}
			if _, err := os.Stat(db + "-wal"); err == nil {
				t.Errorf("in term %d, the log of an earlier term remains", n)
			}
			// The next term is on a machine with a database of an earlier term.
			for _, name := range []string{db, db + "-wal"} {
				if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

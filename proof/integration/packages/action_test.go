package packages

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// action is what action.yml says, as far as a runner needs it.
type action struct {
	Inputs map[string]struct {
		Description, Default string
		Required             bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []struct {
			ID, Shell, Run string
			Env            map[string]string
		}
	}
}

var expression = regexp.MustCompile(`\$\{\{ *([^ ]+) *\}\}`)

// run runs the steps as GitHub does: each with the shell and the variables that it names, with a file for what it adds to
// PATH, and a file for its outputs. It returns the outputs of the action and what the steps print.
func (a *action) run(t *testing.T, dir string, env []string, with map[string]string) (outputs map[string]string, text string, err error) {
	t.Helper()
	values := map[string]string{}
	for name, input := range a.Inputs {
		value, given := with[name]
		if !given && input.Required {
			t.Fatalf("the input %s is required", name)
		} else if !given {
			value = input.Default
		}
		values["inputs."+name] = value
	}
	for name := range with {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("no input %s", name)
		}
	}
	evaluate := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(e string) string {
			value, ok := values[expression.FindStringSubmatch(e)[1]]
			if !ok && !strings.Contains(e, "steps.") {
				t.Fatalf("%s has no value", e)
			}
			return value
		})
	}
	temp := t.TempDir()
	search := os.Getenv("PATH")
	for _, step := range a.Runs.Steps {
		if step.Shell != "bash" || expression.MatchString(step.Run) {
			t.Fatalf("the step %q has the shell %s, or inputs in its script", step.Run, step.Shell)
		}
		paths, stepOutputs := filepath.Join(temp, "path"), filepath.Join(temp, "outputs")
		write(t, paths, "")
		write(t, stepOutputs, "")
		script := filepath.Join(temp, "script.sh")
		write(t, script, step.Run)
		stepEnv := append(slices.Clone(env), "PATH="+search, "GITHUB_ACTION_PATH="+dir, "GITHUB_PATH="+paths, "GITHUB_OUTPUT="+stepOutputs, "RUNNER_TEMP="+temp,
			"RUNNER_OS=Linux", "RUNNER_ARCH="+map[string]string{"amd64": "X64", "arm64": "ARM64"}[runtime.GOARCH], "HOME="+temp)
		for name, value := range step.Env {
			stepEnv = append(stepEnv, name+"="+evaluate(value))
		}
		var printed string
		printed, err = try(t, stepEnv, "bash", "--noprofile", "--norc", "-eo", "pipefail", script)
		text += printed
		for line := range strings.Lines(read(t, paths)) {
			search = strings.TrimSpace(line) + ":" + search
		}
		for line := range strings.Lines(read(t, stepOutputs)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values["steps."+step.ID+".outputs."+name] = value
		}
		if err != nil {
			break
		}
	}
	outputs = map[string]string{}
	for name, output := range a.Outputs {
		outputs[name] = evaluate(output.Value)
	}
	return outputs, text, err
}

// testAction runs the action in an environment like that of a runner of GitHub.
func testAction(t *testing.T, dist string) {
	dir, err := filepath.Abs(filepath.Join(root, "action"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "action.yml"))), &a); err != nil {
		t.Fatal(err)
	}
	if a.Runs.Using != "composite" || len(a.Runs.Steps) != 2 {
		t.Fatalf("the action has %d steps, and is %s", len(a.Runs.Steps), a.Runs.Using)
	}
	// The address of a release ends with its tag.
	mirror := t.TempDir()
	if err := os.Symlink(dist, filepath.Join(mirror, "v"+version)); err != nil {
		t.Fatal(err)
	}
	store := "file:" + filepath.Join(t.TempDir(), "locks")
	run := func(env []string, with map[string]string) (map[string]string, string, error) {
		all := map[string]string{"version": version, "releases": "file://" + mirror, "lock": "deploy it's \"here\""}
		maps.Copy(all, with)
		return a.run(t, dir, env, all)
	}

	script := "echo \"token $HOLDFAST_TOKEN\"\necho 'it'\\''s'"
	outputs, text, err := run(nil, map[string]string{"store": store, "run": script})
	if err != nil || outputs["result"] != "ran" || !tokenLine.MatchString(text) || !strings.Contains(text, "it's\n") {
		t.Errorf("%v, %v\n%s", outputs, err, text)
	}
	// The store of the environment, further options, and a command that fails.
	outputs, text, err = run([]string{"HOLDFAST_STORE=" + store}, map[string]string{"run": "false | true; echo on", "options": "--ttl 1m --wait 10s"})
	if err == nil || err.Error() != "exit status 1" || outputs["result"] != "ran" || strings.Contains(text, "on\n") {
		t.Errorf("%v, %v\n%s", outputs, err, text)
	}
	// A cancelled job: the shell of the step, a child of this process, gets INT.
	script = fmt.Sprintf("p=$$\nwhile q=$(ps -o ppid= -p $p | tr -d ' '); [ $q != %d ]; do p=$q; done\nkill -INT $p; sleep 5; echo on", os.Getpid())
	outputs, text, err = run(nil, map[string]string{"store": store, "run": script})
	if err == nil || err.Error() != "exit status 143" || strings.Contains(text, "on\n") {
		t.Errorf("%v, %v\n%s", outputs, err, text)
	}
	// Another job has the lock.
	busy := "GITHUB_OUTPUT=/dev/null OPTIONS= IF_BUSY=%s bash " + filepath.Join(dir, "run.sh")
	for ifBusy, want := range map[string]string{"skip": "another job has the lock", "wait": "status 75"} {
		inner := strings.Replace(busy, "%s", ifBusy, 1)
		if ifBusy == "wait" {
			inner = strings.Replace(inner, "OPTIONS=", "OPTIONS='--wait 100ms'", 1)
		}
		// The inner run has an environment of its own: one job does not wait for its own lock.
		script := "RUN='echo both' env -u HOLDFAST_LOCKS " + inner + " || echo status $?"
		outputs, text, err = run(nil, map[string]string{"store": store, "run": script})
		if err != nil || outputs["result"] != "ran" || !strings.Contains(text, want) || strings.Contains(text, "both\n") {
			t.Errorf("%s: %v, %v\n%s", ifBusy, outputs, err, text)
		}
	}
	// Bad input: an option of a second line, a name like an option, no store, another word, a release that does not exist, and an archive that was altered.
	for name, with := range map[string]map[string]string{
		"unknown flag: --bad":            {"run": "echo ran", "store": store, "options": "--ttl 1m\n--bad"},
		"cannot begin with -":            {"run": "echo ran", "store": store, "lock": "--quiet"},
		"a store that all runners share": {"run": "echo ran"},
		"wait or skip":                   {"run": "echo ran", "store": store, "if-busy": "fail"},
		"curl":                           {"run": "echo ran", "store": store, "version": "9.9.9"},
	} {
		if outputs, text, err := run([]string{"HOLDFAST_STORE="}, with); err == nil || !strings.Contains(text, name) || strings.Contains(text, "ran\n") {
			t.Errorf("%s: %v, %v\n%s", name, outputs, err, text)
		}
	}
	altered := filepath.Join(mirror, "v0.0.2")
	if err := os.Mkdir(altered, 0o755); err != nil {
		t.Fatal(err)
	}
	name := strings.Replace(folder(host), version, "0.0.2", 1) + ".tar.gz"
	write(t, filepath.Join(altered, name), read(t, filepath.Join(dist, folder(host)+".tar.gz"))+"x")
	write(t, filepath.Join(altered, "SHA256SUMS"), sum(t, filepath.Join(dist, folder(host)+".tar.gz"))+"  "+name+"\n")
	if _, text, err := run(nil, map[string]string{"run": "echo ran", "store": store, "version": "0.0.2"}); err == nil || !strings.Contains(text, "FAILED") || strings.Contains(text, "ran\n") {
		t.Errorf("an altered archive: %v\n%s", err, text)
	}
}

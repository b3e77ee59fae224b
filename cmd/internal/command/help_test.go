package command

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/plainwords"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// everyCommand calls f with each command that people see.
func everyCommand(f func(cmd *cobra.Command)) {
	a := &app{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		f(cmd)
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				walk(sub)
			}
		}
	}
	walk(a.command())
}

// The help of each command has an example, and goes to stdout: it is the result.
func TestHelp(t *testing.T) {
	everyCommand(func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, "holdfast") {
			t.Errorf("%s: no example in its help", cmd.CommandPath())
		}
		var out, errs bytes.Buffer
		args := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		if status := execute(args, strings.NewReader(""), &out, &errs); status != 0 || errs.Len() > 0 {
			t.Errorf("%v: status %d, stderr %q", args, status, errs.String())
		}
		for _, part := range []string{"Usage:", "Examples:", "--help"} {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%v: no %q in\n%s", args, part, out.String())
			}
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("%v: control sequences", args)
		}
	})
}

// The shells take the completions, and bash completes with them.
func TestCompletions(t *testing.T) {
	bin := holdfastBinary(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			var out, errs bytes.Buffer
			if status := execute([]string{"completion", shell}, strings.NewReader(""), &out, &errs); status != 0 || errs.Len() > 0 || out.Len() < 1000 {
				t.Fatalf("status %d, %d bytes, stderr %q", status, out.Len(), errs.String())
			}
			check := exec.Command(suitetest.NeedProgram(t, shell), "-n", "/dev/stdin")
			check.Stdin = &out
			if said, err := check.CombinedOutput(); err != nil {
				t.Errorf("%s -n: %v\n%s", shell, err, said)
			}
		})
	}
	for line, want := range map[string]string{
		"r":            "renew\tresize\trun",
		"checkpoint r": "reset\trestore\tresume-key\trm",
		"run --on":     "--on-acquire\t--on-ask\t--on-lost\t--on-release\t--once-per",
		"ls --sta":     "--state",
		"run --sh":     "--shared",
		"run --sl":     "--slots",
		"run --fa":     "--fair",
		"run --once":   "--once-per",
		"run --retr":   "--retries",
		"lead --fa":    "--fair",
		"lead --va":    "--value",
		"lead --on":    "--on-ask",
		"leader --wa":  "--watch",
		"ask --rea":    "--reason",
		"ask --wa":     "--wait",
		"hold --com":   "--commands",
	} {
		args := append([]string{"__completeNoDesc"}, strings.Fields(line)...)
		out, err := exec.Command(bin, args...).Output()
		words, _, _ := strings.Cut(string(out), "\n:")
		if got := strings.ReplaceAll(strings.TrimSpace(words), "\n", "\t"); err != nil || got != want {
			t.Errorf("%q: completed to %q, want %q (%v)", line, got, want, err)
		}
	}
}

// The shells are offered the locks and the checkpoints that are there, and nothing in
// place of a command.
func TestCompletionsOfNames(t *testing.T) {
	bin, dir := holdfastBinary(t), t.TempDir()
	holdfast := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Env = append(os.Environ(), "HOLDFAST_STORE=file:"+dir)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return string(out)
	}
	for _, name := range []string{"nightly", "jobs/a", "jobs/b c"} {
		holdfast("run", name, "--", "true")
	}
	holdfast("checkpoint", "advance", "orders", "5")
	holdfast("checkpoint", "--file", filepath.Join(dir, "state.json"), "advance", strings.Repeat("ab", 32), "5")
	const files, noFiles = ":0", ":4"
	for _, c := range []struct {
		line []string // the last is what is begun
		want string
	}{
		{[]string{"show", ""}, "jobs/a jobs/b c nightly " + noFiles},
		{[]string{"show", "jobs/"}, "jobs/a jobs/b c " + noFiles},
		{[]string{"show", "nightly", ""}, noFiles},
		{[]string{"run", "jobs/a", "n"}, "nightly " + noFiles},
		{[]string{"run", "nightly", "--", "nightly"}, files},
		{[]string{"run", "nightly", "--", "./n"}, files},
		{[]string{"run", "nightly", "--", "ls", "n"}, files},
		{[]string{"run", "nightly", "--", "ls", ""}, files},
		{[]string{"run", "--on-lost", ""}, "kill warn " + noFiles},
		{[]string{"run", "--on-ask", ""}, "term refuse " + noFiles},
		{[]string{"run", "--once-per", ""}, "hour day week month year " + noFiles},
		{[]string{"lead", "--on-ask", ""}, "term refuse " + noFiles},
		{[]string{"lead", "n"}, "nightly " + noFiles},
		{[]string{"lead", "nightly", "--", "nightly"}, files},
		{[]string{"leader", "jobs/"}, "jobs/a jobs/b c " + noFiles},
		{[]string{"leader", "nightly", ""}, noFiles},
		{[]string{"ask", "n"}, "nightly " + noFiles},
		{[]string{"ask", "nightly", ""}, noFiles},
		{[]string{"resize", "n"}, "nightly " + noFiles},
		{[]string{"hold", "n"}, "nightly " + noFiles},
		{[]string{"ls", "--state", ""}, "held shared free broken unreadable " + noFiles},
		{[]string{"checkpoint", "get", ""}, "orders " + noFiles},
		{[]string{"checkpoint", "watch", ""}, "orders " + noFiles},
		{[]string{"checkpoint", "history", ""}, "orders " + noFiles},
		{[]string{"get", ""}, "azblob:// file: gs:// s3:// :6"},
		{[]string{"get", "file:x/y", ""}, files},
		{[]string{"put", ""}, files},
		{[]string{"put", "x", ""}, "azblob:// file: gs:// s3:// :6"},
		{[]string{"checkpoint", "--file", filepath.Join(dir, "state.json"), "get", ""}, strings.Repeat("ab", 32) + " " + noFiles},
		{[]string{"--store", "file:" + filepath.Join(dir, "none"), "show", ""}, noFiles},
		{[]string{"--store", "nothing:there", "show", ""}, noFiles},
		{[]string{"--store", ""}, "azblob:// dynamodb:// etcd:// file: gs:// k8s:// mysql:// nats:// postgres:// redis:// rediss:// s3+versioned:// s3:// sqlite: :6"},
	} {
		got := holdfast(append([]string{"__completeNoDesc"}, c.line...)...)
		if got = strings.ReplaceAll(strings.TrimSpace(got), "\n", " "); got != c.want {
			t.Errorf("%q: offered %q, want %q", c.line, got, c.want)
		}
	}
}

// Other words for a command, and a command of a group without the group, lead to it.
func TestSuggestions(t *testing.T) {
	for line, want := range map[string]string{
		"cp a b": `"object"`, "list": `"ls"`, "release x": `"unlock"`, "log x": `"commit-log" or "lock" or "ls"`, "rnu x": `"run"`, "items x": `"item"`, "unlok x": `"unlock"`, "ruun x": `"run"`,
		"object delete x": `"rm"`, "item list": `"ls"`, "checkpoint delete x": `"rm"`, "checkpoint re": `"reset" or "restore" or "resume-key" or "rm"`,
	} {
		said, status := executed(strings.Fields(line))
		if status != exit.Usage || !strings.HasSuffix(said, "Did you mean "+want+"?\n") {
			t.Errorf("%s: status %d, %s", line, status, said)
		}
	}
}

// bash takes the completion script, and offers files after --.
func TestBashCompletesFiles(t *testing.T) {
	bash := suitetest.NeedProgram(t, "bash")
	var script bytes.Buffer
	if status := execute([]string{"completion", "bash"}, strings.NewReader(""), &script, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	dir := t.TempDir()
	if err := os.Symlink(holdfastBinary(t), filepath.Join(dir, "holdfast")); err != nil {
		t.Fatal(err)
	}
	// What the package bash-completion has, in small.
	script.WriteString(`
_get_comp_words_by_ref() { cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD; }
compopt() { :; }
COMP_WORDS=(holdfast run --on-lost "") COMP_CWORD=3 COMP_LINE="holdfast run --on-lost " COMP_POINT=23 COMP_TYPE=9
__start_holdfast
echo "${COMPREPLY[@]}"
COMP_WORDS=(holdfast run job -- holdf) COMP_CWORD=4 COMP_LINE="holdfast run job -- holdf" COMP_POINT=25 COMP_TYPE=9
__start_holdfast
echo "after: ${COMPREPLY[@]}"
complete -p holdfast
`)
	cmd := exec.Command(bash, "--norc")
	cmd.Dir, cmd.Stdin = dir, &script
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	// With -o default, bash offers files where it gets nothing else.
	if err != nil || !strings.HasPrefix(string(out), "kill warn\nafter: \n") || !strings.Contains(string(out), "-o default") {
		t.Errorf("got %s, %v", out, err)
	}
}

// prose returns what the help says of a command: its text, and those of its flags; or a topic.
func prose(cmd *cobra.Command) string {
	text := cmd.Short + "\n\n" + cmd.Long
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { text += "\n\n" + f.Usage })
	return text
}

// everyText calls f with each command and each topic.
func everyText(f func(cmd *cobra.Command)) {
	everyCommand(f)
	for _, cmd := range (&app{}).command().Commands() {
		if cmd.IsAdditionalHelpTopicCommand() {
			f(cmd)
		}
	}
}

// A reader of the help sees at once what a command does: the rest is in topics.
func TestHelpIsShort(t *testing.T) {
	var out, errs bytes.Buffer
	if execute([]string{"--help"}, strings.NewReader(""), &out, &errs); strings.Count(out.String(), "\n") > 20 {
		t.Errorf("the help of holdfast has more than 20 lines:\n%s", &out)
	}
	everyCommand(func(cmd *cobra.Command) {
		if n := strings.Count(cmd.Long, "\n") + 1; n > 12 {
			t.Errorf("%s: %d lines of prose, at most 12 are allowed", cmd.CommandPath(), n)
		}
	})
	everyText(func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Long) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("%s: a line of %d letters: %s", cmd.CommandPath(), n, line)
			}
		}
	})
}

// The help uses short sentences and usual words, as the documents do.
func TestHelpWords(t *testing.T) {
	texts := 0
	everyText(func(cmd *cobra.Command) {
		sentences := plainwords.Help(prose(cmd))
		texts += len(sentences)
		for _, problem := range plainwords.Problems(sentences) {
			t.Errorf("%s: %s", cmd.CommandPath(), problem)
		}
	})
	if texts < 500 {
		t.Errorf("only %d sentences were found", texts)
	}
	// The control.
	words := func(n int) string { return strings.Repeat("word ", n) }
	for text, problems := range map[string]int{
		words(31):                    1,
		words(20) + "\n" + words(20): 1,
		words(20) + ".\n" + strings.ToUpper(words(20)):         0,
		words(20) + "\n\n" + words(20):                         0,
		"  --flag  " + words(20) + "\n  --other  " + words(20): 0,
		"  --flag  " + words(20) + "\n          " + words(20):  1,
		words(20) + ":\n\n  " + words(20):                      0,
		"The holder is told.":                                  1,
		"What becomes of\nit":                                  1,
	} {
		if got := plainwords.Problems(plainwords.Help(text)); len(got) != problems {
			t.Errorf("%q: got %q, want %d problems", text, got, problems)
		}
	}
}

// The names in the groups of flags are those of flags: a renamed flag keeps its group.
func TestFlagGroups(t *testing.T) {
	flags := map[string]bool{}
	everyCommand(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	})
	for _, g := range append(slices.Clone(runGroups), advanced) {
		for name := range strings.FieldsSeq(g.flags) {
			if !flags[name] {
				t.Errorf("%s has --%s, which no command has", g.title, name)
			}
		}
	}
	var out, errs bytes.Buffer
	execute([]string{"run", "--help"}, strings.NewReader(""), &out, &errs)
	if usual, rare, ok := strings.Cut(out.String(), "\nAdvanced:\n"); !ok || !strings.Contains(usual, "--wait duration") || !strings.Contains(rare, "--margin") || strings.Contains(usual, "--margin") {
		t.Errorf("the rare flags of run are not at the end of its help:\n%s", &out)
	}
}

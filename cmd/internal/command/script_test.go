package command

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/cmd/internal/allstores"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/webpage"
)

// programDir is a directory with the programs holdfast and holdfast-stores; see buildProgram.
var programDir string

// programs are what this test binary is under other names. As holdfast it has all stores: it is the companion
// of the small program, which hands its own name over.
var programs = map[string]func(){
	"holdfast": holdfast,
	"worker":   worker,
}

func TestMain(m *testing.M) {
	ownVariables = append(ownVariables, "HOLDFAST_TORTURE") // of the tests
	// Under nohup the hang-up signal is ignored, and programs that the tests start
	// would inherit that. A signal that is handled here has its default effect there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// The race detector lets each process sleep for a second before it ends, and the
	// tests start some 400 of them.
	if os.Getenv(raceOptions) == "" {
		os.Setenv(raceOptions, "atexit_sleep_ms=0")
	}
	testscript.Main(apart{m}, programs)
}

// apart runs the tests apart from the state of the user who runs them: from the locks in
// the default store, and from what the command remembers.
type apart struct{ *testing.M }

// Run runs the tests, and then checks that the user's own state is as it was. On a machine
// of CI nothing else uses that state; elsewhere the user may have run holdfast meanwhile.
func (a apart) Run() int {
	own, err := stores.DefaultDir()
	if err != nil {
		own = "" // a user without a home has no state
	}
	before := filesBelow(own)
	dir, err := os.MkdirTemp("", "holdfast-state-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	stores.RootState = filepath.Join(dir, "holdfast")
	os.Setenv("XDG_STATE_HOME", dir)
	if err := buildProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The tests wait for programs that they start, so more tests run at once than there are processors.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := a.M.Run()
	for path, at := range filesBelow(own) {
		if was, ok := before[path]; !ok || !was.Equal(at) {
			fmt.Fprintf(os.Stderr, "%s was written while the tests ran: have they left their own directory?\n", path)
			if os.Getenv("CI") != "" {
				status = 1
			}
		}
	}
	return status
}

// buildProgram puts the program holdfast, which opens directories only, in the place of the copy that testscript has
// made of this test binary. It starts ten times as fast. The copy becomes its companion.
func buildProgram() error {
	programDir = filepath.SplitList(os.Getenv("PATH"))[0]
	program := filepath.Join(programDir, "holdfast")
	if err := os.Rename(program, filepath.Join(programDir, companion)); err != nil {
		return err
	}
	args := []string{"build", "-buildvcs=false", "-o", program}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "./testdata/holdfast")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// filesBelow returns the files below a directory, with the times of their last writes.
func filesBelow(dir string) map[string]time.Time {
	all := make(map[string]time.Time)
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			all[path] = info.ModTime()
		}
		return nil
	})
	return all
}

// ownState gives a test that calls the command's functions a home and a state of its own,
// and returns the directory of the state.
func ownState(t *testing.T, dir string) string {
	t.Helper()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_STATE_HOME", dir)
	was := stores.RootState
	t.Cleanup(func() { stores.RootState = was })
	stores.RootState = filepath.Join(dir, "holdfast")
	return stores.RootState
}

// holdfast is the command, with root's state next to the program: each test that has a
// program of its own has a state of its own.
func holdfast() {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	stores.RootState = filepath.Join(filepath.Dir(self), "root-state")
	Main(allstores.Drivers(), webpage.Servers())
}

// execute runs a command line in this process, with the drivers of all stores.
func execute(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return runProgram(allstores.Drivers(), webpage.Servers(), args, stdin, stdout, stderr)
}

// raceOptions is the variable with the options of the race detector.
const raceOptions = "GORACE"

// The scripts in testdata/script are the tests of the command, in the words of those who use it. Those
// in which programs compete for a lock, or in which the command does several things at a time, are
// concurrent: they also run with the race detector, with which a program starts three times slower.
var concurrentScripts = []string{"ask", "busy", "fight", "handle", "hooks", "lead", "lost", "run", "sharing", "signals"}

func TestConcurrentScript(t *testing.T) {
	t.Parallel()
	runScripts(t, func(name string) bool { return slices.Contains(concurrentScripts, name) })
}

func TestScript(t *testing.T) {
	t.Parallel()
	runScripts(t, func(name string) bool { return !slices.Contains(concurrentScripts, name) })
}

// runScripts runs the scripts with these names.
func runScripts(t *testing.T, with func(name string) bool) {
	repository, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(path string) bool {
		return !with(strings.TrimSuffix(filepath.Base(path), ".txtar"))
	})
	if len(files) < len(concurrentScripts) {
		t.Fatalf("only the scripts %q", files)
	}
	testscript.Run(t, testscript.Params{
		Files:               files,
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOLDFAST_STORE", "file:"+filepath.Join(env.WorkDir, "store"))
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("EXAMPLES", filepath.Join(repository, "examples"))
			env.Setenv("CLIENTS", filepath.Join(repository, "clients"))
			env.Setenv(raceOptions, os.Getenv(raceOptions))
			return nil
		},
		// On a machine of CI nothing may be missing.
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "ci":
				return os.Getenv("CI") != "", nil
			case "root":
				return os.Geteuid() == 0, nil
			case "full": // a file on a disk that is full
				_, err := os.Stat("/dev/full")
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":   cmdStatus,
			"waitfor":  cmdWaitFor,
			"aged":     cmdAged,
			"s3":       cmdS3,
			"dynamodb": cmdDynamoDB,
		},
	})
}

// cmdStatus runs a command and compares its exit status: status 75 holdfast ...
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// cmdWaitFor waits until a file is there: waitfor FILE. With ! until it no longer exists.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	for limit := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(ts.MkAbs(args[0]))
		if (err == nil) != neg {
			return
		}
		if time.Now().After(limit) {
			ts.Fatalf("%s: waited for a minute", args[0])
		}
	}
}

// holdfastBinary puts the command and its companion in a new directory, and returns the path of the command.
func holdfastBinary(t *testing.T) string {
	t.Helper()
	return programIn(t, t.TempDir())
}

// programIn puts the command and its companion in a directory, and returns the path of the command.
func programIn(t *testing.T, dir string) string {
	t.Helper()
	for _, name := range []string{"holdfast", companion} {
		from, to := filepath.Join(programDir, name), filepath.Join(dir, name)
		// Through a symbolic link a program would start again under its target's name.
		if os.Link(from, to) == nil {
			continue
		}
		program, err := os.ReadFile(from) // the directory is on another file system
		if err == nil {
			err = os.WriteFile(to, program, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "holdfast")
}

// environ is the environment of a program whose store and home lie in dir.
func environ(dir string, more ...string) []string {
	return append(append(os.Environ(), "HOLDFAST_STORE=file:"+filepath.Join(dir, "store"), "HOME="+dir), more...)
}

// worker is a guarded program: worker FILE adds one to the counter in FILE, which
// only a lock protects.
func worker() {
	path := os.Args[1]
	var n int
	if b, err := os.ReadFile(path); err == nil {
		fmt.Sscan(string(b), &n)
	}
	time.Sleep(10 * time.Millisecond)
	if err := os.WriteFile(path, []byte(fmt.Sprint(n+1)), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

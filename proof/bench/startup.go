package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// program is a command whose whole life is timed.
type program struct {
	name string
	argv []string
	took samples
}

// startup compares "holdfast run x -- true" in a directory with flock(1), and with what no
// such command can do without: the programs are started in turns, so that all of them meet
// the same machine.
func startup(w io.Writer, parent string, r *run) error {
	dir, err := os.MkdirTemp(parent, "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	flock, err := exec.LookPath("flock")
	if err != nil {
		return err
	}
	command, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	holdfast, released, all, ended, empty, runner, writer, err := buildPrograms(dir, command)
	if err != nil {
		return err
	}
	programs := []*program{
		{name: "`flock FILE true`", argv: []string{flock, filepath.Join(dir, "lock"), command}},
		{name: "`holdfast run x -- true`", argv: []string{holdfast, "run", "x", "--", command}},
		{name: "`holdfast run x -- true`, without cgo, as in a release", argv: []string{released, "run", "x", "--", command}},
		{name: "`holdfast-stores run x -- true`, with all libraries", argv: []string{all, "run", "x", "--", command}},
		{name: "holdfast, ended where `main` begins", argv: []string{ended}},
		{name: "a Go program that runs `true`", argv: []string{runner}},
		{name: "the same, with a durable append before and after", argv: []string{writer, filepath.Join(dir, "appends")}},
		{name: "an empty Go program", argv: []string{empty}},
		{name: "`true`", argv: []string{command}},
	}
	env := append(os.Environ(), "HOLDFAST_STORE=file:"+filepath.Join(dir, "store"), "XDG_STATE_HOME="+dir)
	for begin, round := time.Now(), 0; round < 20 || time.Since(begin) < 8*r.each; round++ {
		for _, p := range programs {
			cmd := exec.Command(p.argv[0], p.argv[1:]...)
			cmd.Env = env
			took, err := timed(cmd.Run)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round > 0 { // the first makes the store
				p.took = append(p.took, took)
			}
		}
	}
	fmt.Fprintf(w, "### Start-up, %d runs of each in turns (%s)\n\n", len(programs[0].took), fileSystem(dir))
	t := table{head: []string{"program", "the fastest tenth", "median", "ratio to flock(1)"}}
	for _, p := range programs {
		t.row(p.name, short(p.took.at(0.1)), short(p.took.median()), ratio(p.took.median(), programs[0].took.median()))
	}
	t.print(w)
	return nil
}

// buildPrograms builds both programs of the command as a user does; holdfast as a release does;
// holdfast with a main that ends at once, which shows what its packages cost before they do
// anything; and three programs of the standard library alone.
func buildPrograms(dir, command string) (holdfast, released, all, ended, empty, runner, writer string, err error) {
	const module = "../.." // bench runs in its own directory
	build := func(name, pkg string, flags ...string) (string, error) {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
		cmd.Dir, cmd.Stderr = module, os.Stderr
		cmd.Env = append(os.Environ(), "GOWORK=")
		if name == "released" {
			cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
		}
		return path, cmd.Run()
	}
	source := func(name, text string) (string, error) {
		path := filepath.Join(dir, name)
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	if holdfast, err = build("holdfast", "./cmd/holdfast"); err != nil {
		return
	}
	if released, err = build("released", "./cmd/holdfast"); err != nil {
		return
	}
	if all, err = build("holdfast-stores", "./cmd/holdfast-stores"); err != nil {
		return
	}
	replaced, err := filepath.Abs(filepath.Join(module, "cmd", "holdfast", "main.go"))
	if err != nil {
		return
	}
	main, err := os.ReadFile(replaced)
	if err != nil {
		return
	}
	begins := "func main() {\n"
	ends, err := source("ends.go", strings.Replace(strings.Replace(string(main), begins, begins+"\tif len(os.Args) < 2 {\n\t\treturn\n\t}\n", 1), "import (\n", "import (\n\t\"os\"\n\n", 1))
	if err != nil {
		return
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{replaced: ends}})
	if err != nil {
		return
	}
	overlay, err := source("overlay.json", string(text))
	if err != nil {
		return
	}
	if ended, err = build("ended", "./cmd/holdfast", "-overlay", overlay); err != nil {
		return
	}
	nothing, err := source("empty.go", "package main\n\nfunc main() {}\n")
	if err != nil {
		return
	}
	if empty, err = build("empty", nothing); err != nil {
		return
	}
	runs, err := source("runner.go", fmt.Sprintf("package main\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n)\n\nfunc main() {\n\tif exec.Command(%q).Run() != nil {\n\t\tos.Exit(1)\n\t}\n}\n", command))
	if err != nil {
		return
	}
	if runner, err = build("runner", runs); err != nil {
		return
	}
	writes, err := source("writer.go", fmt.Sprintf(durableRunner, command))
	if err != nil {
		return
	}
	writer, err = build("writer", writes)
	return
}

// durableRunner is a program that runs a command between two durable appends to a file: no holder of a durable
// lock can do less.
const durableRunner = `package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
)

func main() {
	f, err := os.OpenFile(os.Args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	for _, run := range []func() error{func() error { return nil }, exec.Command(%q).Run} {
		if err == nil {
			err = run()
		}
		if err == nil {
			_, err = f.WriteString(strings.Repeat("x", 400))
		}
		if err == nil {
			err = syscall.Fdatasync(int(f.Fd()))
		}
	}
	if err != nil {
		panic(err)
	}
}
`

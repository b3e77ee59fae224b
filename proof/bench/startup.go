package main

import (
	"context"
	"encoding/json"
	"errors"
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
func startup(_ context.Context, w io.Writer, r *run) error {
	dir, err := os.MkdirTemp(r.dir, "holdfast-bench-")
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
	b := builder{dir: dir}
	programs := []*program{
		{name: "`flock FILE true`", argv: []string{flock, filepath.Join(dir, "lock"), command}},
		{name: "`holdfast run x -- true`", argv: []string{b.build("holdfast", "./cmd/holdfast"), "run", "x", "--", command}},
		{name: "`holdfast run x -- true`, without cgo, as in a release", argv: []string{b.build("released", "./cmd/holdfast"), "run", "x", "--", command}},
		{name: "`holdfast-stores run x -- true`, with all libraries", argv: []string{b.build("holdfast-stores", "./cmd/holdfast-stores"), "run", "x", "--", command}},
		{name: "holdfast, ended where `main` begins", argv: []string{b.buildEnded()}},
		{name: "a Go program that runs `true`", argv: []string{b.buildText("runner", fmt.Sprintf(runner, command))}},
		{name: "the same, with a durable append before and after", argv: []string{b.buildText("writer", fmt.Sprintf(durableRunner, command)), filepath.Join(dir, "appends")}},
		{name: "an empty Go program", argv: []string{b.buildText("empty", "package main\n\nfunc main() {}\n")}},
		{name: "`true`", argv: []string{command}},
	}
	if b.err != nil {
		return b.err
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

const module = "../.." // bench runs in its own directory

// builder builds programs in a directory, until an error.
type builder struct {
	dir string
	err error
}

// build builds a package as a user does, or released as a release does.
func (b *builder) build(name, pkg string, flags ...string) string {
	path := filepath.Join(b.dir, name)
	cmd := exec.Command("go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	cmd.Env = append(os.Environ(), "GOWORK=")
	if name == "released" {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	if b.err == nil {
		b.err = cmd.Run()
	}
	return path
}

// write writes a file and returns its path.
func (b *builder) write(name, text string) string {
	path := filepath.Join(b.dir, name)
	b.err = errors.Join(b.err, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// buildText builds a program of the standard library alone.
func (b *builder) buildText(name, text string) string {
	return b.build(name, b.write(name+".go", text))
}

// buildEnded builds holdfast with a main that ends at once, which shows what its packages cost before they do
// anything.
func (b *builder) buildEnded() string {
	replaced, err := filepath.Abs(filepath.Join(module, "cmd", "holdfast", "main.go"))
	main, errMain := os.ReadFile(replaced)
	begins := "func main() {\n"
	ends := b.write("ends.go", strings.Replace(strings.Replace(string(main), begins, begins+"\tif len(os.Args) < 2 {\n\t\treturn\n\t}\n", 1), "import (\n", "import (\n\t\"os\"\n\n", 1))
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{replaced: ends}})
	b.err = errors.Join(b.err, err, errMain)
	return b.build("ended", "./cmd/holdfast", "-overlay", b.write("overlay.json", string(overlay)))
}

// runner is a program that runs a command.
const runner = `package main

import (
	"os"
	"os/exec"
)

func main() {
	if exec.Command(%q).Run() != nil {
		os.Exit(1)
	}
}
`

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

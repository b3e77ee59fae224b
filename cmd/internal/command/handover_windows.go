package command

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
)

// become runs another program in place of this one, and returns its exit status as an error. The console
// sends Ctrl-C to both programs: the other program decides what to do.
func become(path string, argv, env []string) error {
	cmd := &exec.Cmd{Path: path, Args: argv, Env: env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	return exit.With(cmd.ProcessState.ExitCode(), nil)
}

//go:build !linux

package filestore_test

import (
	"os"
	"os/exec"
)

// systemWorkers are the workers of tests that only this system has.
var systemWorkers map[string]func(args []string) error

// childCommand returns a command that runs a worker.
func childCommand(name string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), workerEnv+"="+name)
	return cmd, nil
}

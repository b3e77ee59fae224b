package filestore_test

import (
	"os"
	"os/exec"
	"syscall"
)

// torture reports whether the long runs are asked for.
var torture = os.Getenv("HOLDFAST_TORTURE") != ""

// systemWorkers are the workers of tests that only this system has.
var systemWorkers = map[string]func(args []string) error{
	"fight":     fight,
	"foreign":   foreign,
	"sweep":     sweepForEver,
	"sweepOnce": sweepOnce,
	"lockFloor": lockFloor,
	"neighbour": neighbour,
	"exchange":  exchange,
	"expect":    expect,
	"hostile":   hostile,
	"ops":       operate,
	"short":     short,
	"sync":      syncTogether,
	"syncs":     syncMany,
	"wait":      waitForChange,
	"watch":     watchOnce,
}

// childCommand returns a command that runs a worker, as another user if it is hostile.
func childCommand(name string) (*exec.Cmd, error) {
	cmd := exec.Command("/proc/self/exe") // in a directory that another user cannot enter
	cmd.Env = append(os.Environ(), workerEnv+"="+name)
	if name == "hostile" {
		cmd.Stderr = os.Stderr
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		}
	}
	return cmd, nil
}

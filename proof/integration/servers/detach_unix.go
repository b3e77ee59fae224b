//go:build unix

package servers

import (
	"os/exec"
	"syscall"
)

// detach puts a server into a process group of its own, so that a Ctrl-C on the
// terminal reaches the tests alone and they end it in order.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

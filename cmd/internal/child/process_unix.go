//go:build unix

package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Detach gives a process a session of its own, so that it outlives the terminal.
func Detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// StartOf returns when a process was started, and whether it is alive. The start time has
// the system's own form; it is empty where the system does not tell it. A zombie is not
// alive.
func StartOf(pid int) (start string, alive bool) {
	if err := unix.Kill(pid, 0); errors.Is(err, unix.ESRCH) {
		return "", false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", true
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 20 {
		return "", true
	}
	return string(fields[19]), fields[0][0] != 'Z' && fields[0][0] != 'X'
}

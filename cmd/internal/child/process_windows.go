package child

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// Detach gives a process no console, so that it outlives the console of its parent.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// StartOf returns when a process was started, and whether it is alive.
func StartOf(pid int) (start string, alive bool) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION|windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		return "", false
	}
	defer windows.CloseHandle(h)
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(h, &created, &exited, &kernel, &user) == nil {
		start = fmt.Sprint(created.Nanoseconds())
	}
	event, err := windows.WaitForSingleObject(h, 0)
	return start, err == nil && event == uint32(windows.WAIT_TIMEOUT)
}

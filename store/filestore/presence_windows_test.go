package filestore_test

import (
	"os"
	"os/exec"
	"syscall"
)

// inherit lets a command inherit a file.
func inherit(cmd *exec.Cmd, f *os.File) error {
	h := syscall.Handle(f.Fd())
	cmd.SysProcAttr = &syscall.SysProcAttr{AdditionalInheritedHandles: []syscall.Handle{h}}
	return syscall.SetHandleInformation(h, syscall.HANDLE_FLAG_INHERIT, syscall.HANDLE_FLAG_INHERIT)
}

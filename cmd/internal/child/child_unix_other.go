//go:build unix && !linux

package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent does nothing: this system has no such means.
func dieWithParent(*syscall.SysProcAttr) {}

func stopThread(sig syscall.Signal) { _ = unix.Kill(unix.Getpid(), sig) }

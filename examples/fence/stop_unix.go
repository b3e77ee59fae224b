//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// stopMyself stops this process until another process resumes it.
func stopMyself() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

// startAndWaitUntilStopped starts a process that stops itself.
func startAndWaitUntilStopped(cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return fmt.Errorf("the worker was not stopped: it ended with status %d", status.ExitStatus())
		}
	}
}

// resume continues a stopped process, and waits until it ends.
func resume(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	return cmd.Wait()
}

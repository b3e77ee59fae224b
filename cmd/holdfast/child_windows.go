package main

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// waitStatus is how the child ended.
type waitStatus struct{ code int }

func (waitStatus) Stopped() bool { return false }

// child is the command of run, in a job object that ends with this process.
type child struct {
	cmd    *exec.Cmd
	job    windows.Handle
	events chan waitStatus
}

func startChild(cmd *exec.Cmd) (*child, error) {
	job, err := killOnCloseJob()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	c := &child{cmd: cmd, job: job, events: make(chan waitStatus, 1)}
	if handle, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid)); err == nil {
		_ = windows.AssignProcessToJobObject(job, handle)
		_ = windows.CloseHandle(handle)
	}
	go func() {
		defer close(c.events)
		_ = cmd.Wait() // ProcessState has the status
		c.events <- waitStatus{cmd.ProcessState.ExitCode()}
	}()
	return c, nil
}

// killOnCloseJob makes a job object. The system ends the processes of a job when its last
// handle is closed, which happens at the latest when this process ends.
func killOnCloseJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	return job, err
}

func forwardable() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func terminating(os.Signal) bool { return true }

func signalNumber(os.Signal) int { return 2 }

func signalName(sig os.Signal) string { return sig.String() }

func (c *child) forward(os.Signal) error {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(c.cmd.Process.Pid))
	return nil
}

func ignorePipe() {}

func surviveClosedPipe() func() { return func() {} }

func (c *child) stopped(func() bool) {}

func suspend() {}

func suspends(os.Signal) bool { return false }

func continues(os.Signal) bool { return false }

func (c *child) kill(grace time.Duration) {
	_ = c.forward(os.Interrupt)
	time.Sleep(grace)
	_ = windows.TerminateJobObject(c.job, 1)
}

// left is empty: the end of a job ends all of its processes, whichever users they belong
// to.
func (c *child) left(bool) string { return "" }

func (c *child) close() {
	if c.job != 0 {
		_ = windows.CloseHandle(c.job)
		c.job = 0
	}
}

func inheritable(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func exitStatus(ws waitStatus) int { return ws.code }

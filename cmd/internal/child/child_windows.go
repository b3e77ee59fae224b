package child

import (
	"io"
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

// Process is the command of run, in a job object that ends with this process.
type Process struct {
	cmd    *exec.Cmd
	job    windows.Handle
	Events chan waitStatus
}

func Start(cmd *exec.Cmd, _ io.Reader) (*Process, error) {
	job, err := killOnCloseJob()
	if err != nil {
		return nil, err
	}
	attributesOf(cmd).CreationFlags = syscall.CREATE_NEW_PROCESS_GROUP
	if err := cmd.Start(); err != nil {
		_ = windows.CloseHandle(job)
		return nil, err
	}
	c := &Process{cmd: cmd, job: job, Events: make(chan waitStatus, 1)}
	if handle, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(cmd.Process.Pid)); err == nil {
		_ = windows.AssignProcessToJobObject(job, handle)
		_ = windows.CloseHandle(handle)
	}
	go func() {
		defer close(c.Events)
		_ = cmd.Wait() // ProcessState has the status
		c.Events <- waitStatus{cmd.ProcessState.ExitCode()}
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

func Forwardable() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

func Terminating(os.Signal) bool { return true }

func MayGoOn(os.Signal) bool { return false }

func SignalNumber(os.Signal) int { return 2 }

func SignalName(sig os.Signal) string { return sig.String() }

func (c *Process) Forward(os.Signal) error {
	_ = windows.GenerateConsoleCtrlEvent(windows.CTRL_BREAK_EVENT, uint32(c.cmd.Process.Pid))
	return nil
}

func IgnorePipe() {}

func SurviveClosedPipe() {}

func (c *Process) Stopped(func() bool) {}

func Suspend() {}

func Suspends(os.Signal) bool { return false }

func Continues(os.Signal) bool { return false }

func (c *Process) Kill(grace time.Duration) {
	_ = c.Forward(os.Interrupt)
	time.Sleep(grace)
	_ = windows.TerminateJobObject(c.job, 1)
}

// Left is empty: the end of a job ends all of its processes, whichever users they belong
// to.
func (c *Process) Left(bool) string { return "" }

func (c *Process) Close() {
	if c.job != 0 {
		_ = windows.CloseHandle(c.job)
		c.job = 0
	}
}

// Inheritable returns a duplicate of f that the command inherits, and the processes that the
// command starts, if it passes on its handles.
func Inheritable(cmd *exec.Cmd, f *os.File) (*os.File, error) {
	var h syscall.Handle
	self, _ := syscall.GetCurrentProcess() // a constant
	if err := syscall.DuplicateHandle(self, syscall.Handle(f.Fd()), self, &h, 0, true, syscall.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, os.NewSyscallError("DuplicateHandle", err)
	}
	attr := attributesOf(cmd)
	attr.AdditionalInheritedHandles = append(attr.AdditionalInheritedHandles, h)
	return os.NewFile(uintptr(h), f.Name()), nil
}

func attributesOf(cmd *exec.Cmd) *syscall.SysProcAttr {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	return cmd.SysProcAttr
}

func ExitStatus(ws waitStatus) int { return ws.code }

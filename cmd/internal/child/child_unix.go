//go:build unix

package child

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Process is the command of run and the process group that it leads.
type Process struct {
	pid    int
	Events chan unix.WaitStatus // changes of the child's state; the last one is its end

	// tty is the terminal that the child reads from, -1 if none.
	tty   int
	modes *term.State // the terminal's modes before the child had the terminal
}

// Start starts cmd in a process group of its own. If stdin, that of this process, is a terminal whose
// foreground this process has, the group is given the foreground.
//
// Where the system kills a child together with its parent, the parent is the thread that
// started the child. So the caller must lock its goroutine to its thread, and keep it
// there.
func Start(cmd *exec.Cmd, stdin io.Reader) (*Process, error) {
	c := &Process{Events: make(chan unix.WaitStatus, 8), tty: -1}
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	if f, ok := stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fd := int(f.Fd())
		c.tty = fd
		c.modes, _ = term.GetState(fd)
		if owner, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err == nil && owner == unix.Getpgrp() {
			attr.Foreground, attr.Ctty = true, fd
		}
	}
	cmd.SysProcAttr = attr
	if c.tty >= 0 && ignoresTTOU.Load() {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU) // the child must not inherit that an earlier Start ignores it
	}
	err := own.start(func() (pid int, err error) {
		c.pid, err = startProcess(cmd)
		return c.pid, err
	})
	if c.tty >= 0 {
		// Taking the terminal back from the background must not stop this process, and a later write to it must not wait
		// for the foreground. Ignore the signal only now, since the child would inherit that.
		signal.Ignore(syscall.SIGTTOU)
		ignoresTTOU.Store(true)
	}
	if err != nil {
		if attr.Foreground {
			// The child had the terminal for a moment before it failed.
			_ = unix.IoctlSetPointerInt(c.tty, unix.TIOCSPGRP, unix.Getpgrp())
		}
		return nil, err
	}
	go c.reap()
	return c, nil
}

// ignoresTTOU says that this process ignores SIGTTOU since a Start.
var ignoresTTOU atomic.Bool

// startProcess starts cmd and returns its process id. The caller reaps the process.
//
// [exec.Cmd.Start] would first find out, with a process of its own, whether the system has
// descriptors for processes. run needs none: it reaps the child itself.
func startProcess(cmd *exec.Cmd) (int, error) {
	var files []uintptr
	for _, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, ok := stream.(*os.File)
		if !ok {
			return 0, fmt.Errorf("start %s: stdin, stdout and stderr must be files, not %T", cmd.Path, stream)
		}
		files = append(files, f.Fd())
	}
	var pid int
	err := WithOthers(func() (err error) {
		pid, _, err = syscall.StartProcess(cmd.Path, cmd.Args, &syscall.ProcAttr{Dir: cmd.Dir, Env: cmd.Environ(), Files: files, Sys: cmd.SysProcAttr})
		return err
	})
	if err != nil {
		return 0, &os.PathError{Op: "fork/exec", Path: cmd.Path, Err: err}
	}
	return pid, nil
}

// Forwardable returns the signals that run passes on to the child: all that can be caught,
// except two kinds. One reports faults of this process or changes of its own children. The
// other was ignored when this process started, as under nohup.
func Forwardable() []os.Signal {
	var out []os.Signal
	for n := syscall.Signal(1); n < 32; n++ {
		switch n {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGTTOU, syscall.SIGTTIN,
			syscall.SIGPIPE, syscall.SIGPROF, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGFPE, syscall.SIGSEGV,
			syscall.SIGBUS, syscall.SIGSYS, syscall.SIGABRT:
			continue
		}
		if !signal.Ignored(n) {
			out = append(out, n)
		}
	}
	return out
}

// reap reports each change of the child's state, until the child ends.
func (c *Process) reap() {
	defer close(c.Events)
	defer own.ended(c.pid)
	for {
		var ws unix.WaitStatus
		switch _, err := unix.Wait4(c.pid, &ws, unix.WUNTRACED, nil); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return
		}
		c.Events <- ws
		if ws.Exited() || ws.Signaled() {
			return
		}
	}
}

// own are the children that Start has started, each of which has a goroutine that reaps it. As the first process of a
// container, this process also gets orphans as children, and must reap them: an orphan that no process reaps would
// count as a living process of its group. Other packages start children, too, in the group of this process, and reap
// them themselves.
var own children

type children struct {
	once sync.Once
	mu   sync.Mutex
	pids map[int]bool
	// groups are the groups of the children that have ended. Where /proc does not show the orphans, only those of these
	// groups are reaped, and others stay zombies.
	groups map[int]bool
}

// start starts a child. No orphan is reaped meanwhile: the child could be taken for one.
func (c *children) start(start func() (pid int, err error)) error {
	if os.Getpid() != 1 {
		_, err := start()
		return err
	}
	c.once.Do(func() {
		c.pids, c.groups = make(map[int]bool), make(map[int]bool)
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGCHLD)
		go func() {
			for range ended {
				c.reapOrphans()
			}
		}()
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := start()
	if err == nil {
		c.pids[pid] = true
		delete(c.groups, pid)
	}
	return err
}

func (c *children) ended(pid int) {
	if os.Getpid() != 1 {
		return
	}
	c.mu.Lock()
	delete(c.pids, pid)
	c.groups[pid] = true
	c.mu.Unlock()
	c.reapOrphans()
}

func (c *children) reapOrphans() {
	entries, err := processes()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		for group := range c.groups {
			for pid := 1; pid > 0; {
				pid, _ = unix.Wait4(-group, nil, unix.WNOHANG, nil)
			}
		}
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || c.pids[pid] {
			continue
		}
		state, parent, group, ok := processOf(pid)
		if ok && state == 'Z' && parent == os.Getpid() && group != unix.Getpgrp() {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// processes returns the entries of /proc. An error says that there is none, or that it is that of another PID namespace:
// its processes have the numbers of others.
func processes() ([]os.DirEntry, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.ErrUnsupported
	}
	return os.ReadDir("/proc")
}

// signal sends sig to the whole group. It fails with EPERM if this process may signal no
// process of the group, because all of them now run as another user.
func (c *Process) signal(sig syscall.Signal) error { return unix.Kill(-c.pid, sig) }

// Forward passes on to the child a signal that this process received. An error says that
// the system refused it.
func (c *Process) Forward(sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return nil
	}
	err := c.signal(s)
	if s == syscall.SIGTERM || s == syscall.SIGHUP || s == syscall.SIGINT {
		_ = c.signal(syscall.SIGCONT) // a stopped child could not act on the signal
	}
	if errors.Is(err, unix.EPERM) {
		return err
	}
	return nil // or no process is left
}

// Stopped is called when the terminal has stopped the child. This process then stops as
// well, so that the shell gets its turn. When the shell continues this process, stopped
// first calls still: if that reports true, the child is continued.
func (c *Process) Stopped(still func() bool) {
	if c.tty < 0 {
		return // stopped by a signal: its sender will continue the child
	}
	// Stop the whole group: none of its processes may run while the lease is not renewed.
	_ = c.signal(syscall.SIGSTOP)
	c.takeTerminal()
	Suspend()
	// The shell has continued this process: fg gave it the terminal, bg did not.
	if !still() {
		return
	}
	if owner, err := unix.IoctlGetInt(c.tty, unix.TIOCGPGRP); err == nil && owner == unix.Getpgrp() {
		_ = unix.IoctlSetPointerInt(c.tty, unix.TIOCSPGRP, c.pid)
	}
	_ = c.signal(syscall.SIGCONT)
}

func (c *Process) takeTerminal() {
	if owner, err := unix.IoctlGetInt(c.tty, unix.TIOCGPGRP); err == nil && owner == c.pid {
		_ = unix.IoctlSetPointerInt(c.tty, unix.TIOCSPGRP, unix.Getpgrp())
	}
}

// Kill ends the whole group: it sends TERM now, and KILL after grace. It returns when no
// process of the group is left, or soon after the KILL. In the second case [Process.Left]
// says which processes are left.
func (c *Process) Kill(grace time.Duration) {
	_ = c.signal(syscall.SIGTERM)
	_ = c.signal(syscall.SIGCONT)
	if c.hasEnded(grace) {
		return
	}
	_ = c.signal(syscall.SIGKILL)
	c.hasEnded(time.Second)
}

// hasEnded waits for at most d, and reports whether no process of the group is left. A zombie
// counts until it is reaped. The leader is reaped at once.
func (c *Process) hasEnded(d time.Duration) bool {
	for limit := time.Now().Add(d); ; time.Sleep(2 * time.Millisecond) {
		if errors.Is(c.signal(0), unix.ESRCH) {
			return true
		}
		if !time.Now().Before(limit) {
			return false
		}
	}
}

// Left describes the living processes of the group. It is empty if there are none. With
// refusing, it names only those that this process may not signal.
func (c *Process) Left(refusing bool) string {
	group := c.pid
	all := c.signal(0)
	if errors.Is(all, unix.ESRCH) {
		return ""
	}
	members, known := groupMembers(group)
	if !known {
		switch all = c.signal(0); {
		case errors.Is(all, unix.ESRCH):
			return "" // the last one was reaped meanwhile
		case errors.Is(all, unix.EPERM):
			return fmt.Sprintf("process group %d belongs to another user", group)
		case refusing:
			return ""
		}
		return fmt.Sprintf("process group %d does not end", group)
	}
	var texts []string
	for _, m := range members {
		refuses := errors.Is(unix.Kill(m.pid, 0), unix.EPERM)
		switch {
		case refuses:
			texts = append(texts, fmt.Sprintf("process %d belongs to user %d", m.pid, m.user))
		case !refusing:
			texts = append(texts, fmt.Sprintf("process %d does not end", m.pid))
		}
	}
	if more := len(texts) - 5; more > 0 {
		texts = append(texts[:5], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, ", ")
}

// member is a living process of a group.
type member struct{ pid, user int }

// groupMembers returns the living processes of a group, without zombies. It reports false
// where the system does not list them.
func groupMembers(group int) (members []member, known bool) {
	entries, err := processes()
	if err != nil {
		return nil, false
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		state, _, pgrp, ok := processOf(pid)
		if !ok || pgrp != group {
			continue
		}
		known = true
		if state == 'Z' || state == 'X' {
			continue
		}
		user := -1
		if info, err := entry.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				user = int(st.Uid)
			}
		}
		members = append(members, member{pid, user})
	}
	return members, known
}

// Close gives the terminal back and restores its modes. Further calls do nothing.
func (c *Process) Close() {
	if c.tty < 0 {
		return
	}
	defer func() { c.tty = -1 }()
	// Do not do this from the background: then another process has the terminal.
	owner, err := unix.IoctlGetInt(c.tty, unix.TIOCGPGRP)
	if err != nil || owner != c.pid && owner != unix.Getpgrp() {
		return
	}
	c.takeTerminal()
	if c.modes != nil {
		_ = term.Restore(c.tty, c.modes)
	}
}

// Suspend stops this process as Ctrl-Z does, and returns when a shell continues it. Where
// no shell does job control (under ssh -t, say) no process would continue it, and suspend
// does nothing.
func Suspend() {
	if !orphaned() {
		stopThread(syscall.SIGSTOP)
	}
}

// orphaned reports whether no process of the same session, but of another group, is a
// parent of this group. Then no shell does job control for the group.
func orphaned() bool {
	own := unix.Getpgrp()
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for pid := os.Getppid(); pid > 1; _, pid, _, _ = processOf(pid) { // 0 where the system does not tell the parent
		group, err := unix.Getpgid(pid)
		if err != nil {
			return true
		}
		if group != own {
			other, err := unix.Getsid(pid)
			return err != nil || other != session
		}
	}
	return true
}

// processOf reads the state, the parent and the group of a process, on systems that tell
// them.
func processOf(pid int) (state byte, parent, group int, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, 0, false
	}
	// The process name in brackets may contain any characters.
	_, err = fmt.Sscanf(string(b[bytes.LastIndexByte(b, ')')+1:]), " %c %d %d", &state, &parent, &group)
	if err != nil {
		return 0, 0, 0, false
	}
	return state, parent, group, true
}

// Inheritable returns a duplicate of f that all children inherit. Its number is high, so that
// it does not take the place of a descriptor that a user passes to the child on purpose.
func Inheritable(_ *exec.Cmd, f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// ExitStatus is the status that a shell would report for ws.
func ExitStatus(ws unix.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// Terminating reports whether sig asks a program to end.
func Terminating(sig os.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		return true
	}
	return false
}

// MayGoOn reports whether many programs do not end at sig, although it asks a program to end: at HUP they read their
// configuration again, and at QUIT they print what they do.
func MayGoOn(sig os.Signal) bool { return sig == syscall.SIGHUP || sig == syscall.SIGQUIT }

func SignalNumber(sig os.Signal) int {
	n, _ := sig.(syscall.Signal)
	return int(n)
}

// SignalName is the name of a signal as people know it, such as SIGINT.
func SignalName(sig os.Signal) string {
	n, _ := sig.(syscall.Signal)
	return cmp.Or(unix.SignalName(n), sig.String())
}

// IgnorePipe turns a write to a closed pipe into an error.
func IgnorePipe() { signal.Ignore(syscall.SIGPIPE) }

// SurviveClosedPipe turns a write to a closed pipe into an error, too. A program that is started
// later does not inherit this.
func SurviveClosedPipe() {
	if !signal.Ignored(syscall.SIGPIPE) { // else the parent process chose to ignore the signal
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

// Suspends reports whether sig is that of Ctrl-Z.
func Suspends(sig os.Signal) bool { return sig == syscall.SIGTSTP }

// Continues reports whether sig lets a stopped process continue.
func Continues(sig os.Signal) bool { return sig == syscall.SIGCONT }

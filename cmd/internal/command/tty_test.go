//go:build linux

package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// terminal is a program on a pseudo-terminal, and everything that it has shown.
type terminal struct {
	t    *testing.T
	pty  *os.File
	cmd  *exec.Cmd
	mu   sync.Mutex
	buf  bytes.Buffer
	seen int
}

// shellOnTerminal returns a shell that waits for a line.
func shellOnTerminal(t *testing.T, dir string) *terminal {
	t.Helper()
	sh := onTerminal(t, dir, "bash", "--norc", "--noprofile", "-i")
	sh.prompt()
	return sh
}

func onTerminal(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = environ(dir, "PS1=PROMPT> ", "TERM=dumb", "HISTFILE=", "BASH_SILENCE_DEPRECATION_WARNING=1")
	blocking, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	// One that closes at once, also while it is read.
	syscall.ForkLock.RLock() // no program that another test starts inherits it
	fd, err := syscall.Dup(int(blocking.Fd()))
	syscall.CloseOnExec(fd)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	_ = blocking.Close()
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "terminal")
	term := &terminal{t: t, pty: f, cmd: cmd}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := f.Read(b)
			term.mu.Lock()
			term.buf.Write(b[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = f.Close()
		_ = cmd.Wait()
	})
	return term
}

func (term *terminal) send(text string) {
	term.t.Helper()
	if _, err := term.pty.WriteString(text); err != nil {
		term.t.Fatal(err)
	}
}

// expect waits until the terminal has shown something new that matches.
func (term *terminal) expect(pattern string) {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	for limit := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		term.mu.Lock()
		if at := re.FindIndex(term.buf.Bytes()[term.seen:]); at != nil {
			term.seen += at[1]
			term.mu.Unlock()
			return
		}
		all := term.buf.String()
		term.mu.Unlock()
		if time.Now().After(limit) {
			term.t.Fatalf("the terminal never showed %q; it showed\n%s", pattern, all)
		}
	}
}

// prompt waits until the shell reads. What is typed while it still sets the terminal
// up, it can lose: it does so without holdfast, too.
func (term *terminal) prompt() {
	term.t.Helper()
	term.expect("PROMPT> ")
	for range 100 {
		time.Sleep(100 * time.Millisecond)
		term.send("\n")
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			term.mu.Lock()
			at := bytes.LastIndex(term.buf.Bytes()[term.seen:], []byte("PROMPT> "))
			if at >= 0 {
				term.seen += at + len("PROMPT> ")
			}
			term.mu.Unlock()
			if at >= 0 {
				return
			}
		}
	}
	term.t.Fatal("the shell does not answer")
}

// On a terminal the command reads from it, Ctrl-C reaches it, and Ctrl-Z and fg work
// as without holdfast.
func TestTerminalJobControl(t *testing.T) {
	t.Parallel()
	bin, sh := holdfastBinary(t), shellOnTerminal(t, t.TempDir())
	sh.send(bin + " run job -- sh -c 'echo start''ed; cat'\n")
	sh.expect("started\r\n")
	sh.send("over here\n")
	sh.expect("over here\r\nover here\r\n") // the echo, and cat's

	sh.send("\x1a")
	sh.expect("Stopped")
	sh.prompt()
	sh.send("echo the shell ''has the terminal\n")
	sh.expect("the shell has the terminal")
	sh.prompt()
	sh.send("fg\n")
	sh.expect("run job")
	sh.send("back again\n")
	sh.expect("back again\r\nback again\r\n")

	sh.send("\x03")
	sh.prompt()
	sh.send("jobs; echo none left\n")
	sh.expect("none left\r\n")
	sh.prompt()
	sh.send(bin + " run int -- sh -c 'kill -INT $$' || echo status $?\n")
	sh.expect("status 130\r\n")
	sh.prompt()

	// The lock is free, and the terminal as it was before.
	sh.send(bin + " run -n job -- stty -a\n")
	sh.expect(`[^-]icanon`)
	sh.prompt()

	// A command that leaves the terminal raw and is killed.
	sh.send(bin + " run raw -- sh -c 'stty raw -echo; kill -KILL $$'; echo status $?; stty -a\n")
	sh.expect("status 137")
	sh.expect(`[^-]icanon`)
}

// TestTerminalThatStopsWriters: in the background of a terminal that stops those who write to it, run writes a note
// after its command, and ends.
func TestTerminalThatStopsWriters(t *testing.T) {
	t.Parallel()
	bin, sh := holdfastBinary(t), shellOnTerminal(t, t.TempDir())
	sh.send("stty tostop; " + bin + " run job --on-release false -- true </dev/tty &\n")
	sh.expect("--on-release false: exit status 1")
	sh.send("wait; echo en''ded\n")
	sh.expect("ended")
}

// Waiting on a terminal shows for whom, and how long, on one line that is no wider than the
// terminal; nothing of it is left.
func TestTerminalWaiting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := holdfastBinary(t)
	holder := exec.Command(bin, "run", "job", "--holder", "ada@db1", "--", "sleep", "600")
	holder.Env = environ(dir)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Wait() }()
	defer func() { _ = holder.Process.Signal(syscall.SIGTERM) }()
	await(t, "the holder", func() bool {
		show := exec.Command(bin, "show", "job")
		show.Env = holder.Env
		return show.Run() == nil
	})
	waiter := onTerminal(t, dir, bin, "run", "job", "--", "echo", "got it")
	waiter.expect(`\r\x1b\[K(waiting for lock "job", held by ada@db1 since [^\r\n]{10,30}…: \d+s)\r\x1b\[K`) // 80 columns
	if err := pty.Setsize(waiter.pty, &pty.Winsize{Rows: 24, Cols: 500}); err != nil {
		t.Fatal(err)
	}
	waiter.expect(`waiting for lock "job", held by ada@db1 since \d\d:\d\d:\d\d, on file:[^\r\n…]*: \d+s`)
	_ = holder.Process.Signal(syscall.SIGTERM)
	waiter.expect("\r\x1b\\[Kgot it")
}

// watch --timeline draws on a terminal while it happens, follows its size, and leaves the last picture there, and in a
// file.
func TestTerminalTimeline(t *testing.T) {
	t.Parallel()
	p, files := newPlaceOfFiles(t)
	p.must(t, files, "lock", "job", "--handle", "h.json", "--holder", "ada@db1")
	watch := onTerminal(t, p.dir, "env", "TERM=xterm", p.bin, "watch", "--timeline", "--svg", "out.svg")
	watch.expect(`\x1b\[\?1049h\x1b\[\?25l\x1b\[H`)
	watch.expect(`job +│ *\x1b\[36mA━*\x1b\[0m\x1b\[K\r\n`)
	watch.expect(`ada@db1`)
	if err := pty.Setsize(watch.pty, &pty.Winsize{Rows: 24, Cols: 200}); err != nil {
		t.Fatal(err)
	}
	watch.expect(`└[─┴]{190,194}\x1b\[K\r\n`)
	p.must(t, files, "unlock", "h.json")
	p.must(t, files, "lock", "other", "--handle", "h.json", "--holder", "bob@db2")
	watch.expect(`other +│ *\x1b\[33mB`)
	watch.send("\x03")
	watch.expect(`\x1b\[\?25h\x1b\[\?1049llocks of file:`)
	watch.expect(`job +│ *\x1b\[36mA━*\x1b\[0m\r\n`)
	watch.expect(`bob@db2\r\n`)
	if err := watch.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if svg, err := os.ReadFile(filepath.Join(p.dir, "out.svg")); err != nil || !bytes.Contains(svg, []byte("bob@db2")) {
		t.Errorf("the file is %.200q (%v)", svg, err)
	}

	// Without colours, and in a pipe.
	plain := onTerminal(t, p.dir, "env", "TERM=xterm", "NO_COLOR=1", p.bin, "watch", "--timeline", "other")
	plain.expect(`other │ *A━*\x1b\[K\r\n`)
	plain.send("\x03")
	plain.expect(`other │ *A━*\r\n`)
	piped := onTerminal(t, p.dir, "sh", "-c", "timeout -s INT 1 "+p.bin+" watch --timeline other | cat")
	piped.expect(`^locks below other of file:[^\x1b]*other │ *A━*\r\n[^\x1b]*A bob@db2\r\n`)
}

// break asks on a terminal.
func TestTerminalBreakAsks(t *testing.T) {
	p, files := newPlaceOfFiles(t)
	p.must(t, files, "lock", "job", "--handle", "h.json", "--holder", "ada@db1")
	token := tokenOf(p.must(t, files, "show", "job", "--json"))
	// With --now it asks first whether the holder is dead.
	certain := onTerminal(t, p.dir, p.bin, "break", "job", "--token", token, "--now")
	certain.expect(`If the holder lives, two holders work at the same time\. Is the holder certainly dead\? \[y/N\] `)
	certain.send("\n")
	certain.expect("was not broken")
	for _, answer := range []string{"\n", "no\n", "y\n"} {
		term := onTerminal(t, p.dir, p.bin, "break", "job", "--token", token)
		term.expect(`Lock "job" is held by ada@db1 \(token \d+\)\. The process of the holder is possibly alive\. .* \[y/N\] `)
		term.send(answer)
		if answer == "y\n" {
			term.expect("is broken")
		} else {
			term.expect("was not broken")
		}
	}
}

// rm of a prefix counts on a terminal, and asks.
func TestTerminalRemoveAsks(t *testing.T) {
	p, files := newPlaceOfFiles(t)
	if err := os.WriteFile(filepath.Join(p.dir, "f"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"d/a", "d/b", "keep"} {
		p.must(t, files, "put", filepath.Join(p.dir, "f"), "file:"+p.dir+"/bucket//"+key)
	}
	at := "file:" + p.dir + "/bucket/d"
	for _, answer := range []string{"\n", "y\n"} {
		term := onTerminal(t, p.dir, p.bin, "object", "rm", "--recursive", at)
		term.expect(`Remove 2 objects \(6 bytes\) below file:.*/bucket/d\? \[y/N\] `)
		term.send(answer)
		if answer == "y\n" {
			term.expect("2 removed")
		} else {
			term.expect("nothing was removed")
		}
	}
	if left := p.must(t, files, "object", "ls", "--recursive", "file:"+p.dir+"/bucket"); strings.Count(left, "\n") != 1 || !strings.Contains(left, "keep") {
		t.Errorf("left: %q", left)
	}
}

// checkpoint reset shows on a terminal what is there, and asks; what was shown has to be
// there still when it is answered.
func TestTerminalResetAsks(t *testing.T) {
	p, files := newPlaceOfFiles(t)
	p.must(t, files, "checkpoint", "advance", "orders", "17")
	for _, c := range []struct {
		args           []string
		asks, says     string
		answer, stands string
		meanwhile      []string
	}{
		{[]string{"reset", "orders", "5"}, `Checkpoint "orders" has the sequence 17\. Reset "orders" to 5\?`, "was not changed", "\n", "17", nil},
		{[]string{"reset", "orders", "5"}, `Checkpoint "orders" has the sequence 17\. Reset "orders" to 5\?`, "18", "y\n", "18", []string{"checkpoint", "advance", "orders", "18"}},
		{[]string{"reset", "orders", "5"}, `Checkpoint "orders" has the sequence 18\. Reset "orders" to 5\?`, "5", "y\n", "5", nil},
		{[]string{"rm", "orders"}, `Checkpoint "orders" has the sequence 5\. Delete "orders"\?`, "was not changed", "no\n", "5", nil},
	} {
		term := onTerminal(t, p.dir, append([]string{p.bin, "checkpoint"}, c.args...)...)
		term.expect(c.asks + ` \[y/N\] `)
		if c.meanwhile != nil {
			p.must(t, files, c.meanwhile...)
		}
		term.send(c.answer)
		term.expect(c.says)
		_ = term.cmd.Wait() // the checkpoint shows the result
		if got := strings.TrimSpace(p.must(t, files, "checkpoint", "get", "orders")); got != c.stands {
			t.Errorf("%q, answered %q: %s stands, want %s", c.args, c.answer, got, c.stands)
		}
	}
}

// As the first process of a container it reaps orphans, and passes signals on.
func TestFirstProcessOfAContainer(t *testing.T) {
	suitetest.NeedRoot(t, "a PID namespace")
	dir := t.TempDir()
	bin := holdfastBinary(t)
	script := filepath.Join(dir, "script")
	// The orphan ends while its grandparent lives: the wrapper has to reap it.
	if err := os.WriteFile(script, []byte(`sh -c 'sleep 0.2 & echo $! > orphan' 
sleep 1
test -e /proc/$(cat orphan) && echo "not reaped" && exit 1
echo $PPID
trap 'echo told; exit 7' TERM
touch up
while :; do sleep 0.05; done
`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", bin, "run", "job", "--", "sh", script)
	cmd.Dir = dir
	cmd.Env = environ(dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the command", isThere(filepath.Join(dir, "up")))
	// unshare passes nothing on: find the wrapper, its child.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var wrapper int
	fmt.Sscan(string(children), &wrapper)
	if err := syscall.Kill(wrapper, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 || !strings.HasPrefix(out.String(), "1\n") || !strings.Contains(out.String(), "told") {
		t.Errorf("exit %d (%v), output %q; want 7, and that pid 1 was its parent", code, err, out.String())
	}
}

// Two holders in different PID namespaces on one directory do not take each other for
// dead: pids and start times say nothing there.
func TestHoldersInDifferentNamespaces(t *testing.T) {
	t.Parallel()
	suitetest.NeedRoot(t, "a PID namespace")
	dir := t.TempDir()
	bin := holdfastBinary(t)
	env := environ(dir)
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command("unshare", append([]string{"--pid", "--fork", "--mount-proc", "--kill-child", bin}, args...)...)
		cmd.Env, cmd.Dir = env, dir
		return cmd
	}
	holder := inside("run", "job", "--ttl", "5s", "--", "sh", "-c", "touch up; sleep 600")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the holder", isThere(filepath.Join(dir, "up")))
	for range 5 {
		if out, err := inside("run", "-w", "2s", "job", "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "is held by") {
			t.Fatalf("a living holder in another namespace was taken for dead: %v %s", err, out)
		}
	}
	// Killed, it is seen to be dead at once, from another namespace as well.
	_ = holder.Process.Kill()
	_ = holder.Wait()
	if out, err := inside("run", "-w", "3s", "job", "--", "true").CombinedOutput(); err != nil {
		t.Errorf("after the kill: %v %s", err, out)
	}
}

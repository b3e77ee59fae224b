//go:build linux

package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

func init() { programs["becomeroot"], programs["hostile"] = becomeRoot, hostile }

// becomeRoot is what sudo does to a command: becomeroot UP END becomes root, as a
// program with the set-user-ID bit, makes the file UP, and continues until END is there.
func becomeRoot() {
	signal.Ignore(syscall.SIGHUP)
	if err := errors.Join(syscall.Setgid(0), syscall.Setuid(0), os.WriteFile(os.Args[1], nil, 0o644)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for range 60_000 {
		if _, err := os.Stat(os.Args[2]); err == nil {
			os.Exit(7)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// hostile does what a command can do to free the lock around it: it unlocks and writes
// to every descriptor of the store that it was given.
func hostile() {
	for fd := 3; fd < 1024; fd++ {
		if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || !strings.Contains(name, "/store/") {
			continue
		}
		fmt.Println("descriptor", fd, syscall.Flock(fd, syscall.LOCK_UN))
		_ = syscall.FcntlFlock(uintptr(fd), 37 /* F_OFD_SETLK */, &syscall.Flock_t{Type: syscall.F_UNLCK})
		if n, err := syscall.Write(fd, []byte("nonsense")); err == nil {
			fmt.Println("wrote", n)
		}
		if err := syscall.Ftruncate(fd, 8<<40); err == nil {
			fmt.Println("made longer")
		}
	}
}

// stage is where a user who is not root runs commands that become root.
type stage struct {
	t               *testing.T
	bin, home, root string // root is the program that becomes root
}

func newStage(t *testing.T) *stage {
	t.Helper()
	suitetest.NeedRoot(t, "a command that becomes root")
	dir := publicDir(t)
	s := &stage{t: t, bin: programIn(t, dir), home: filepath.Join(dir, "home"), root: filepath.Join(dir, "becomeroot")}
	text, err := os.ReadFile(filepath.Join(dir, companion))
	if err == nil {
		err = os.WriteFile(s.root, text, 0o755)
	}
	if err = errors.Join(err, os.Chmod(s.root, 0o755|os.ModeSetuid), os.Mkdir(s.home, 0o755), os.Chown(s.home, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) file(name string) string { return filepath.Join(s.home, name) }

// holdfast is a command of the user.
func (s *stage) holdfast(args ...string) *exec.Cmd {
	return as(s.t, stranger, s.home, append([]string{s.bin}, args...)...)
}

// running is a command that was started.
type running struct {
	*exec.Cmd
	t    *testing.T
	said string // the file that has its messages
	done chan struct{}
}

func (s *stage) start(name string, args ...string) *running {
	s.t.Helper()
	r := &running{Cmd: s.holdfast(args...), t: s.t, said: s.file(name + ".said"), done: make(chan struct{})}
	out, err := os.Create(r.said)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close()
	r.Stdout, r.Stderr = out, out
	if err := r.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { defer close(r.done); _ = r.Wait() }()
	s.t.Cleanup(func() { _ = r.Process.Kill(); <-r.done })
	return r
}

func (r *running) text() string {
	b, _ := os.ReadFile(r.said)
	return string(b)
}

func (r *running) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// A command that became root cannot be ended by run: run says so, keeps the lock for as
// long as the command continues, and ends with it.
func TestCommandThatBecameRoot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		flags  []string
		argv   func(s *stage) []string
		signal bool
		status int
		says   string
	}{
		{
			name: "max", flags: []string{"--timeout", "2s"}, status: 124, says: "run could not stop the command: process ",
			argv: func(s *stage) []string { return []string{s.root, s.file("up"), s.file("end")} },
		},
		{
			name: "max of a shell", flags: []string{"--timeout", "2s"}, status: 124, says: "run could not stop the command: process ",
			argv: func(s *stage) []string {
				return []string{"sh", "-c", fmt.Sprintf("%s %s %s; true", s.root, s.file("up"), s.file("end"))}
			},
		},
		{
			name: "signal", signal: true, status: 7, says: "run could not send SIGTERM to the command: operation not permitted: process ",
			argv: func(s *stage) []string { return []string{s.root, s.file("up"), s.file("end")} },
		},
		{
			name: "signal to a shell", signal: true, status: 143, says: "run could not stop the command: process ",
			argv: func(s *stage) []string {
				return []string{"sh", "-c", fmt.Sprintf("%s %s %s; true", s.root, s.file("up"), s.file("end"))}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			args := append([]string{"run", "job", "--ttl", "1s", "--grace", "100ms"}, c.flags...)
			r := s.start("run", append(append(args, "--"), c.argv(s)...)...)
			await(t, "the command is up", isThere(s.file("up")))
			if c.signal {
				if err := r.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			await(t, "it is told", func() bool { return strings.Contains(r.text(), c.says) || r.ended() })
			if text := r.text(); !strings.Contains(text, c.says) || !strings.Contains(text, "belongs to user 0") || !strings.Contains(text, "run keeps the lock until") {
				t.Errorf("it says %q, want %q", text, c.says)
			}
			time.Sleep(2500 * time.Millisecond) // more than two TTLs
			if status, out := exitOf(t, s.holdfast("run", "-n", "job", "--", "true")); status != exit.Busy {
				t.Errorf("beside it: status %d, want %d: %s", status, exit.Busy, out)
			}
			if r.ended() {
				t.Fatalf("run ended while its command goes on: %s", r.text())
			}
			if err := os.WriteFile(s.file("end"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			<-r.done
			if got := r.ProcessState.ExitCode(); got != c.status {
				t.Errorf("status %d, want %d: %s", got, c.status, r.text())
			}
			if status, out := exitOf(t, s.holdfast("run", "-n", "job", "--", "true")); status != 0 {
				t.Errorf("afterwards: status %d: %s", status, out)
			}
		})
	}
}

// A command that became root and has lost its lock continues: run says so at once, loudly,
// and ends with the status of a lost lease.
func TestCommandThatBecameRootAndLostItsLock(t *testing.T) {
	s := newStage(t)
	r := s.start("run", "-q", "run", "job", "--ttl", "1s", "--grace", "100ms", "--report", s.file("report.json"), "--", s.root, s.file("up"), s.file("end"))
	await(t, "the command is up", isThere(s.file("up")))
	_, out := exitOf(t, s.holdfast("show", "job", "--json"))
	_, rest, _ := strings.Cut(out, `"token": `)
	token, _, _ := strings.Cut(rest, ",")
	if status, out := exitOf(t, s.holdfast("break", "job", "--now", "--token", token)); status != 0 {
		t.Fatalf("%d: %s", status, out)
	}
	const says = "THE COMMAND STILL RUNS WITHOUT ITS LOCK: run could not stop the command: process "
	await(t, "it is told", func() bool { return strings.Contains(r.text(), says) || r.ended() })
	if text := r.text(); !strings.Contains(text, says) || strings.Contains(text, "was stopped") {
		t.Errorf("it says %q", text)
	}
	if err := os.WriteFile(s.file("end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	<-r.done
	if got := r.ProcessState.ExitCode(); got != exit.Lost || strings.Contains(r.text(), "was stopped") {
		t.Errorf("status %d, want %d: %s", got, exit.Lost, r.text())
	}
	if b, err := os.ReadFile(s.file("report.json")); err != nil || !strings.Contains(string(b), `"result": "lost"`) {
		t.Errorf("%s, %v", b, err)
	}
}

// A command that dropped its rights cannot free the lock around it by the descriptor that
// it inherits, and cannot write to it.
func TestHostileCommand(t *testing.T) {
	suitetest.NeedRoot(t, "a command that drops its rights")
	dir := publicDir(t)
	bin := programIn(t, dir)
	attack := filepath.Join(dir, "hostile")
	if err := os.Link(filepath.Join(dir, companion), attack); err != nil {
		t.Fatal(err)
	}
	up, end := filepath.Join(dir, "up"), filepath.Join(dir, "end")
	env := environ(dir)
	run := exec.Command(bin, "run", "job", "--ttl", "10m", "--", "setpriv", "--reuid", fmt.Sprint(stranger), "--regid", fmt.Sprint(stranger), "--clear-groups",
		"sh", "-c", fmt.Sprintf("%s; cp /dev/null %s 2>&1; while [ ! -e %s ]; do sleep 0.05; done", attack, up, end))
	run.Env = env
	var out strings.Builder
	run.Stdout, run.Stderr = &out, &out
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the attack is over", isThere(up))
	second := exec.Command(bin, "run", "-n", "job", "--", "true")
	second.Env = env
	if status, out := exitOf(t, second); status != exit.Busy {
		t.Errorf("beside it: status %d, want %d: %s", status, exit.Busy, out)
	}
	if err := os.WriteFile(end, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
	if text := out.String(); !strings.Contains(text, "descriptor") || strings.Contains(text, "wrote") || strings.Contains(text, "longer") {
		t.Errorf("the attack: %q", text)
	}
}

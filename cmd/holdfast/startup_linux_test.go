package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// scheduling are the system calls of Go's scheduler and memory, whose number depends on
// what else the machine does.
var scheduling = []string{
	"futex", "nanosleep", "sched_yield", "epoll_pwait", "tgkill", "getpid", "gettid", "rt_sigreturn", "clock_gettime",
	"mmap", "munmap", "mprotect", "madvise", "brk", "prctl", "sigaltstack", "rseq", "set_robust_list", "rt_sigprocmask",
	"clone3", "exit", "restart_syscall", "rt_sigaction",
}

// TestStartUpSystemCalls bounds what a run of a command costs in addition to the command, on a
// directory, when the lock exists. Times depend on the machine; this does not.
func TestStartUpSystemCalls(t *testing.T) {
	strace := suitetest.NeedStrace(t)
	p := build(t)
	run := func(prefix ...string) {
		args := append(prefix, filepath.Join(p.small, "holdfast"), "--store", "file:store", "run", "x", "--", "/bin/true")
		p.must(t, args[0], args[1:]...)
	}
	if err := os.MkdirAll(filepath.Join(built, "state", "seen"), 0o700); err != nil { // as after a wait
		t.Fatal(err)
	}
	run()
	run()
	trace := filepath.Join(p.dir, "trace")
	run(strace, "-f", "-qq", "-o", trace)
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	total, processes := 0, 0
	for line := range strings.Lines(string(text)) {
		m := regexp.MustCompile(`^\d+ +([a-z0-9_]+)\((.*)`).FindStringSubmatch(line)
		if m == nil {
			continue // the end of a call that was interrupted, or a signal
		}
		calls[m[1]]++
		if !slices.Contains(scheduling, m[1]) {
			total++
		}
		if slices.Contains([]string{"clone", "clone3", "fork", "vfork"}, m[1]) && !strings.Contains(m[2], "CLONE_THREAD") {
			processes++
		}
	}
	t.Logf("%d system calls: %v", total, calls)
	if total > 235 {
		t.Errorf("%d system calls, want at most 235: %v", total, calls)
	}
	if processes != 1 || calls["execve"] != 2 {
		t.Errorf("%d processes were started, and %d programs; want the command alone", processes, calls["execve"]-1)
	}
	// The grant and its release are both durable, and nothing else has to be.
	if n := calls["fdatasync"] + calls["fsync"]; n != 2 {
		t.Errorf("%d syncs, want 2", n)
	}
}

// TestSlowStartOfTheCommand: run renews its lease while the system still reads the program of the command or of
// a hook, for example from a slow server.
func TestSlowStartOfTheCommand(t *testing.T) {
	strace := suitetest.NeedStrace(t)
	p := build(t)
	cmd := p.command(strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace=execve", "-e", "inject=execve:delay_enter=4500ms",
		filepath.Join(p.small, "holdfast"), "--store", "file:store", "run", "--ttl", "4s", "--on-acquire", "true", "x", "--", "/bin/echo", "ran")
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1") // as on a machine with one processor
	if out, errs, code := status(t, cmd); code != 0 || out != "ran\n" {
		t.Errorf("status %d: %s%s", code, out, errs)
	}
}

// TestStartUpPackages bounds what packages do before the command begins, in each run of it.
func TestStartUpPackages(t *testing.T) {
	p := build(t)
	cmd := p.command(filepath.Join(p.small, "holdfast"), "--version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	all, ours := 0, 0
	var text strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) allocs$`).FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all += n
		if m[1] == "main" || strings.HasPrefix(m[1], "github.com/holdfast-go/holdfast/") {
			ours += n
			text.WriteString(m[0] + "\n")
		}
	}
	t.Logf("%d allocations, %d of them in packages of this module", all, ours)
	if all == 0 || all > 250 {
		t.Errorf("%d allocations before main, want at most 250:\n%s", all, out)
	}
	if ours == 0 || ours > 80 {
		t.Errorf("%d allocations in packages of this module, want at most 80: a regular expression or a table can wait until it is used:\n%s", ours, text.String())
	}
}

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package avisofile_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suitetest"
)

// underStrace runs the store's commands with faults in its system calls. paths, if
// there are any, are the only files whose calls fail.
func underStrace(t *testing.T, inject string, paths ...string) *process {
	t.Helper()
	line := []string{"strace", "-f", "-qq", "-o", "/dev/null"}
	for _, path := range paths {
		line = append(line, "-P", path)
	}
	call, _, _ := strings.Cut(inject, ":")
	line = append(line, "-e", "trace="+call, "-e", "inject="+inject)
	return start(t, command(t, "store", line))
}

// TestFaults lets the system calls of a writer fail, one kind after the other. What
// was acknowledged is in the file, what is said not to be applied is not, and after
// every error the memory is what the file has.
func TestFaults(t *testing.T) {
	suitetest.NeedStrace(t)
	all := []struct {
		inject  string
		dir     bool // only calls on the directory
		outcome string
	}{
		{"pwrite64:error=EIO:when=%d", false, "not applied"},
		{"pwrite64:error=ENOSPC:when=%d", false, "not applied"},
		{"fsync:error=EIO:when=%d", false, ""},
		{"fsync:error=EIO:when=%d", true, "outcome unknown"},
		{"fsync:error=ENOSPC:when=%d", true, "outcome unknown"},
		{"renameat:error=EIO:when=%d", false, "not applied"},
		{"renameat:error=ENOSPC:when=%d", false, "not applied"},
		{"fchmod:error=EIO:when=%d", false, "not applied"},
	}
	for _, tt := range all {
		for _, when := range []string{"1", "2+3", "1+"} {
			outcome := tt.outcome
			if outcome == "" && when == "1+" {
				outcome = "not applied" // the file is synced before anything of it is seen
			}
			inject := strings.ReplaceAll(tt.inject, "%d", when)
			t.Run(fmt.Sprintf("%s,directory=%v", inject, tt.dir), func(t *testing.T) {
				t.Parallel()
				runFaults(t, inject, tt.dir, outcome, when == "1+")
			})
		}
	}
}

func runFaults(t *testing.T, inject string, onlyDir bool, outcome string, always bool) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, resumeKey("k"), at(1), checkpoint.Advanced)
	closeStore(t, s)
	var paths []string
	if onlyDir {
		paths = []string{path[:len(path)-len("/state.json")]}
	}
	p := underStrace(t, inject, paths...)
	p.want("ok", "open %s", path)
	now, failed := uint64(1), 0
	for seq := uint64(2); seq < 7; seq++ {
		answer := p.ask("put k %d null", seq)
		raw, err := loadPeer(path)
		if err != nil {
			t.Fatalf("after %q the file cannot be read: %v", answer, err)
		}
		disk := raw[resumeKey("k")].Sequence
		switch {
		case answer == "advanced":
			if disk != seq {
				t.Fatalf("acknowledged %d, the file has %d", seq, disk)
			}
		case strings.HasPrefix(answer, "err not applied"):
			failed++
			if disk != now {
				t.Fatalf("%q, and the file has %d, not %d", answer, disk, now)
			}
			// What could not be written must not cost the good copy: a program that cuts the
			// file off on a disk that is full would cut off both.
			state, err := os.Stat(path)
			do(t, err)
			good, err := os.Stat(path + ".good")
			if err == nil && os.SameFile(state, good) && !strings.HasPrefix(inject, "renameat") {
				t.Fatalf("%q, and the good copy is the file itself", answer)
			}
		case strings.HasPrefix(answer, "err outcome unknown"):
			failed++
			if disk != now && disk != seq {
				t.Fatalf("%q, and the file has %d", answer, disk)
			}
		default:
			t.Fatalf("got %q", answer)
		}
		if strings.HasPrefix(answer, "err") && !strings.HasPrefix(answer, "err "+outcome) {
			t.Errorf("got %q, want the outcome %q", answer, outcome)
		}
		now = disk
		for _, read := range []string{"read", "get"} {
			want := fmt.Sprintf("%d epoch 1 token 0", now)
			// A read syncs, too, what is not known to be durable.
			refused := "err not applied: checkpoint get " + resumeKey("k") + ": the content of " + path + " may not survive"
			if got := p.ask("%s k", read); got != want && !(strings.HasPrefix(inject, "fsync") && strings.HasPrefix(got, refused)) {
				t.Fatalf("after %q: %s got %q, want %q", answer, read, got, want)
			}
		}
	}
	if always && failed != 5 {
		t.Errorf("%d of 5 writes failed", failed)
	}
	// Afterwards everything works again, and no temporary file remains.
	s = open(t, path, nil)
	wantAt(t, s, resumeKey("k"), now)
	advance(t, s, resumeKey("k"), at(100), checkpoint.Advanced)
	assertNoLeftOvers(t, path)
}

// TestNoLinks: where files cannot have a second name, a write keeps a good copy, and Restore keeps the damaged file.
func TestNoLinks(t *testing.T) {
	suitetest.NeedStrace(t)
	path := statePath(t)
	p := underStrace(t, "linkat:error=EPERM")
	p.want("ok", "open %s", path)
	p.want("advanced", "put k 1 null")
	p.want("advanced", "put k 2 null")
	do(t, os.WriteFile(path, []byte("damaged"), 0o600))
	p.want("ok", "restore %s", path)
	if b, err := os.ReadFile(path + ".bad"); err != nil || string(b) != "damaged" {
		t.Errorf("the damaged file: %q, %v", b, err)
	}
	wantAt(t, open(t, path, nil), resumeKey("k"), 1)
	assertNoLeftOvers(t, path)
}

// TestAnswersRestOnDurableFiles: a file that another wrote may not survive, since
// that program may have been stopped before its last sync. An answer that needs no
// write syncs the directory, and is not given if that fails.
func TestAnswersRestOnDurableFiles(t *testing.T) {
	suitetest.NeedStrace(t)
	for _, tt := range []struct{ line, good string }{
		{"put k 5 null", "unchanged"},
		{"put k 4 null", "behind"},
		{"read k", "5 epoch 1 token 0"},
		{"fence f 3", "ok"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			t.Parallel()
			path := statePath(t)
			s := open(t, path, nil)
			_, err := s.Fence(t.Context(), resumeKey("f"), 3)
			do(t, err)
			do(t, mustPeer(t, path).put(resumeKey("k"), mark{Sequence: 5}))
			p := underStrace(t, "fsync:error=EIO:when=1+", path[:len(path)-len("/state.json")])
			p.want("ok", "open %s", path)
			if got := p.ask("%s", tt.line); !strings.HasPrefix(got, "err ") {
				t.Errorf("without a sync: got %q", got)
			}
			healthy := start(t, command(t, "store", nil))
			healthy.want("ok", "open %s", path)
			healthy.want(tt.good, "%s", tt.line)
		})
	}
}

// TestDoubt: after a sync of the directory that failed, a second one that succeeds proves
// nothing. The next commit writes the file again, although its content is right.
func TestDoubt(t *testing.T) {
	suitetest.NeedStrace(t)
	path := statePath(t)
	advance(t, open(t, path, nil), resumeKey("k"), at(1), checkpoint.Advanced)
	p := underStrace(t, "fsync:error=EIO:when=1", path[:len(path)-len("/state.json")])
	p.want("ok", "open %s", path)
	if got := p.ask("put k 2 null"); !strings.HasPrefix(got, "err outcome unknown") {
		t.Fatalf("got %q", got)
	}
	before, err := os.Stat(path)
	do(t, err)
	wantAt(t, open(t, path, nil), resumeKey("k"), 2)
	// The counter of the fault is one for each thread, so that it may come again.
	for got := ""; got != "unchanged"; {
		if got = p.ask("put k 2 null"); got != "unchanged" && !strings.HasPrefix(got, "err outcome unknown") {
			t.Fatalf("got %q", got)
		}
	}
	after, err := os.Stat(path)
	do(t, err)
	if os.SameFile(before, after) {
		t.Error("the file was not written again")
	}
}

// TestInterruptedLock: a signal that interrupts the wait for the lock is no error.
func TestInterruptedLock(t *testing.T) {
	suitetest.NeedStrace(t)
	path := statePath(t)
	p := underStrace(t, "flock:error=EINTR:when=1..3")
	p.want("ok", "open %s", path)
	p.want("advanced", "put k 1 null")
}

// TestKilledBetweenTwoLines kills a writer at each of its system calls: then the file has
// the state before or the one after, with the fences of at least the one it has, and the
// next writer continues.
func TestKilledBetweenTwoLines(t *testing.T) {
	suitetest.NeedStrace(t)
	for _, call := range []string{"pwrite64", "fsync", "linkat", "renameat", "unlinkat", "flock"} {
		for n := 1; n <= 4; n++ {
			t.Run(fmt.Sprint(call, n), func(t *testing.T) {
				t.Parallel()
				killAt(t, call, n)
			})
		}
	}
}

func killAt(t *testing.T, call string, n int) {
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, resumeKey("k"), at(100), checkpoint.Advanced)
	advance(t, s, resumeKey("k"), at(101), checkpoint.Advanced)
	p := underStrace(t, fmt.Sprintf("%s:signal=KILL:when=%d", call, n))
	p.want("ok", "open %s", path)
	p.send("reset k 10")
	line, err := p.out.ReadString('\n')
	if err == nil && line != "ok\n" {
		t.Fatalf("got %q", line)
	}
	answered := err == nil
	r, err := s.Advance(t.Context(), resumeKey("k"), at(102), nil)
	if r.Status == 0 {
		t.Fatal(err)
	}
	c := get(t, open(t, path, nil), resumeKey("k"))
	switch {
	case answered && (c.Sequence != 10 || c.Epoch != 2),
		c.Sequence == 10 && c.Epoch != 2,
		(r.Status == checkpoint.Advanced) != (c.Epoch == 1 && c.Sequence == 102),
		c.Sequence != 10 && c.Sequence != 101 && c.Sequence != 102:
		t.Errorf("answered %v, then %v, now %+v", answered, r.Status, c)
	}
	get(t, s, resumeKey("k"))
	advance(t, s, resumeKey("k"), at(103), checkpoint.Advanced)
	advance(t, open(t, path, nil), keyA, at(1), checkpoint.Advanced) // the first write of a store sweeps
	assertNoLeftOvers(t, path)
}

// TestLockReplacedDuringAWrite: the lock file is replaced while a writer that holds
// the old one is stopped before its rename. It notices, and writes under the new one.
func TestLockReplacedDuringAWrite(t *testing.T) {
	suitetest.NeedStrace(t)
	path := statePath(t)
	s := open(t, path, nil)
	advance(t, s, keyA, at(1), checkpoint.Advanced)
	p := underStrace(t, "fsync:delay_enter=1s:when=1")
	p.want("ok", "open %s", path)
	p.send("put k 5 null")
	// Wait until it is in the middle: its temporary file is there.
	for {
		if all, _ := os.ReadDir(path[:len(path)-len("/state.json")]); strings.HasPrefix(all[0].Name(), ".") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	do(t, os.Remove(path+".lock"))
	advance(t, s, keyA, at(2), checkpoint.Advanced) // under the new lock
	if got := p.receive(); got != "advanced" {
		t.Fatalf("got %q", got)
	}
	wantAt(t, s, keyA, 2)
	wantAt(t, s, resumeKey("k"), 5)
}

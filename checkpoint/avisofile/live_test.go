package avisofile_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// floors are the sequences that were acknowledged.
type floors struct {
	mu sync.Mutex
	at map[string]uint64
}

func (f *floors) raise(key string, sequence uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at[key] = max(f.at[key], sequence)
}

func (f *floors) copy() map[string]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]uint64, len(f.at))
	for key, sequence := range f.at {
		all[key] = sequence
	}
	return all
}

// TestLiveBesideAnotherProgram advances keys from several processes of both kinds
// at once, keys of their own and shared ones, while somebody reads: the file can be
// read at any time, no key goes back, and nothing that was acknowledged is lost.
func TestLiveBesideAnotherProgram(t *testing.T) {
	path := statePath(t)
	const rounds = 40
	acked := &floors{at: map[string]uint64{}}
	var wg sync.WaitGroup
	s := open(t, path, nil)
	for w := range 4 {
		wg.Go(func() {
			for n := range uint64(rounds) {
				for _, name := range []string{fmt.Sprint("store", w), "shared"} {
					seq := 5*n + uint64(w)
					r, err := s.Advance(t.Context(), resumeKey(name), checkpoint.Position{Sequence: seq, EventID: fmt.Sprint(seq)}, nil)
					if err != nil || r.Status == checkpoint.RolledBack || name != "shared" && r.Status != checkpoint.Advanced {
						t.Errorf("%s at %d: got %+v, %v", name, seq, r, err)
					}
					acked.raise(resumeKey(name), max(seq, r.Current.Sequence))
				}
			}
		})
	}
	for i := range 2 {
		p := startPeer(t, path)
		wg.Go(func() {
			for n := range uint64(rounds) {
				for _, name := range []string{fmt.Sprint("peer", i), "shared"} {
					seq := 5*n + uint64(i)
					if answer := p.ask("put %s %d \"%d\"", name, seq, seq); answer != "ok" {
						t.Errorf("put %s %d: got %q", name, seq, answer)
					}
					acked.raise(resumeKey(name), seq)
				}
			}
		})
		q := start(t, command(t, "store", nil))
		q.want("ok", "open %s", path)
		wg.Go(func() {
			for n := range uint64(rounds) {
				name := fmt.Sprint("process", i)
				if answer := q.ask("put %s %d null", name, n); answer != "advanced" {
					t.Errorf("put %s %d: got %q", name, n, answer)
				}
				acked.raise(resumeKey(name), n)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	reader := open(t, path, nil)
	looks := 0
	for last := false; !last; looks++ {
		select {
		case <-done:
			last = true
		default:
		}
		floor := acked.copy()
		raw, err := loadPeer(path)
		if err != nil {
			t.Fatalf("the file cannot be read: %v", err)
		}
		for key, sequence := range floor {
			if raw[key].Sequence < sequence {
				t.Fatalf("%s is at %d, %d was acknowledged", key, raw[key].Sequence, sequence)
			}
			if c := get(t, reader, key); c.Sequence < raw[key].Sequence {
				t.Fatalf("%s is at %d after %d was there", key, c.Sequence, raw[key].Sequence)
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Logf("%d looks", looks)
	if n := len(acked.copy()); n != 9 {
		t.Errorf("%d keys", n)
	}
	assertSameBytes(t, path)
}

// assertSameBytes wants the file as the other program would write it, in the order
// of the keys: which it is if one of ours wrote it last.
func assertSameBytes(t *testing.T, path string) {
	t.Helper()
	advance(t, open(t, path, nil), resumeKey("last"), at(1), checkpoint.Advanced)
	got, err := os.ReadFile(path)
	do(t, err)
	all, err := loadPeer(path)
	do(t, err)
	want, err := encodePeer(all)
	do(t, err)
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p := startPeer(t, path)
	for key, m := range all {
		_ = key
		if m.Event == nil {
			continue
		}
		event, err := json.Marshal(*m.Event)
		do(t, err)
		if !strings.Contains(string(got), string(event)) {
			t.Errorf("no %s", event)
		}
	}
	p.want("{\"last_committed_sequence\":1,\"last_event_id\":null}", "get last")
}

// TestStarvation: a program of the other kind gets its turn beside callers of ours
// that never stop.
func TestStarvation(t *testing.T) {
	path := statePath(t)
	s := open(t, path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for n := uint64(0); ctx.Err() == nil; n++ {
				_, err := s.Advance(ctx, resumeKey(fmt.Sprint(w)), at(n), nil)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	other := open(t, path, nil)
	p := startPeer(t, path)
	var longest time.Duration
	for n := range uint64(15) {
		begin := time.Now()
		p.want("ok", "put peer %d null", n)
		advance(t, other, resumeKey("other"), at(n), checkpoint.Advanced)
		longest = max(longest, time.Since(begin))
	}
	cancel()
	wg.Wait()
	t.Logf("the longest of 15 turns took %v", longest)
}

// reading collects what a process prints.
type reading struct {
	acks map[string]uint64
	errs []string
}

// runUntilKilled runs a process of writers for a while and kills it. It returns what
// was acknowledged.
func runUntilKilled(t *testing.T, path string, first, count int, life time.Duration) reading {
	cmd := command(t, "writers", nil, path, strconv.Itoa(first), strconv.Itoa(count))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return reading{}
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return reading{}
	}
	r := reading{acks: map[string]uint64{}}
	kill := sync.OnceFunc(func() {
		time.AfterFunc(life, func() { _ = cmd.Process.Kill() })
	})
	// Life begins with the first acknowledgement, so that a busy machine does not
	// make a test of nothing; a process that acknowledges nothing is killed, too.
	guard := time.AfterFunc(20*time.Second, kill)
	defer guard.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var name string
		var seq uint64
		if n, _ := fmt.Sscanf(lines.Text(), "ack %s %d", &name, &seq); n != 2 {
			r.errs = append(r.errs, lines.Text())
			continue
		}
		r.acks[resumeKey(name)] = max(r.acks[resumeKey(name)], seq)
		kill()
	}
	_ = cmd.Wait() // it was killed
	return r
}

// TestKill kills writers with signal 9 again and again, two at a time: what they
// have acknowledged stays, the file can always be read, and what they leave behind
// is swept.
func TestKill(t *testing.T) {
	path := statePath(t)
	kills := 16
	if torture() {
		kills = 10000
	}
	acked := &floors{at: map[string]uint64{}}
	total := 0
	for round := 0; 2*round < kills; round++ {
		var both [2]reading
		var wg sync.WaitGroup
		for i := range both {
			wg.Go(func() { both[i] = runUntilKilled(t, path, 3*i, 3, rand.N(25*time.Millisecond)) })
		}
		wg.Wait()
		raw, err := loadPeer(path)
		if err != nil {
			t.Fatalf("after %d rounds the file cannot be read: %v", round, err)
		}
		for _, r := range both {
			for _, line := range r.errs {
				t.Errorf("a writer said %q", line)
			}
			for key, sequence := range r.acks {
				acked.raise(key, sequence)
			}
			total += len(r.acks)
		}
		for key, sequence := range acked.copy() {
			if raw[key].Sequence < sequence {
				t.Fatalf("%s is at %d, %d was acknowledged", key, raw[key].Sequence, sequence)
			}
		}
		if t.Failed() {
			return
		}
	}
	advance(t, open(t, path, nil), keyA, at(1), checkpoint.Advanced)
	assertNoLeftOvers(t, path)
	t.Logf("%d kills, %d times a key was acknowledged", kills, total)
}

// needStrace skips the test where there is no strace, but not on the machines that
// guard the project.
func needStrace(t *testing.T) {
	t.Helper()
	err := exec.Command("strace", "-qq", "-e", "trace=none", "true").Run()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatalf("strace is needed here: %v", err)
	}
	if err != nil {
		t.Skipf("no strace: %v", err)
	}
}

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
	needStrace(t)
	all := []struct {
		inject  string
		dir     bool // only calls on the directory
		outcome string
	}{
		{"pwrite64:error=EIO:when=%d", false, "not applied"},
		{"pwrite64:error=ENOSPC:when=%d", false, "not applied"},
		{"fsync:error=EIO:when=%d", false, ""}, // of the file or of the directory
		{"fsync:error=EIO:when=%d", true, "outcome unknown"},
		{"fsync:error=ENOSPC:when=%d", true, "outcome unknown"},
		{"renameat:error=EIO:when=%d", false, "not applied"},
		{"renameat:error=ENOSPC:when=%d", false, "not applied"},
		{"fchmod:error=EIO:when=%d", false, "not applied"},
	}
	for _, tt := range all {
		for _, when := range []string{"1", "2+3", "1+"} {
			inject := strings.ReplaceAll(tt.inject, "%d", when)
			t.Run(fmt.Sprintf("%s,directory=%v", inject, tt.dir), func(t *testing.T) {
				t.Parallel()
				runFaults(t, inject, tt.dir, tt.outcome, when == "1+")
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
			refused := "err not applied: checkpoint get " + resumeKey("k") + ": what " + path + " holds may not survive"
			if got := p.ask("%s k", read); got != want && !(strings.HasPrefix(inject, "fsync") && strings.HasPrefix(got, refused)) {
				t.Fatalf("after %q: %s got %q, want %q", answer, read, got, want)
			}
		}
	}
	if always && failed != 5 {
		t.Errorf("%d of 5 writes failed", failed)
	}
	// Afterwards everything goes on, and nothing is left over.
	s = open(t, path, nil)
	wantAt(t, s, resumeKey("k"), now)
	advance(t, s, resumeKey("k"), at(100), checkpoint.Advanced)
	assertNoLeftOvers(t, path)
}

// TestInterruptedLock: a signal that interrupts the wait for the lock is no error.
func TestInterruptedLock(t *testing.T) {
	needStrace(t)
	path := statePath(t)
	p := underStrace(t, "flock:error=EINTR:when=1..3")
	p.want("ok", "open %s", path)
	p.want("advanced", "put k 1 null")
}

// TestKilledBetweenTwoLines kills a writer at each of its system calls: then the file
// has the state before or the one after, with the fences of at least the one it has,
// and the next writer goes on.
func TestKilledBetweenTwoLines(t *testing.T) {
	needStrace(t)
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
	if err != nil {
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
	needStrace(t)
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

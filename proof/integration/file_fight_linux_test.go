package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// interrupt stops or kills this process, and says so before.
func interrupt(how, instant string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	line, err := json.Marshal(event{Kind: how, At: now(), Text: instant})
	if err != nil {
		panic(err)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(1) // the parent no longer exists
	}
	signal := syscall.SIGSTOP
	if how == "kill" {
		signal = syscall.SIGKILL
	}
	// To this thread, so that it does not get past this line.
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), signal); err != nil {
		panic(err)
	}
}

// fileFight is a fight on a file store, whose workers stop and kill themselves at
// the instants that matter, and are stopped and killed at any other.
type fileFight struct {
	*fight
	heard    map[int]int // of each process, how many events were looked at
	instants map[string]int
	resumes  []*time.Timer
}

// newFileFight begins a fight in a new directory.
func newFileFight(t *testing.T, ttl time.Duration, faults fileFaults, sessions bool) *fileFight {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("HOLDFAST_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("HOLDFAST_SEED=%d", seed)
	dir := filepath.Join(t.TempDir(), "store")
	return &fileFight{
		fight: newFight(t, job{
			Target: target{Kind: "file", Space: dir, File: faults},
			TTL:    ttl, Margin: ttl / 10, Grace: -1, Seed: seed, Sessions: sessions,
		}),
		heard: map[int]int{}, instants: map[string]int{},
	}
}

// run lets so many workers fight for a time.
func (f *fileFight) run(workers int, d time.Duration) {
	for range workers {
		f.alive = append(f.alive, f.start())
	}
	next := time.Now()
	for end := next.Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for i, w := range f.alive {
			f.attend(i, w)
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(time.Duration(f.rnd.Int64N(int64(f.job.TTL))))
		i := f.rnd.IntN(len(f.alive))
		if w := f.alive[i]; f.rnd.IntN(3) == 0 {
			f.kills++
			f.replace(i)
		} else {
			f.stops++
			_ = w.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
			f.resume(w)
		}
	}
	for _, timer := range f.resumes {
		timer.Stop()
	}
	for i, w := range f.alive {
		f.attend(i, w)
		_ = f.alive[i].cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	}
}

// attend does what a worker has asked for since it was looked at last.
func (f *fileFight) attend(i int, w *fighter) {
	f.mu.Lock()
	events := slices.Clone(f.events[w.number][f.heard[w.number]:])
	f.mu.Unlock()
	f.heard[w.number] += len(events)
	for _, e := range events {
		switch e.Kind {
		case "stop":
			f.instants["stop "+e.Text]++
			f.resume(w)
		case "kill":
			f.instants["kill "+e.Text]++
			f.replace(i)
		}
	}
}

// resume continues a worker in a while: two times of three past its lease.
func (f *fileFight) resume(w *fighter) {
	pause := f.job.TTL/10 + time.Duration(f.rnd.Int64N(int64(f.job.TTL*5/2)))
	f.resumes = append(f.resumes, time.AfterFunc(pause, func() {
		_ = w.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	}))
}

// replace kills a worker and starts another one.
func (f *fileFight) replace(i int) {
	_ = f.alive[i].cmd.Process.Kill() // it may have done so itself
	_ = f.alive[i].cmd.Wait()         // killed
	f.alive[i] = f.start()
}

// calm ends the workers' own faults: those that are left are replaced by others
// that have none, which all get the lock in the end.
func (f *fileFight) calm() {
	f.job.Target.File = fileFaults{}
	for i := range f.alive {
		f.replace(i)
	}
	f.lastRound()
}

// Processes fight over one lock in a directory. They are killed with -9, and stopped
// for longer than the lease, at any time and at each instant that matters. At no
// instant of the machine's monotonic clock do two of them believe that they hold the
// lock; tokens rise; no write with a stale token reaches the counter behind the
// fence; the whole history is one of a lease; and every process that is left gets the lock.
func TestFileTorture(t *testing.T) {
	t.Parallel()
	tortureFiles(t, 12*time.Second, 5, false)
}

// The same with leases under sessions, and some without. The processes are stopped and killed
// before and after openings, beats, fences and closings, too.
func TestFileSessionTorture(t *testing.T) {
	t.Parallel()
	tortureFiles(t, 10*time.Second, 4, true)
}

func tortureFiles(t *testing.T, duration time.Duration, workers int, sessions bool) {
	if torture() {
		duration, workers = 150*time.Second, 5
	}
	f := newFileFight(t, 500*time.Millisecond, fileFaults{Chance: 0.05}, sessions)
	f.run(workers, duration)
	f.calm()
	st, err := openFile(f.job.Target)
	if err != nil {
		t.Fatal(err)
	}
	f.check(st)
	instants := []string{"before acquire", "after acquire", "before release", "after release", "after fenced write"}
	if sessions {
		instants = append(instants, "after opening", "before fence", "after fence", "after closing")
	}
	for _, what := range instants {
		if torture() && (f.instants["stop "+what] == 0 || f.instants["kill "+what] == 0) {
			t.Errorf("no process was stopped and killed %s", what)
		}
	}
	var struck []string
	for what, n := range f.instants {
		struck = append(struck, fmt.Sprintf("%s %d", what, n))
	}
	slices.Sort(struck)
	t.Logf("at their own hands: %s", strings.Join(struck, ", "))

	h := f.history()
	if err := h.check(); err != nil {
		t.Errorf("the history is not one of a lease: %v", err)
	}
	h.controls(t, rand.New(rand.NewPCG(f.job.Seed, 2)))
}

// The control: workers who take every other process for dead. The fight is the same,
// and the checks see two holders.
func TestFileTortureControl(t *testing.T) {
	t.Parallel()
	f := newFileFight(t, 500*time.Millisecond, fileFaults{Rash: true}, false)
	for range 4 {
		f.alive = append(f.alive, f.start())
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		h := f.history()
		if h.overlaps() > 0 && errors.Is(h.check(), errIllegal) {
			t.Logf("%d overlaps of %d grants are seen", h.overlaps(), len(h.grants))
			return
		}
	}
	t.Error("two holders were not noticed")
}

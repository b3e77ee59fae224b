package integration_test

import (
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// fileLock is a client on a new directory.
func fileLock(t *testing.T) (dir string, c *lease.Client) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	st, err := filestore.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	if c, err = lease.New(st, nil); err != nil {
		t.Fatal(err)
	}
	return dir, c
}

// spread gives the distribution of times.
func spread(t *testing.T, what string, times []time.Duration) (median time.Duration) {
	t.Helper()
	slices.Sort(times)
	at := func(q float64) time.Duration { return times[int(q*float64(len(times)-1))] }
	t.Logf("%s, %d times: least %v, median %v, 90 %% %v, 99 %% %v, most %v", what, len(times), at(0), at(0.5), at(0.9), at(0.99), at(1))
	return at(0.5)
}

// A lock that is released reaches a process that waits for it at once.
func TestFileHandOver(t *testing.T) {
	rounds := 50
	if torture() {
		rounds = 500
	}
	dir, c := fileLock(t)
	h, err := c.Handle(tortureLock, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := startChild(t, childJob{dir, 1})
	var times []time.Duration
	for range rounds {
		guard, err := h.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		other.ask("wait")
		other.hear("waiting")
		time.Sleep(2 * time.Millisecond) // until it sleeps
		released := now()
		if err := guard.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Duration(other.hear("held").At-released))
	}
	if median := spread(t, "from the call of Release to the return of Acquire in another process", times); median > 100*time.Millisecond {
		t.Errorf("the median is %v", median)
	}
}

// A waiter has the lock of a process that is killed with -9 long before
// the lease expires: the file store knows who is alive.
func TestFileKilledHolder(t *testing.T) {
	t.Parallel()
	rounds := 15
	if torture() {
		rounds = 100
	}
	f := newFileFight(t, 30*time.Second, fileFaults{}, false)
	for range 4 {
		f.alive = append(f.alive, f.start())
	}
	var times []time.Duration
	for len(times) < rounds {
		i := f.holder(now(), time.Now().Add(time.Minute))
		if i < 0 {
			t.Fatal("no process has the lock")
		}
		victim := f.alive[i]
		killed := now()
		if err := victim.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = victim.cmd.Wait() // killed
		dead := f.lastOf(victim)
		f.alive[i] = f.start()
		if dead.Kind == "released" || dead.At > killed {
			continue // it had given the lock back
		}
		next := f.heldAfter(killed, time.Now().Add(time.Minute))
		if next == 0 {
			t.Fatal("no process got the lock of one that was killed")
		}
		times = append(times, time.Duration(next-killed))
	}
	if median := spread(t, "from kill -9 of the holder to the return of Acquire in another process, with a TTL of 30 s", times); median > 5*time.Second {
		t.Errorf("the median is %v", median)
	}
	h := f.history()
	if err := h.check(); err != nil {
		t.Errorf("the history is not one of a lease: %v", err)
	}
}

// lastOf is the last thing that a worker said before it died.
func (f *fight) lastOf(w *fighter) (last event) {
	for {
		f.mu.Lock()
		n := len(f.events[w.number])
		if n > 0 {
			last = f.events[w.number][n-1]
		}
		f.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // what is in the pipe
		f.mu.Lock()
		quiet := n == len(f.events[w.number])
		f.mu.Unlock()
		if quiet {
			return last
		}
	}
}

// heldAfter waits for the first grant after an instant, and returns when that client heard of it.
func (f *fight) heldAfter(since int64, deadline time.Time) (at int64) {
	for at == 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
		f.mu.Lock()
		for _, events := range f.events {
			for _, e := range events {
				if e.Kind == "held" && e.At > since && (at == 0 || e.At < at) {
					at = e.At
				}
			}
		}
		f.mu.Unlock()
	}
	return at
}

// Waiting costs nothing: neither a thousand waiters in one process nor a hundred
// processes use the processor while nothing happens.
func TestFileIdle(t *testing.T) {
	t.Parallel()
	processes := 20 // the system allows a user few inotify instances, which tests at the same time share
	if torture() {
		processes = 100
	}
	for _, test := range []struct {
		name               string
		processes, waiters int
	}{
		{"one process", 1, 1000},
		{"processes", processes, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, c := fileLock(t)
			guard, err := c.Acquire(t.Context(), tortureLock, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer guard.Release(t.Context())
			children := make([]*child, test.processes)
			for i := range children {
				children[i] = startChild(t, childJob{dir, test.waiters})
				children[i].ask("wait")
			}
			for _, c := range children {
				c.hear("waiting") // once for all waiters of a client
			}
			time.Sleep(1500 * time.Millisecond) // until all sleep
			const span = 3 * time.Second
			before := used(children)
			began := time.Now()
			time.Sleep(span)
			cpu := used(children) - before
			took := time.Since(began)
			share := float64(cpu) / float64(took)
			t.Logf("%d processes with %d waiters each: %v of processor time in %v, %.2f %% of a processor; %d threads, %d kB resident in the first",
				test.processes, test.waiters, cpu, took.Round(time.Millisecond), 100*share,
				processStatus(children[0].cmd.Process.Pid, "Threads"), processStatus(children[0].cmd.Process.Pid, "VmRSS"))
			most := 0.1
			if raced() {
				most = 0.5
			}
			if share > most {
				t.Errorf("waiting uses %.1f %% of a processor, %.0f %% are allowed", 100*share, 100*most)
			}
		})
	}
}

// raced reports whether the race detector is on, which makes everything dearer.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// used is the processor time of all children together.
func used(children []*child) (sum time.Duration) {
	var wg sync.WaitGroup
	times := make([]time.Duration, len(children))
	for i, c := range children {
		c.ask("cpu")
		wg.Go(func() { times[i] = c.hear("cpu").CPU })
	}
	wg.Wait()
	for _, d := range times {
		sum += d
	}
	return sum
}

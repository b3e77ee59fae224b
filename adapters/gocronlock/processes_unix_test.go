//go:build unix

package gocronlock_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/holdfast-go/holdfast/adapters/cronlock"
	"github.com/holdfast-go/holdfast/adapters/gocronlock"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// machine is a process of the tests: a scheduler with a job that ticks each second.
type machine struct {
	Kind string // gocron, cron, elector or plain
	Name string
	Dir  string // of the store
	Log  string // file of lines
	Late time.Duration
}

const machineVar = "HOLDFAST_TEST_MACHINE"

func TestMain(m *testing.M) {
	if config := os.Getenv(machineVar); config != "" {
		var of machine
		err := json.Unmarshal([]byte(config), &of)
		if err == nil {
			err = of.work()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// line is what a machine writes: when a run begins, when it ends, and when its lease is lost.
type line struct {
	Event, Machine string
	Token          uint64
	Tick           time.Time // the end of the period of the run
}

func (m *machine) write(l line) {
	l.Machine = m.Name
	text, _ := json.Marshal(l)
	file, err := os.OpenFile(m.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.Write(append(text, '\n'))
	}
	if err != nil {
		panic(err)
	}
	_ = file.Close()
}

// isSlow reports whether the run of a tick takes two seconds. The others are fast.
func isSlow(tick time.Time) bool { return tick.Unix()%4 == 0 }

// work runs until the process is killed.
func (m *machine) work() error {
	st, err := filestore.Open(m.Dir, nil)
	if err != nil {
		return err
	}
	client, err := lease.New(st, nil)
	if err != nil {
		return err
	}
	leases := &lease.Options{TTL: 3 * time.Second}
	run := func(ctx context.Context, guard *lease.Guard) error {
		info, err := client.Inspect(ctx, "test/tick")
		if err != nil || info.Record.Token != guard.Token() || info.Record.Run == nil {
			return err
		}
		tick := info.Record.Run.PeriodEnd
		m.write(line{Event: "begin", Token: guard.Token(), Tick: tick})
		if isSlow(tick) {
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
			}
		}
		if guard.Err() != nil {
			m.write(line{Event: "lost", Token: guard.Token(), Tick: tick})
		} else {
			m.write(line{Event: "end", Token: guard.Token(), Tick: tick})
		}
		return nil
	}
	if m.Kind == "cron" {
		locker, err := cronlock.New(st, "test", lease.Every(time.Second), &cronlock.Options{Lease: *leases})
		if err != nil {
			return err
		}
		scheduler := cron.New(cron.WithSeconds())
		if _, err := scheduler.AddJob("* * * * * *", locker.Job(context.Background(), "tick", run)); err != nil {
			return err
		}
		scheduler.Run()
	}
	task, option := gocron.NewTask(func() {
		m.write(line{Event: "begin", Tick: time.Now().Truncate(time.Second)})
	}), gocron.WithDistributedLocker(late{plain{client}, m.Late})
	switch m.Kind {
	case "gocron":
		locker, err := gocronlock.New(st, "test", lease.Every(time.Second), leases)
		if err != nil {
			return err
		}
		task, option = locker.Task(run), gocron.WithDistributedLocker(late{locker, m.Late})
	case "elector":
		elector, err := gocronlock.NewElector(st, "test", leases)
		if err != nil {
			return err
		}
		option = gocron.WithDistributedElector(elector)
		task = elector.Task(func(_ context.Context, guard *lease.Guard) error {
			m.write(line{Event: "begin", Token: guard.Token()})
			return nil
		})
	}
	scheduler, err := gocron.NewScheduler(option)
	if err != nil {
		return err
	}
	if _, err := scheduler.NewJob(gocron.CronJob("* * * * * *", true), task, gocron.WithName("tick")); err != nil {
		return err
	}
	scheduler.Start()
	select {}
}

// fleet is a test with several machines on one store.
type fleet struct {
	*testing.T
	kind      string
	dir       string
	log       string
	processes map[string]*exec.Cmd
	known     int // lines that await has passed
}

func newFleet(t *testing.T, kind string) *fleet {
	f := &fleet{T: t, kind: kind, dir: t.TempDir(), processes: map[string]*exec.Cmd{}}
	f.log = filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(f.log, nil, 0o600))
	t.Cleanup(func() {
		for _, p := range f.processes {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	for range 3 {
		f.start()
	}
	return f
}

// start starts one more machine.
func (f *fleet) start() {
	f.Helper()
	n := len(f.processes)
	of := machine{Kind: f.kind, Name: fmt.Sprint("machine-", n), Dir: f.dir, Log: f.log, Late: time.Duration(n%3) * 100 * time.Millisecond}
	config, err := json.Marshal(of)
	must(f.T, err)
	p := exec.Command(os.Args[0])
	p.Env = append(os.Environ(), machineVar+"="+string(config))
	p.Stderr = os.Stderr
	must(f.T, p.Start())
	f.processes[of.Name] = p
}

func (f *fleet) signal(name string, signal syscall.Signal) {
	f.Helper()
	must(f.T, f.processes[name].Process.Signal(signal))
}

func (f *fleet) lines() (all []line) {
	f.Helper()
	text, err := os.ReadFile(f.log)
	must(f.T, err)
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		var l line
		must(f.T, json.Unmarshal(scanner.Bytes(), &l))
		all = append(all, l)
	}
	return all
}

// await waits until a line fits, and returns it. The next call begins after this line.
func (f *fleet) await(what string, fits func(line) bool) line {
	f.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		all := f.lines()
		if i := slices.IndexFunc(all[f.known:], fits); i >= 0 {
			f.known += i + 1
			return all[f.known-1]
		}
	}
	f.Fatalf("no line of %s after %d lines", what, f.known)
	return line{}
}

func event(name string) func(line) bool { return func(l line) bool { return l.Event == name } }

// Several processes run each tick once while their holders are killed, and stopped for longer than their
// leases. A stopped run learns that its lease is lost.
func TestKilledAndStoppedHolders(t *testing.T) {
	for _, kind := range []string{"gocron", "cron"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, kind)
			for range 3 {
				f.await("a run", event("end"))
			}
			slow := func() line {
				f.known = len(f.lines())
				return f.await("a slow run", func(l line) bool { return l.Event == "begin" && isSlow(l.Tick) })
			}
			for range 2 {
				killed := slow()
				f.signal(killed.Machine, syscall.SIGKILL)
				f.start()
				f.await("another machine", func(l line) bool { return l.Event == "end" && l.Machine != killed.Machine && l.Token > killed.Token })
			}
			stopped := slow()
			f.signal(stopped.Machine, syscall.SIGSTOP)
			f.await("another machine", func(l line) bool {
				return l.Event == "begin" && l.Machine != stopped.Machine && l.Token > stopped.Token
			})
			f.signal(stopped.Machine, syscall.SIGCONT)
			f.await("the stopped run", func(l line) bool { return l.Event == "lost" && l.Token == stopped.Token })
			f.await("a run", event("end"))

			ticks, last := map[time.Time]line{}, line{}
			for _, l := range f.lines() {
				if l.Event != "begin" {
					continue
				}
				if other, ok := ticks[l.Tick]; ok {
					t.Errorf("the tick of %v ran on %s and on %s", l.Tick, other.Machine, l.Machine)
				}
				ticks[l.Tick] = l
				if l.Token <= last.Token || !l.Tick.After(last.Tick) {
					t.Errorf("%+v follows %+v", l, last)
				}
				last = l
			}
		})
	}
}

// The control: with a lock alone, each process runs the tick.
func TestLockAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "plain")
	f.await("a tick that ran three times", func(of line) bool {
		var machines []string
		for _, l := range f.lines() {
			if l.Tick.Equal(of.Tick) {
				machines = append(machines, l.Machine)
			}
		}
		return len(machines) == 3 && !strings.Contains(strings.Join(machines[1:], " "), machines[0])
	})
}

// A leader that is stopped for longer than its lease, or killed, is replaced, and runs nothing any more.
func TestKilledAndStoppedLeaders(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "elector")
	next := func(after line) line {
		return f.await("the next leader", func(l line) bool { return l.Token > after.Token })
	}
	first := next(line{})
	time.Sleep(300 * time.Millisecond) // between two ticks
	f.signal(first.Machine, syscall.SIGSTOP)
	second := next(first)
	f.signal(first.Machine, syscall.SIGCONT)
	for range 3 {
		f.await("the second leader", func(l line) bool { return l.Machine == second.Machine })
	}
	f.signal(second.Machine, syscall.SIGKILL)
	next(second)
	var last line
	for _, l := range f.lines() {
		if l.Token < last.Token {
			t.Errorf("%+v follows %+v", l, last)
		}
		last = l
	}
}

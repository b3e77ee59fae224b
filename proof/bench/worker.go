package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// task is what a worker process does.
type task struct {
	Kind string
	Dir  string
	Name string

	// Cycles takes and frees the lock for this time and says how often it did.
	Cycles time.Duration

	// Locks is how many locks a worker wants that holds until it is killed: the name
	// with a number. It asks for one after the other, and waits for all.
	Locks int

	// Writes, if set, makes a worker take the Locks, wait for a second line, and then write this number
	// where the locks protect it.
	Writes uint64

	// Relay, if set, makes the worker repeat for ever: it takes the lock, holds it for this
	// time, and notes when it frees it.
	Relay time.Duration
}

// spread is the time between the beginnings of several waits, which would keep in step.
const spread = 250 * time.Millisecond

// line is what a worker says.
type line struct {
	What string // ready, held, freed, done
	At   int64  // CLOCK_MONOTONIC, nanoseconds
	N    int
	Used time.Duration // processor time, of done
}

// monotonic reads the clock that all processes of the machine share.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// processorTime is the processor time that this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// run is the whole life of a worker. It waits for a line on in before it begins.
func (t *task) run(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	l, err := openLocks(t.Kind, t.Dir)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(what string, at int64, n int) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(out).Encode(line{What: what, At: at, N: n})
	}
	say("ready", monotonic(), 0)
	lines := bufio.NewReader(in)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	switch {
	case t.Writes > 0:
		return t.writeLate(ctx, l.(claimants), lines, say)
	case t.Cycles > 0:
		n, began := 0, processorTime()
		for end := time.Now().Add(t.Cycles); time.Now().Before(end); n++ {
			unlock, err := l.lock(ctx, t.Name)
			if err != nil {
				return err
			}
			if err := unlock(); err != nil {
				return err
			}
		}
		_ = json.NewEncoder(out).Encode(line{"done", monotonic(), n, processorTime() - began})
	case t.Relay > 0:
		for {
			unlock, err := l.lock(ctx, t.Name)
			held := monotonic()
			if err != nil {
				return err
			}
			time.Sleep(t.Relay)
			freed := monotonic()
			if err := unlock(); err != nil {
				return err
			}
			say("held", held, 0)
			say("freed", freed, 0)
			time.Sleep(t.Relay / 2) // let the other one have it
		}
	default:
		failed := make(chan error, t.Locks+1)
		kept := make([]func() error, t.Locks) // so that no connection is closed as garbage
		for i := range t.Locks {
			go func() {
				var err error
				if kept[i], err = l.lock(ctx, fmt.Sprint(t.Name, i)); err != nil {
					failed <- err
					return
				}
				say("held", monotonic(), i)
			}()
			time.Sleep(spread)
		}
		go func() { failed <- untilEnd(lines) }()
		err := <-failed
		runtime.KeepAlive(kept)
		return err
	}
	return nil
}

// untilEnd waits until the input ends, as it does when the program that started the worker ends. With no goroutine but
// those that wait for each other, Go would end the worker, and free its locks.
func untilEnd(in io.Reader) error {
	_, err := io.Copy(io.Discard, in)
	return err
}

// process is another process of this program: a worker, or a member.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startProcess starts this program with a flag whose value is the task in JSON.
func startProcess(flag string, task any) (*process, error) {
	config, err := json.Marshal(task)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0], flag, string(config))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, in, json.NewDecoder(out)}, cmd.Start()
}

func startWorker(t task) (*process, error) {
	p, err := startProcess("-worker", t)
	if err == nil {
		_, err = p.next("ready")
	}
	return p, err
}

// begin sends a line, for which the process waits.
func (p *process) begin() error {
	_, err := io.WriteString(p.in, "\n")
	return err
}

// result reads what the process says next.
func (p *process) result(v any) error {
	if err := p.out.Decode(v); err != nil {
		return fmt.Errorf("a process ended: %w", err)
	}
	return nil
}

// next waits for the worker's next line, which must say what.
func (p *process) next(what string) (l line, err error) {
	if err := p.result(&l); err != nil {
		return l, err
	}
	if l.What != what {
		return l, fmt.Errorf("a worker said %q in place of %q", l.What, what)
	}
	return l, nil
}

// kill ends the process with -9 and returns when.
func (p *process) kill() int64 {
	at := monotonic()
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.cmd.Wait()
	return at
}

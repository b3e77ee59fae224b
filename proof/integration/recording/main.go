//go:build unix

// Command recording records how Holdfast changes the holder of a lock, with the real command, and writes
// the recording to standard output as an SVG file:
//
//	go run ./proof/integration/recording > docs/takeover.svg
//
// Three workers want one lock. The first is killed. The second is stopped until its lease is over. Then it
// continues, and writes too late.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/observe/picture"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "holdfast-recording-")
	if err == nil {
		var svg []byte
		if svg, err = record(ctx, dir, 1200*time.Millisecond); err == nil {
			_, err = os.Stdout.Write(svg)
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

const (
	lock = "nightly"
	ttl  = 3 * time.Second
)

// job is the work under the lock: it saves each position that it reads, with its token as the fence.
const job = `echo "$HOLDFAST_TOKEN $$"
while read -r position; do
  holdfast checkpoint advance orders "$position" --fence "$HOLDFAST_TOKEN" 2>&1
  echo "status $?"
done`

// recorder keeps the story.
type recorder struct {
	env  []string
	dir  string
	pace time.Duration

	mu       sync.Mutex
	timeline picture.Timeline
	captions []picture.Caption
}

// record plays the story in a directory, waits for pace between its parts, and returns the picture.
func record(ctx context.Context, dir string, pace time.Duration) ([]byte, error) {
	state := "-X github.com/holdfast-go/holdfast/cmd/internal/stores.RootState=" + filepath.Join(dir, "state")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", state, "-o", dir+"/", "github.com/holdfast-go/holdfast/cmd/holdfast")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	st, err := filestore.Open(filepath.Join(dir, "store"), nil)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	client, err := lease.New(st, nil)
	if err != nil {
		return nil, err
	}
	defer client.Close(context.WithoutCancel(ctx))
	r := &recorder{dir: dir, pace: pace}
	r.env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOLDFAST_STORE=file:"+filepath.Join(dir, "store"), "XDG_STATE_HOME="+filepath.Join(dir, "state"))

	began := time.Now()
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() { r.watch(watching, client) })
	if err := r.play(ctx); err != nil {
		return nil, err
	}
	stop()
	wg.Wait()
	to := time.Now()
	return r.timeline.SVG(picture.SVGOptions{
		From: began, To: to, Play: to.Sub(began), Captions: r.captions,
		Title: "A takeover: a worker dies, and a stopped worker writes too late",
	}), nil
}

// watch draws the lock. No worker but the last releases it: a change of hands is a takeover.
func (r *recorder) watch(ctx context.Context, client *lease.Client) {
	var tracker picture.Tracker
	for info, err := range client.Watch(ctx, lock) {
		if err != nil {
			return
		}
		events := tracker.See(info.Record, time.Now())
		r.mu.Lock()
		for _, e := range events {
			if e.Kind == picture.Changed {
				e.Kind = picture.TakenOver
			}
			r.timeline.Add(e)
		}
		r.mu.Unlock()
	}
}

// tell adds a line to the story. If the word is not empty, the picture shows it at the lock, too. Otherwise a part of the
// story ends with the line, and tell waits.
func (r *recorder) tell(alert bool, word, format string, args ...any) {
	now := time.Now()
	r.mu.Lock()
	r.captions = append(r.captions, picture.Caption{At: now, Text: fmt.Sprintf(format, args...), Alert: alert})
	if word != "" {
		r.timeline.Add(picture.Event{Time: now, Lock: lock, Kind: picture.Noted, Reason: word})
	}
	r.mu.Unlock()
	if word == "" {
		time.Sleep(r.pace)
	}
}

// worker is one "holdfast run" with its job.
type worker struct {
	number int
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	job    int // its process group
	token  string
	errors bytes.Buffer
}

// start starts a worker, which waits for the lock.
func (r *recorder) start(ctx context.Context, number int) (*worker, error) {
	w := &worker{number: number}
	w.cmd = exec.CommandContext(ctx, filepath.Join(r.dir, "holdfast"), "run", lock, "--ttl", ttl.String(), "--holder", fmt.Sprint("worker ", number), "--", "sh", "-c", job)
	w.cmd.Env, w.cmd.Stderr, w.cmd.WaitDelay = r.env, &w.errors, time.Second
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewScanner(out)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return w, w.cmd.Start()
}

// holds waits until the worker has the lock.
func (w *worker) holds() error {
	if !w.out.Scan() {
		return fmt.Errorf("worker %d got no lock: %w: %s", w.number, io.ErrUnexpectedEOF, w.errors.String())
	}
	_, err := fmt.Sscan(w.out.Text(), &w.token, &w.job)
	w.token = "…" + w.token[max(0, len(w.token)-3):] // the first token of a lock is a time
	return err
}

// saves waits until the worker has tried to save a position, and returns the answer of the command.
func (w *worker) saves(position int) (answer string, err error) {
	if _, err := fmt.Fprintln(w.in, position); err != nil {
		return "", err
	}
	for w.out.Scan() {
		if status, done := strings.CutPrefix(w.out.Text(), "status "); done {
			if status != "0" {
				return answer, fmt.Errorf("status %s", status)
			}
			return answer, nil
		}
		if text, found := strings.CutPrefix(w.out.Text(), "holdfast: "); found {
			answer = text
		}
	}
	return answer, fmt.Errorf("worker %d has ended: %w", w.number, io.ErrUnexpectedEOF)
}

// play plays the story.
func (r *recorder) play(ctx context.Context) error {
	var workers [4]*worker // from 1
	defer func() {
		for _, w := range workers {
			if w != nil && w.cmd.ProcessState == nil {
				if w.job > 1 {
					_ = syscall.Kill(-w.job, syscall.SIGKILL)
				}
				_ = w.cmd.Process.Kill()
				_ = w.cmd.Wait()
			}
		}
	}()
	var err error
	begin := func(n int) error { workers[n], err = r.start(ctx, n); return err }
	save := func(n, position int) error {
		if _, err := workers[n].saves(position); err != nil {
			return err
		}
		r.tell(false, "", "worker %d saves position %d with token %s: accepted", n, position, workers[n].token)
		return nil
	}

	if err := begin(1); err != nil {
		return err
	}
	if err := workers[1].holds(); err != nil {
		return err
	}
	r.tell(false, "", "worker 1 holds the lock, with token %s", workers[1].token)
	if err := save(1, 1); err != nil {
		return err
	}
	if err := begin(2); err != nil {
		return err
	}
	r.tell(false, "", "worker 2 waits for the lock")

	r.tell(true, "kill -9", "worker 1 is killed: kill -9")
	killed := time.Now()
	if err := workers[1].cmd.Process.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = workers[1].cmd.Wait() // its status is that of the signal
	if err := workers[2].holds(); err != nil {
		return err
	}
	r.tell(false, "", "worker 2 takes over within %d ms, with token %s", time.Since(killed).Milliseconds()+1, workers[2].token)
	if err := save(2, 2); err != nil {
		return err
	}
	if err := begin(3); err != nil {
		return err
	}
	r.tell(false, "", "worker 3 waits for the lock")

	r.tell(true, "SIGSTOP", "worker 2 is stopped for a long time: SIGSTOP")
	if err := errors.Join(workers[2].cmd.Process.Signal(syscall.SIGSTOP), syscall.Kill(-workers[2].job, syscall.SIGSTOP)); err != nil {
		return err
	}
	stopped := time.Now()
	if err := workers[3].holds(); err != nil {
		return err
	}
	r.tell(false, "", "worker 3 takes over %.1f s later, with token %s: the last renewal is %v old", time.Since(stopped).Seconds(), workers[3].token, ttl)
	if err := save(3, 3); err != nil {
		return err
	}

	// The job continues before holdfast, which would stop it.
	r.tell(true, "SIGCONT", "worker 2 continues, and saves position 4 with token %s", workers[2].token)
	if err := syscall.Kill(-workers[2].job, syscall.SIGCONT); err != nil {
		return err
	}
	answer, err := workers[2].saves(4)
	if err == nil {
		return errors.New("the late write was not refused")
	}
	r.mu.Lock()
	r.timeline.Add(picture.Event{Time: time.Now(), Lock: lock, Kind: picture.Refused, By: "worker 2", Reason: answer})
	r.mu.Unlock()
	reason, _, _ := strings.Cut(answer, ",")
	r.tell(true, "", "the fence refuses the late write: %s (%v)", reason, err)
	if err := workers[2].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	_ = workers[2].cmd.Wait()
	r.tell(true, "", "holdfast ends worker 2: status %d, the lease is lost", workers[2].cmd.ProcessState.ExitCode())

	if err := workers[3].in.Close(); err != nil {
		return err
	}
	if err := workers[3].cmd.Wait(); err != nil {
		return err
	}
	get := exec.CommandContext(ctx, filepath.Join(r.dir, "holdfast"), "checkpoint", "get", "orders")
	get.Env = r.env
	position, err := get.Output()
	if err != nil {
		return err
	}
	r.tell(false, "", "worker 3 releases the lock; the saved position is %s", bytes.TrimSpace(position))
	return nil
}

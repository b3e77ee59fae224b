// Fence shows what a fencing token is for, on a directory, with real processes.
//
//	go run ./examples/fence
//
// A worker holds a lock, reads a ledger, and checks that it still holds the lock. There its
// process is stopped, as when a machine sleeps: after the check and before the write.
// Meanwhile the lock expires, another worker takes it, and adds a line to the ledger. Then
// the first worker continues, and writes what it had prepared. No lock can prevent that.
//
// The program plays this in two ways. With the fence off, each late write removes a line
// that had been committed; the program counts them. With the fence on, the other worker
// first raises the fence of the ledger, and the late write is refused.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

const (
	lock   = "ledger"
	ledger = "ledger.txt"
)

func main() {
	rounds := flag.Int("rounds", 3, "how often a holder is stopped")
	ttl := flag.Duration("ttl", time.Second, "of the lock; at least 500ms")
	dir := flag.String("worker", "", "used by the program itself: be the worker that is stopped, in this directory")
	line := flag.String("line", "", "used by the program itself: what the worker adds")
	fenced := flag.Bool("fenced", false, "used by the program itself: write with the token")
	flag.Parse()
	ctx := context.Background()
	if *dir != "" {
		os.Exit(worker(ctx, *dir, *ttl, *line, *fenced))
	}
	for _, fenced := range []bool{false, true} {
		r, err := play(ctx, *rounds, *ttl, fenced)
		if err != nil {
			fmt.Fprintln(os.Stderr, "fence:", err)
			os.Exit(1)
		}
		fmt.Println(r)
	}
}

// result counts the lines by their outcome.
type result struct {
	fenced    bool
	committed int // lines that the ledger acknowledged
	refused   int // late writes that were refused
	lost      int // committed lines that are missing
}

func (r result) String() string {
	word := "off"
	if r.fenced {
		word = "on"
	}
	return fmt.Sprintf("fence %s: %d lines committed, %d late writes refused, %d committed lines lost", word, r.committed, r.refused, r.lost)
}

// The exit statuses of the worker.
const (
	exitWritten = 0
	exitRefused = 76
)

// play lets a holder be stopped several times, and counts what that does.
func play(ctx context.Context, rounds int, ttl time.Duration, fenced bool) (r result, err error) {
	r.fenced = fenced
	dir, err := os.MkdirTemp("", "holdfast-fence-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	var committed []string
	for round := range rounds {
		stopped := fmt.Sprintf("round %d, by the worker that was stopped", round)
		cmd := exec.Command(os.Args[0], "--worker", dir, "--ttl", ttl.String(), "--line", stopped, fmt.Sprintf("--fenced=%v", fenced))
		cmd.Stderr = os.Stderr
		if err := startAndWaitUntilStopped(cmd); err != nil {
			return r, err
		}
		other := fmt.Sprintf("round %d, by the other worker", round)
		if err := add(ctx, dir, ttl, other, fenced, nil); err != nil {
			return r, errors.Join(err, cmd.Process.Kill())
		}
		committed = append(committed, other)
		err := resume(cmd)
		var exit *exec.ExitError
		switch {
		case err == nil:
			committed = append(committed, stopped)
		case errors.As(err, &exit) && exit.ExitCode() == exitRefused:
			r.refused++
		default:
			return r, fmt.Errorf("the worker: %w", err)
		}
	}
	r.committed = len(committed)
	b, err := dirbucket.Open(filepath.Join(dir, "objects"), nil)
	if err != nil {
		return r, err
	}
	defer b.Close()
	text, _, err := object.ReadAll(ctx, b, ledger, 1<<20, nil)
	if err != nil {
		return r, err
	}
	for _, line := range committed {
		if !bytes.Contains(text, []byte(line+"\n")) {
			r.lost++
		}
	}
	return r, nil
}

// worker adds a line, and is stopped before it writes. It returns the exit status.
func worker(ctx context.Context, dir string, ttl time.Duration, line string, fenced bool) int {
	err := add(ctx, dir, ttl, line, fenced, stopMyself)
	switch {
	case err == nil:
		return exitWritten
	case errors.Is(err, object.ErrFenced) && store.OutcomeOf(err) == store.NotApplied:
		return exitRefused
	}
	fmt.Fprintln(os.Stderr, "fence: worker:", err)
	return 1
}

// add adds a line to the ledger under the lock. It calls pause between the last look at
// the lock and the write.
func add(ctx context.Context, dir string, ttl time.Duration, line string, fenced bool, pause func() error) (err error) {
	st, err := filestore.Open(filepath.Join(dir, "locks"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	leases, err := lease.New(st, &lease.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close(ctx)) }()
	b, err := dirbucket.Open(filepath.Join(dir, "objects"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	objects, err := object.New(b, nil)
	if err != nil {
		return err
	}

	guard, err := leases.Acquire(ctx, lock, nil)
	if err != nil {
		return err
	}
	defer func() {
		if releaseErr := guard.Release(ctx); releaseErr != nil && guard.Err() == nil {
			err = errors.Join(err, releaseErr)
		}
	}()
	opts := &object.WriteOptions{}
	if fenced {
		fence := object.Fence{Lock: lock, Token: guard.Token()}
		// First raise the fence, then read: what is read now, no earlier holder changes.
		if _, err := objects.RaiseFence(guard.Context(), ledger, fence); err != nil {
			return err
		}
		opts.Fence = &fence
	}
	text, err := read(guard.Context(), objects)
	if err != nil {
		return err
	}
	if err := guard.Err(); err != nil {
		return err
	}
	if pause != nil {
		if err := pause(); err != nil {
			return err
		}
	}
	// This request is on its way already, and hears nothing of the end of the lease.
	_, err = objects.Put(ctx, ledger, strings.NewReader(text+line+"\n"), opts)
	return err
}

// read returns the ledger, which may not exist yet.
func read(ctx context.Context, objects *object.Client) (string, error) {
	r, err := objects.Get(ctx, ledger, nil)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

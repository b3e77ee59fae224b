package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
)

// writer is a claimant that can write what the lock protects, as its library shows it.
type writer struct {
	claimant

	// write reports whether the server accepted a write of the present holder, or of an earlier one.
	write func(ctx context.Context, n uint64) (accepted bool, err error)
}

// writers returns claimants that can write with a function.
func writers(open claimants, write func(ctx context.Context, c claimant, lock string, n uint64) (bool, error)) claimants {
	return func(lock string) (claimant, error) {
		c, err := open(lock)
		return writer{c, func(ctx context.Context, n uint64) (bool, error) { return write(ctx, c, lock, n) }}, err
	}
}

// writeLate takes the locks, waits for a line, and then writes what each lock protects. It says how many
// writes the server accepted.
func (t *task) writeLate(ctx context.Context, open claimants, in *bufio.Reader, say func(what string, at int64, n int)) error {
	held := make([]claimant, t.Locks)
	_, err := together(t.Locks, func(i int) (err error) {
		if held[i], err = open(fmt.Sprint(t.Name, i)); err == nil {
			err = held[i].wait(ctx)
		}
		if err == nil {
			say("held", monotonic(), i)
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	accepted := 0
	for _, c := range held {
		done, err := c.(writer).write(ctx, t.Writes)
		if err != nil {
			return err
		}
		if done {
			accepted++
		}
	}
	say("done", monotonic(), accepted)
	return nil
}

// late stops a process with SIGSTOP until another process has its locks and has written. Then the first
// process continues, and writes at once.
func late(w io.Writer, title, address string, locks int, kinds []string) error {
	t := table{head: []string{"on " + title + ": a holder is stopped past its lease, and then writes", fmt.Sprintf("late writes that the server accepted, of %d", locks)}}
	return t.rowsTogether(w, kinds, func(i int) ([]string, error) {
		accepted, err := lateWrites(kinds[i], address, locks)
		return []string{strconv.Itoa(accepted)}, err
	})
}

// lateWrites returns how many writes of the process that was stopped the server accepts.
func lateWrites(kind, address string, locks int) (int, error) {
	var pair [2]*process
	name := "late-" + rand.Text() + "-" // kinds share a server
	for i, value := range []uint64{20, 10} {
		var err error
		if pair[i], err = startWorker(task{Kind: kind, Dir: address, Name: name, Locks: locks, Writes: value}); err != nil {
			return 0, err
		}
		defer pair[i].kill()
		if err := pair[i].begin(); err != nil {
			return 0, err
		}
		for range locks { // the second process gets them when the leases have ended
			if _, err := pair[i].next("held"); err != nil {
				return 0, err
			}
		}
		if i == 0 {
			if err := pair[0].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				return 0, err
			}
		}
	}
	if err := pair[1].begin(); err != nil {
		return 0, err
	}
	if done, err := pair[1].next("done"); err != nil || done.N != locks {
		return 0, fmt.Errorf("%d of %d writes of the present holder were accepted: %w", done.N, locks, err)
	}
	// The line that lets it write, and then the signal that lets it continue.
	if err := errors.Join(pair[0].begin(), pair[0].cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		return 0, err
	}
	done, err := pair[0].next("done")
	return done.N, err
}

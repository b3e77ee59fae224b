// Follow handles each line of a growing file at least once, however many workers
// are started and however they die.
//
//	go run ./examples/follow --store /tmp/demo events.log >> handled.log
//
// Start it several times, in several terminals, and append lines to the file. One worker at
// a time holds the lease and works; the others wait. Kill it, with -9 if you like: another
// continues from the last saved position. What a worker has handled after that position is
// handled again, and nothing is left out.
//
// The position of a worker is the offset of the first byte that it has not handled.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store/filestore"
)

func main() {
	dir := flag.String("store", "", "directory of the store, shared by all workers")
	ttl := flag.Duration("ttl", 5*time.Second, "how long a dead worker's lease lasts where its death cannot be seen")
	every := flag.Int("every", 100, "save after this many lines")
	flag.Parse()
	if *dir == "" || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: follow --store DIRECTORY [--ttl D] [--every N] FILE")
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := follow(ctx, *dir, flag.Arg(0), *ttl, *every, os.Stdout)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
}

// follow handles the lines of a file until its context ends.
func follow(ctx context.Context, dir, path string, ttl time.Duration, every int, out io.Writer) (err error) {
	st, err := filestore.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	leases, err := lease.New(st, &lease.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leases.Close(context.WithoutCancel(ctx))) }()

	keeper, err := checkpoint.New(st, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Close(context.WithoutCancel(ctx))) }()

	if path, err = filepath.Abs(path); err != nil {
		return err
	}
	key := "follow/" + strings.TrimPrefix(filepath.ToSlash(path), "/")
	handle := func(ctx context.Context, line checkpoint.Event[string]) error {
		// One write for each line, so that the lines of two workers never mix. The
		// token says under which lease it was handled.
		_, err := fmt.Fprintf(out, "%d %s\n", checkpoint.Token(ctx), line.Value)
		return err
	}
	return checkpoint.Run(ctx, keeper, key, lines(path), handle, &checkpoint.RunOptions{
		SaveEvery: every,
		Logger:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Acquire: func(ctx context.Context) (checkpoint.Guard, error) {
			return leases.Acquire(ctx, key, nil)
		},
	})
}

// lines is the source of the complete lines of a file. The sequence of a line is the
// offset of its end. A line is complete when its newline is there.
func lines(path string) checkpoint.Source[string] {
	return func(ctx context.Context, from checkpoint.Checkpoint) iter.Seq2[checkpoint.Event[string], error] {
		return func(yield func(checkpoint.Event[string], error) bool) {
			var none checkpoint.Event[string]
			f, err := os.Open(path)
			if err != nil {
				yield(none, err)
				return
			}
			defer f.Close()
			offset := int64(from.Sequence)
			if info, err := f.Stat(); err != nil || info.Size() < offset {
				yield(none, errors.Join(err, fmt.Errorf("%s ends before %d, where the work was: it was replaced or cut off", path, offset)))
				return
			}
			if _, err := f.Seek(offset, io.SeekStart); err != nil {
				yield(none, err)
				return
			}
			r := bufio.NewReader(f)
			var begun strings.Builder // a line whose end is not there yet
			for {
				part, err := r.ReadString('\n')
				begun.WriteString(part)
				switch {
				case err == nil:
					line := begun.String()
					begun.Reset()
					offset += int64(len(line))
					e := checkpoint.Event[string]{Value: strings.TrimSuffix(line, "\n")}
					e.Sequence = uint64(offset)
					if !yield(e, nil) {
						return
					}
				case errors.Is(err, io.EOF):
					select {
					case <-ctx.Done():
						return
					case <-time.After(50 * time.Millisecond):
					}
				default:
					yield(none, err)
					return
				}
			}
		}
	}
}

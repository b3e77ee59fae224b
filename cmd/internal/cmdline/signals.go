package cmdline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/store"
)

// Interrupted is the cause of a context that a signal ended.
type Interrupted struct{ os.Signal }

func (i Interrupted) Error() string { return "interrupted by " + child.SignalName(i.Signal) }

// Status is the exit status of a program that a signal ended.
func (i Interrupted) Status() int {
	if n, ok := i.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exit.Failed
}

// StoppedBy gives an error that a signal has caused the status of that signal. A write
// whose outcome is unknown keeps its own status, which says more.
func StoppedBy(ctx context.Context, err error) error {
	var by Interrupted
	if err == nil || !errors.As(context.Cause(ctx), &by) || store.InDoubt(err) {
		return err
	}
	if !errors.Is(err, by) {
		err = fmt.Errorf("%w: %w", by, err)
	}
	return exit.With(by.Status(), err)
}

// UntilInterrupted returns a context that ends, with an [Interrupted] as its cause, when a
// signal asks the command to stop. Further signals are ignored until [insist] has passed;
// after that, a signal ends the command at once. The reason is timeout(1), which sends its signal
// twice, to the process and to its group. The command must still be able to keep what it
// has, and to clean up.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 32)
	signal.Notify(signals, slices.DeleteFunc(child.Forwardable(), func(s os.Signal) bool { return !child.Terminating(s) })...)
	go func() {
		select {
		case s := <-signals:
			cancel(Interrupted{s})
			time.AfterFunc(insist, func() { signal.Stop(signals) })
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// insist is how long after the first signal a second one still counts as the same.
const insist = time.Second

// UntilSignal returns a context that ends when a signal asks this program to end.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 32)
	signal.Notify(signals, child.Forwardable()...)
	child.IgnorePipe()
	go func() {
		for sig := range signals {
			if child.Terminating(sig) {
				cancel()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

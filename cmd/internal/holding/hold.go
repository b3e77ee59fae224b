package holding

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
)

// holdLine is one line of the output of hold. Its fields are stable.
type holdLine struct {
	Event    string    `json:"event"`        // held, at_risk, yield_requested, lost or released; docs/json.md has those of --commands
	ID       string    `json:"id,omitempty"` // with --commands: the caller's
	Lock     string    `json:"lock,omitempty"`
	Token    uint64    `json:"token,omitempty"`
	Slot     int       `json:"slot,omitempty"` // of held: the number of the slot of a semaphore
	Time     time.Time `json:"time"`
	Deadline time.Time `json:"deadline,omitzero"` // until when the lock can be relied on if no renewal succeeds
	Store    string    `json:"store,omitempty"`
	TTL      int64     `json:"ttl_ms,omitempty"`       // of ready
	Session  string    `json:"session,omitempty"`      // of ready
	Grace    int64     `json:"grace_ms,omitempty"`     // as session, and of lost: how long work may take to stop
	Holder   string    `json:"holder,omitempty"`       // of busy: who has the lock
	By       string    `json:"requested_by,omitempty"` // of yield_requested: who asks the holder to yield
	Reason   string    `json:"reason,omitempty"`       // as requested_by: why
	Command  string    `json:"command,omitempty"`      // of failed: which command
	Line     int       `json:"line,omitempty"`         // of invalid: which line of the input
	Kind     string    `json:"kind,omitempty"`         // of the error
	Error    string    `json:"error,omitempty"`
}

func (a *access) holdCommand() *cobra.Command {
	f := &runFlags{}
	lines := false
	cmd := &cobra.Command{
		Use:     "hold NAME",
		Short:   "Hold one or more locks for a program in another language",
		GroupID: cmdline.GroupLocks,
		Long: `Hold a lock for a program in another language. The program starts hold and reads its output.

hold prints one JSON object per event: "held" when hold has the lock, "at_risk" while renewals
fail, "yield_requested" after "holdfast ask NAME", "lost", or "released". hold releases the lock
when its standard input ends, or when hold gets TERM. So hold also releases the lock if the
program is killed.

After "lost" the program must stop its work within the grace. hold then ends with status 76. The
program must also stop if the output of hold ends, or after an unexpected "released".

With --commands, one hold process can hold many locks. The program writes commands to the input
of hold, one JSON object per line. See docs/json.md and examples/hold.`,
		Example: `  # in a shell; examples/hold/hold.sh shows how to notice a loss
  coproc HOLD { holdfast hold nightly; }
  read -r line <&"${HOLD[0]}"        # {"event":"held",...}
  ./job.sh
  exec {HOLD[1]}>&-                  # end the input: hold releases the lock

  # many locks: {"command":"acquire","id":"a","lock":"jobs/a"}
  holdfast hold --commands`,
		ValidArgsFunction: a.CompleteLocks(),
		Args: func(cmd *cobra.Command, args []string) error {
			if lines && len(args) > 0 {
				return exit.Usagef("with --commands, hold reads the names of locks from its input, not from the command line")
			}
			if lines {
				return nil
			}
			if len(args) > 1 {
				return exit.Usagef("name one lock; to hold several locks, use --commands: %s", cmd.UseLine())
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines {
				if cmd.Flags().Changed("conflict-exit-code") {
					return exit.Usagef("--conflict-exit-code cannot be combined with --commands, which prints \"busy\" on its output")
				}
				return a.holdLines(cmd.Context(), f)
			}
			if err := f.check(args, []string{"hold"}); err != nil {
				return err
			}
			return a.hold(cmd.Context(), f, args[0])
		},
	}
	flags := cmd.Flags()
	f.Flags.Add(flags)
	f.onLost = "kill"
	f.addWait(flags)
	flags.BoolVar(&lines, "commands", false, "hold any number of locks: read commands from standard input, one JSON object per line")
	return cmd
}

// errInputEnded ends the wait of hold. It is not io.EOF, which could come from a
// connection.
var errInputEnded = errors.New("end of input")

func (a *access) hold(ctx context.Context, f *runFlags, name string) error {
	signals := make(chan os.Signal, 32)
	signal.Notify(signals, child.Forwardable()...)
	defer signal.Stop(signals)

	// A closed pipe on stdout must be an error of the next write, and must not kill this
	// process.
	child.IgnorePipe()
	a.QueueMessages()

	// The end of input also ends the wait.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		_, _ = io.Copy(io.Discard, a.Stdin) // a read error ends the input, too
		cancel(errInputEnded)
	}()

	out := output.NewQueue(a.Stdout, maxUnread)
	print := func(line holdLine) {
		line.Lock, line.Time = name, time.Now()
		_ = printable.JSON(out).Encode(line) // if it fails, hold ends
	}
	f.Events = func(e lease.Event) {
		// If the reader has ended, hold ends with its input.
		switch e.Kind {
		case lease.EventAtRisk:
			print(holdLine{Event: "at_risk", Token: e.Token, Deadline: e.Deadline, Error: output.OneLine(e.Err)})
		case lease.EventYieldRequested:
			print(holdLine{Event: "yield_requested", Token: e.Token, By: e.Holder, Reason: e.Reason})
		}
	}
	handles, clients, _, err := a.handles(ctx, f, []string{name})
	if err != nil {
		return err
	}
	defer clients.Close()
	set, err := a.acquire(ctx, f, handles, signals)
	if errors.Is(err, errInputEnded) {
		a.Notef("end of input: no lock was taken")
		return nil
	}
	if err != nil {
		return a.busy(ctx, f, handles, err)
	}
	guard := set.Guards()[0]
	print(holdLine{Event: "held", Token: guard.Token(), Deadline: guard.Deadline(), Store: handles[0].url})
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case sig := <-signals:
			ended = child.Terminating(sig)
		case <-out.Failed:
			ended = true // what the reader does not learn of is not held either
		case <-set.Context().Done():
			cause := context.Cause(set.Context())
			print(holdLine{Event: "lost", Token: guard.Token(), Error: output.OneLine(cause)})
			_ = set.Release(ctx)
			_ = out.Flush(readFor)
			return exit.With(exit.Lost, &lostError{cause: cause})
		}
	}
	err = set.Release(ctx)
	if err == nil {
		print(holdLine{Event: "released", Token: guard.Token()})
	}
	return errors.Join(err, out.Flush(readFor))
}

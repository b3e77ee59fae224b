package holding

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

func (a *access) leadCommand() *cobra.Command {
	f := &runFlags{wait: -1, onLost: "kill", conflictStatus: exit.Busy}
	var value string
	cmd := &cobra.Command{
		Use: "lead [flags] NAME -- COMMAND [ARG...]",

		DisableFlagsInUseLine: true,
		Short:                 "Run a command on one machine at a time, and run it again after a loss",
		GroupID:               cmdline.GroupLocks,
		Long: `Run COMMAND, for example a service, on one machine at a time.

lead waits for the lock NAME. When lead has the lock, it writes the text of --value, for example
an address. "holdfast leader NAME" prints this text. Then lead runs COMMAND with the same
variables as "run". Each new leader has a higher HOLDFAST_TOKEN.

If the lease is lost, or if a client asks for the lock, lead sends TERM to COMMAND. Then lead
waits for the lock, and runs COMMAND again. If COMMAND ends by itself, lead ends with the status
of COMMAND. If a signal to lead ends COMMAND, lead also ends. If the store does not answer, lead
waits. If the store has never answered, lead ends with status 69 after 30 seconds.
See also holdfast help: processes, sharing (--fair), leases, exit-status.`,
		Example: `  holdfast lead scheduler --value "$(hostname):8080" -- ./scheduler
  holdfast leader scheduler`,
		ValidArgsFunction: a.BeforeDash(a.CompleteLocks()),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case dash < 0:
				return cmdline.NoDash(cmd, args)
			case dash == 0:
				return exit.Usagef("name the lock: holdfast lead NAME -- COMMAND")
			case dash > 1:
				return exit.Usagef("lead needs exactly one lock, not %d: holdfast lead NAME -- COMMAND", dash)
			case len(args) == 1:
				return exit.Usagef("name the command: holdfast lead %s -- COMMAND", output.Quote(cmdline.Echoed(args[0])))
			case len(value) > lease.MaxData:
				return exit.Usagef("%s has %d bytes; at most %d are allowed", cmdline.AsGiven(cmd.Flags().Lookup("value")), len(value), lease.MaxData)
			}
			if err := cmdline.NotEmpty(cmd.Flags(), "value", "on-ask"); err != nil {
				return err
			}
			var data []byte
			if cmd.Flags().Changed("value") {
				data = []byte(value)
			}
			return a.lead(cmd.Context(), f, data, args[:dash], args[dash:])
		},
	}
	flags := cmd.Flags()
	f.Flags.Add(flags)
	f.addOnAsk(cmd)
	flags.BoolVar(&f.shared.Fair, "fair", false, "wait in the queue of the lock: candidates with --fair lead in the order of their arrival")
	flags.StringVar(&value, "value", "", "text that \"holdfast leader\" prints while this process leads, at most 32,768 bytes")
	flags.BoolVar(&f.killGroup, "kill-group", false, "when COMMAND has ended, stop all other processes of its process group")
	return cmd
}

func (a *access) lead(ctx context.Context, f *runFlags, value []byte, names, argv []string) error {
	if err := f.check(names, argv); err != nil {
		return err
	}
	if _, err := lookUp(argv); err != nil {
		return err
	}
	child.SurviveClosedPipe()
	a.QueueMessages()
	signals := make(chan os.Signal, 32)
	handled := handleSignals(signals) // until the process ends
	client, st, err := a.Client(ctx, a.StoreURL, &f.Flags)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := leases.HeldAround(ctx, client, st.URL, names[0]); err != nil {
		return err
	}
	var session *lease.Session
	var election *lease.Election
	elect := func(ctx context.Context) (*lease.Election, error) {
		if !f.inSession() {
			if election == nil {
				election, err = client.Election(names[0], nil)
			}
			return election, err
		}
		if session == nil || session.Err() != nil { // a session that was lost does not return
			if session != nil {
				_ = session.Close(ctx) // it says that it was lost
			}
			if session, err = client.OpenSession(ctx); err != nil {
				return nil, err
			}
			election, err = session.Election(names[0], &f.shared)
		}
		return election, err
	}
	<-handled
	for {
		again, err := a.term(ctx, f, elect, leases.Client{Client: client, Store: st}, value, argv, signals)
		if !again {
			return err
		}
		switch {
		case errors.Is(err, lease.ErrUnresponsive):
			a.Notef("%s has not answered for %v; lead tries again", st.URL, leases.UnresponsiveTimeout)
		case err != nil:
			a.Notef("%s; lead waits for the lock again", strings.TrimSuffix(output.OneLine(err), "."))
		}
	}
}

// term campaigns, and runs the command for a term. It reports whether to campaign again.
func (a *access) term(ctx context.Context, f *runFlags, elect func(context.Context) (*lease.Election, error), on leases.Client, value []byte, argv []string, signals chan os.Signal) (again bool, _ error) {
	var election *lease.Election
	set, err := a.awaited(ctx, f, []string{on.Store.URL}, signals, func(ctx context.Context) (_ *lease.GuardSet, err error) {
		if election, err = elect(ctx); err != nil {
			return nil, err
		}
		guard, err := election.Campaign(ctx, value)
		if err != nil {
			return nil, err
		}
		// The handle is held: this is another guard of the same term, and costs no request.
		set, err := lease.TryAcquireAll(ctx, guard.Handle())
		if err != nil {
			return nil, errors.Join(err, election.Resign(ctx))
		}
		return set, nil
	})
	if err != nil {
		var sig *signalled
		ended := errors.As(err, &sig)
		// The session in which it waited may be lost: then it enters the queue again.
		lost := f.inSession() && errors.Is(err, lease.ErrLost) && !ended
		// A store that has answered may answer again.
		silent := errors.Is(err, lease.ErrUnresponsive) && (f.answered || errors.Is(err, lease.ErrHeld)) && !ended
		f.answered = f.answered || lost || silent
		if !lost && !silent {
			err = a.busy(ctx, f, nil, err)
		}
		if election != nil {
			if left := election.Resign(ctx); !errors.Is(left, lease.ErrLost) { // that of the term before
				err = errors.Join(err, left)
			}
		}
		return lost || silent, err
	}
	f.answered = true
	guard := set.Guards()[0]
	handle := &openedStore{Handle: guard.Handle(), url: on.Store.URL, again: on.Store.Again}
	leases.Flush(on.Client) // write these messages before the command writes
	a.FlushMessages(time.Second)
	var end outcome
	cmd, err := lookUp(argv)
	if err == nil {
		environment(cmd, f.FlagSet, handle, set, urls([]*openedStore{handle}))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, a.Stderr
		under := &grant{set: set, wanted: guardsWithRequests(set), signals: signals}
		if p, ok := store.As[presenceFiler](on.Store.Store); ok {
			under.presence = append(under.presence, p)
		}
		end, err = a.supervise(f, cmd, under)
	}
	_, asked := guard.YieldRequest()
	releaseErr := errors.Join(set.Release(ctx), election.Resign(ctx))
	switch {
	case !end.stopped() && (errors.Is(err, lease.ErrLost) || err == nil && asked && f.onAsk != askRefuse):
		return true, err
	case err != nil:
		return false, err
	case releaseErr != nil:
		a.Notef("%s", output.OneLine(releaseErr)) // no error: the command has ended by itself
	}
	return false, end.err()
}

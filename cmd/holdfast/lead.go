package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/child"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

func (a *app) leadCommand() *cobra.Command {
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

func (a *app) lead(ctx context.Context, f *runFlags, value []byte, names, argv []string) error {
	if err := f.check(names, argv); err != nil {
		return err
	}
	if _, err := lookUp(argv); err != nil {
		return err
	}
	defer child.SurviveClosedPipe()()
	signals := make(chan os.Signal, 32)
	handled := handleSignals(signals)
	defer func() {
		<-handled
		signal.Stop(signals)
	}()
	client, st, err := a.Client(ctx, a.StoreURL, &f.Flags)
	if err != nil {
		return err
	}
	defer leases.Clients{{Client: client, Store: st}}.Close(ctx)
	if err := leases.HeldAround(ctx, client, leases.InheritedLocks(), st.URL, names[0]); err != nil {
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
func (a *app) term(ctx context.Context, f *runFlags, elect func(context.Context) (*lease.Election, error), on leases.Client, value []byte, argv []string, signals chan os.Signal) (again bool, _ error) {
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
	status := 0
	cmd, err := lookUp(argv)
	if err == nil {
		environment(cmd, f.FlagSet, handle, set, urls([]*openedStore{handle}))
		var presence []presenceFiler
		if p, ok := store.As[presenceFiler](on.Store.Store); ok {
			presence = append(presence, p)
		}
		status, _, err = a.supervise(f, cmd, set, signals, presence)
	}
	_, asked := guard.YieldRequest()
	releaseErr := errors.Join(set.Release(ctx), election.Resign(ctx))
	switch {
	case !f.stopping && (errors.Is(err, lease.ErrLost) || err == nil && asked && f.onAsk != askRefuse):
		return true, err
	case err != nil:
		return false, err
	case releaseErr != nil:
		a.Notef("%s", output.OneLine(releaseErr)) // no error: the command has ended by itself
	}
	if status != exit.OK {
		return false, exit.With(status, nil)
	}
	return false, nil
}

// leaderView is what leader prints with --json. Its fields are stable.
type leaderView struct {
	Time   *time.Time `json:"time,omitempty"` // with --watch: when that was seen
	Name   string     `json:"name"`
	State  string     `json:"state"` // elected, expired; with --watch also none, unreadable
	Token  uint64     `json:"token,omitempty"`
	Holder string     `json:"holder,omitempty"`
	Since  *time.Time `json:"since,omitempty"` // by the leader's clock
	Value  *string    `json:"value,omitempty"`
	Base64 []byte     `json:"value_base64,omitempty"`
	Store  string     `json:"store"`
	Error  string     `json:"error,omitempty"`
}

func viewOfLeader(name string, l lease.Leader, err error, url string) leaderView {
	v := leaderView{Name: name, State: string(l.State), Token: l.Token, Holder: l.Holder, Store: url}
	if err != nil && !errors.Is(err, lease.ErrNoLeader) {
		v.State, v.Error = "unreadable", output.OneLine(err)
	}
	if !l.Since.IsZero() {
		v.Since = &l.Since
	}
	v.Value, v.Base64 = leases.TextOrBytes(l.Value)
	return v
}

func (a *app) leaderCommand() *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:     "leader NAME",
		Short:   "Print the value that the leader of a lock has written",
		GroupID: cmdline.GroupLocks,
		Long: `Print the value that the leader of a lock has written, for example by "holdfast lead --value".
With --json the output also contains the token of the leader.

The status is 66 if there is no leader, or if the lease of the leader has expired. With --json
an expired leader has the state "expired". If the wall clocks of two machines are the only sign
of an expired lease, leader first watches the lock for up to one TTL.

With --watch, leader prints each change until you stop the command. Each line has the time, the
token, the value and the holder. If there is no leader, or its lease has expired, a line says so.`,
		Example: `  curl "http://$(holdfast leader scheduler)/status"
  holdfast leader scheduler --watch --json | jq -r .value`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.leader(cmd.Context(), args[0], watch)
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "print every change until you stop the command")
	return cmd
}

func (a *app) leader(ctx context.Context, name string, watch bool) error {
	if err := leases.CheckLockName(name); err != nil {
		return err
	}
	client, st, err := a.Client(ctx, a.StoreURL, &leases.Flags{})
	if err != nil {
		return err
	}
	defer leases.Clients{{Client: client, Store: st}}.Close(ctx)
	if watch {
		ctx, cancel := cmdline.UntilSignal(ctx)
		defer cancel()
		return a.watchLeader(ctx, client, name, st.URL)
	}
	leader, err := client.Leader(ctx, name)
	if errors.Is(err, lease.ErrNoLeader) {
		err = exit.With(exit.NotFound, err)
		if a.JSON && leader.State == lease.LeaderExpired {
			return errors.Join(err, a.PrintJSON(viewOfLeader(name, leader, nil, st.URL)))
		}
		return err
	}
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(viewOfLeader(name, leader, nil, st.URL))
	}
	if _, err := fmt.Fprintln(a.Stdout, printable.Text(string(leader.Value))); err != nil {
		return err
	}
	a.Notef("%s leads %q on %s (token %d)", leader.Holder, name, st.URL, leader.Token)
	return nil
}

func (a *app) watchLeader(ctx context.Context, client *lease.Client, name, url string) error {
	seen := false
	for leader, err := range client.Observe(ctx, name) {
		if ctx.Err() != nil {
			return nil
		}
		view := viewOfLeader(name, leader, err, url)
		if view.State == "unreadable" && !seen {
			return err
		}
		seen = true
		now := time.Now()
		view.Time = &now
		if err := a.leaderLine(view); err != nil {
			return err // the reader of stdout has ended
		}
	}
	return nil
}

func (a *app) leaderLine(v leaderView) error {
	if a.JSON {
		return printable.JSON(a.Stdout).Encode(v)
	}
	text := v.Time.Local().Format("15:04:05.000") + "  "
	switch v.State {
	case string(lease.LeaderActive), string(lease.LeaderExpired):
		if v.State == string(lease.LeaderExpired) {
			text += "no leader, lease expired: "
		}
		value := string(v.Base64)
		if v.Value != nil {
			value = *v.Value
		}
		text += fmt.Sprintf("token %d  %s  %s", v.Token, printable.Text(value), printable.Text(v.Holder))
	case string(lease.LeaderNone):
		text += "no leader"
	default:
		text += v.State + "  " + printable.Text(v.Error)
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}

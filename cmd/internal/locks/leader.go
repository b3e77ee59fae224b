package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
)

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
	v := leaderView{Name: name, State: string(l.State), Token: l.Token, Holder: l.Holder, Since: printable.Time(l.Since), Store: url}
	if err != nil && !errors.Is(err, lease.ErrNoLeader) {
		v.State, v.Error = "unreadable", output.OneLine(err)
	}
	v.Value, v.Base64 = leases.TextOrBytes(l.Value)
	return v
}

func (a *access) leaderCommand() *cobra.Command {
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
			return a.WithClient(cmd.Context(), &leases.Flags{}, args, func(client *lease.Client, st stores.Opened) error {
				return a.leader(cmd.Context(), client, st.URL, args[0], watch)
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "print every change until you stop the command")
	return cmd
}

func (a *access) leader(ctx context.Context, client *lease.Client, url, name string, watch bool) error {
	if watch {
		ctx, cancel := cmdline.UntilSignal(ctx)
		defer cancel()
		return a.watchLeader(ctx, client, name, url)
	}
	leader, err := client.Leader(ctx, name)
	none := errors.Is(err, lease.ErrNoLeader)
	if none {
		err = exit.With(exit.NotFound, err)
	}
	if a.JSON && (err == nil || none && leader.State == lease.LeaderExpired) {
		return errors.Join(err, a.PrintJSON(viewOfLeader(name, leader, nil, url)))
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.Stdout, printable.Text(string(leader.Value))); err != nil {
		return err
	}
	a.Notef("%s leads %q on %s (token %d)", leader.Holder, name, url, leader.Token)
	return nil
}

func (a *access) watchLeader(ctx context.Context, client *lease.Client, name, url string) error {
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

func (a *access) leaderLine(v leaderView) error {
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
	return a.PrintLine(v, text)
}

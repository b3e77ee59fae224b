package locks

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
)

// watchLine is one line of watch: a lock, and when watch saw it in this state.
type watchLine struct {
	Time time.Time `json:"time"`
	leases.LockView

	by string // who holds the lock, in text
}

func (a *access) watchCommand() *cobra.Command {
	var renewals bool
	var poll time.Duration
	f, o := &leases.Flags{}, &timelineOptions{}
	cmd := &cobra.Command{
		Use:     "watch [PREFIX]",
		Short:   "Print every change of a lock, or of all locks below a prefix",
		GroupID: cmdline.GroupLocks,
		Long: `Print every change of a lock, or of all locks below a prefix, until you stop the command.

watch first prints the present state. A state that lasts only a moment can be missing in the
output. With --json each change is one object on one line.

With --timeline, watch draws who holds which lock, one row for each lock, until you stop the
command. If standard output is not a terminal, watch prints only the last picture, when it ends.
NO_COLOR=1 draws without colours. With --svg, watch also writes the picture to a file: at each
change, and at the end.`,
		Example: `  holdfast watch                      # all locks of the store
  holdfast watch --timeline jobs/
  holdfast watch --timeline --svg now.svg
  holdfast watch --from-history --since 8h --svg night.svg
  holdfast watch jobs/ --json | jq -r 'select(.state == "broken") | .name'`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := strings.TrimSuffix(strings.Join(args, ""), "/") // at most one
			if poll <= 0 {
				return exit.Usagef("--poll-interval must be longer than zero")
			}
			if drawn, err := o.check(cmd.Flags(), a.JSON); err != nil {
				return err
			} else if drawn {
				return a.timeline(cmd.Context(), f, prefix, poll, o)
			}
			return a.WithClient(cmd.Context(), f, nil, func(client *lease.Client, st stores.Opened) error {
				return a.watch(cmd.Context(), client, st.URL, prefix, renewals, poll)
			})
		},
	}
	f.AddClockDrift(cmd.Flags())
	cmd.Flags().BoolVar(&renewals, "renewals", false, "also print renewals")
	cmd.Flags().DurationVar(&poll, "poll-interval", 2*time.Second, "time between two searches for new locks")
	o.add(cmd)
	return cmd
}

func (a *access) watch(ctx context.Context, client *lease.Client, url, prefix string, renewals bool, poll time.Duration) error {
	ctx, stop := cmdline.UntilSignal(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	lines, ended := make(chan watchLine), make(chan error, 1)
	wg.Go(func() {
		ended <- a.discover(ctx, client, prefix, poll, func(name string) {
			wg.Go(func() { a.follow(ctx, client, url, name, renewals, lines) })
		}, func(err error) { a.Notef("%s", output.OneLine(err)) })
	})
	for {
		select {
		case line := <-lines:
			if err := a.watchLine(line); err != nil {
				return err // the reader of stdout has ended
			}
		case err := <-ended:
			return err
		}
	}
}

// discover calls follow once for each lock below the prefix, and note with errors that may end. It returns when the
// context ends, or at an error that lasts. The first listing comes before the first call for the lock that has the
// name of the prefix: a name or a store that is refused is an error alone, and not a line on stdout as well.
func (a *access) discover(ctx context.Context, client *lease.Client, prefix string, poll time.Duration, follow func(name string), note func(error)) error {
	seen := map[string]bool{}
	once := func(name string) {
		if name != "" && !seen[name] {
			seen[name] = true
			follow(name)
		}
	}
	for tick := time.NewTimer(0); ; tick.Reset(poll) {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for name, err := range client.List(ctx, prefix) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				if prefix == "" && len(seen) == 0 || store.Permanent(err) {
					return err
				}
				note(err)
				break
			}
			once(name)
		}
		once(prefix)
	}
}

// follow sends the changes of one lock.
func (a *access) follow(ctx context.Context, client *lease.Client, url, name string, renewals bool, lines chan<- watchLine) {
	last := "-" // grant and state
	for info, err := range client.Watch(ctx, name) {
		if ctx.Err() != nil {
			return
		}
		line := watchLine{Time: time.Now(), LockView: leases.ViewOf(client, info, url)}
		state := stateOf(info.Record)
		switch {
		case err != nil:
			line.State, line.Error = "unreadable", output.OneLine(err)
			state = line.Error
		case info.Version == "":
			if last == "-" {
				last = state // the lock never existed: there is no change to print
				continue
			}
			line.State = "absent"
		}
		if state == last && !renewals {
			continue
		}
		last = state
		if !a.JSON {
			line.by = leases.HoldersOf(ctx, client, info.Record)
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

// stateOf distinguishes the states that watch prints: who holds a lock, who waits, who asks.
func stateOf(r lease.Record) string {
	state := r.Grant + " " + string(r.State)
	for _, members := range [][]lease.Member{r.Holders, r.Queue} {
		for _, m := range members {
			state += " " + m.Grant
		}
		state += ";"
	}
	if r.YieldRequest != nil {
		state += fmt.Sprint(" asked ", r.YieldRequest.Acknowledged, r.YieldRequest.RefusalReason)
	}
	return state
}

func (a *access) watchLine(line watchLine) error {
	text := fmt.Sprintf("%s  %s  %s  token %d  %s", line.Time.Local().Format("2006-01-02 15:04:05.000"), printable.Text(line.Name), line.StateText(), line.Token, printable.Text(line.by))
	if line.Error != "" {
		text += "  " + printable.Text(line.Error)
	}
	return a.PrintLine(line, text)
}

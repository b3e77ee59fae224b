package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
)

// askView is what ask prints with --json. Its fields are stable.
type askView struct {
	Lock   string `json:"lock"`
	Token  uint64 `json:"token"`  // of the grant that was asked
	Holder string `json:"holder"` // whose it is
	Ended  bool   `json:"grant_ended"`
	leases.YieldRequestView
	End   string `json:"end_reason,omitempty"`  // how it ended: released, handed_over, broken, dead or removed
	Next  string `json:"next_holder,omitempty"` // of handed_over: who has the lock
	Store string `json:"store"`
}

func viewOfStatus(asked lease.YieldStatus, url string) askView {
	v := askView{
		Lock: asked.Name, Token: asked.Token, Holder: asked.Holder, Ended: asked.GrantEnded,
		YieldRequestView: *leases.ViewOfRequest(&asked.YieldRequest), End: endOfGrant(asked), Store: url,
	}
	if asked.Grant == "" { // Holder names only the member that entered last
		v.Holder = ""
	}
	if v.End == endHandedOver && asked.Current.State == lease.Held {
		v.Next = asked.Current.Holder
	}
	return v
}

func (a *access) askCommand() *cobra.Command {
	var (
		f      leases.Flags // of it only the holder
		reason string
		wait   time.Duration
	)
	cmd := &cobra.Command{
		Use:     "ask NAME",
		Short:   "Ask the holder of a lock to release it",
		GroupID: cmdline.GroupLocks,
		Long: `Ask the holder of a lock to release it. The holder reads the request at its next renewal, by
default within ten seconds. If several clients hold the lock, the request is for all of them.

"run" and "lead" send TERM to their command, and release the lock when the command has ended.
With --on-ask refuse, "run" and "lead" refuse the request. "hold" prints "yield_requested". If
the lock has a request already, ask does not write a second one.

Without --wait, ask writes the request, and ends with status 0. With --wait, ask ends with status
0 when the holder has released the lock, and with status 73 if the holder refuses. If the holder
still has the lock after the wait, the status is 75. It is also 75 if ask --wait runs under
that lock, because it would wait for itself. If the lock is free, the status is 73. If there is
no such lock, the status is 66. "holdfast break" ends the work of a holder that does not react.`,
		Example: `  holdfast ask nightly --reason "maintenance at ten"
  holdfast ask deploy --wait 5m; holdfast run deploy --wait 1m -- ./deploy.sh   # also if the lock is free`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(reason) > lease.MaxReason {
				return exit.Usagef("%s has %d bytes; at most %d are allowed", cmdline.AsGiven(cmd.Flags().Lookup("reason")), len(reason), lease.MaxReason)
			}
			return a.WithClient(cmd.Context(), &f, args, func(client *lease.Client, st stores.Opened) error {
				ctx, cancel := cmdline.UntilInterrupted(cmd.Context())
				defer cancel()
				return cmdline.StoppedBy(ctx, a.ask(ctx, client, st, args[0], reason, wait))
			})
		},
	}
	flags := cmd.Flags()
	f.FlagSet = flags
	flags.StringVar(&reason, "reason", "", "reason for the request, at most 1,024 bytes; the holder can read it")
	flags.StringVar(&f.Holder, "holder", "", "your name in the request (default: user, host and process)")
	flags.VarP((*cmdline.Seconds)(&wait), "wait", "w", "maximum wait for the release, such as 5m or 300 (seconds); by default ask does not wait")
	_ = flags.SetAnnotation("wait", cmdline.NoVariable, nil) // here it changes what the command does
	flags.Lookup("wait").DefValue = ""
	return cmd
}

// ask asks, waits for as long as the user says or until a signal ends ctx, and reports the result.
func (a *access) ask(ctx context.Context, client *lease.Client, st stores.Opened, name, reason string, wait time.Duration) error {
	began := time.Now()
	options := &lease.YieldOptions{Reason: reason, Wait: wait > 0}
	if wait > 0 {
		if err := leases.HeldAround(ctx, client, st.URL, name); err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, &leases.WaitedError{Limit: wait})
		defer cancel()
		options.OnAcknowledged = func(asked lease.YieldStatus) {
			nameHolders(ctx, client, &asked)
			a.Notef("%s; %s", requestLine(asked, st.URL), heardText(asked))
		}
	}
	asked, err := client.RequestYield(ctx, name, options)
	nameHolders(ctx, client, &asked)
	if a.JSON && asked.Name != "" {
		return errors.Join(err, a.PrintJSON(viewOfStatus(asked, st.URL)))
	}
	var held *lease.HeldError
	breaks := fmt.Sprintf("to end the holder's work:  holdfast --store %s break %s --token %d", output.Quote(st.Again), output.Quote(name), asked.Token)
	switch {
	case errors.As(err, &held):
		read := "the holder has not read the request yet"
		if asked.Acknowledged {
			read = heardText(asked)
		}
		after := fmt.Sprintf("after %v,", wait)
		if by := (cmdline.Interrupted{}); errors.As(context.Cause(ctx), &by) {
			after = fmt.Sprintf("%v after %v:", by, time.Since(began).Round(time.Second))
		}
		return output.WithHints(fmt.Sprintf("%s lock %q on %s is still held by %s; %s", after, name, st.URL, leases.HoldersOf(ctx, client, held.Record), read), err, []string{breaks})
	case errors.Is(err, lease.ErrYieldRefused) && asked.Holder != "":
		return output.WithHints(fmt.Sprintf("%s holds lock %q on %s, and refuses to release the lock: %s", asked.Holder, name, st.URL, asked.RefusalReason), err, []string{breaks})
	}
	if err != nil {
		return err
	}
	switch {
	case asked.GrantEnded:
		a.Notef("%s", overText(asked, st.URL))
	case asked.Acknowledged:
		a.Notef("%s; %s", requestLine(asked, st.URL), heardText(asked))
	default:
		a.Notef("%s", requestLine(asked, st.URL))
	}
	return nil
}

// nameHolders puts the names of holders in the place of their sessions.
func nameHolders(ctx context.Context, client *lease.Client, asked *lease.YieldStatus) {
	asked.Holder = leases.HoldersOf(ctx, client, lease.Record{Holder: asked.Holder})
	if asked.Current.State == lease.Held {
		asked.Current.Holder = leases.HoldersOf(ctx, client, asked.Current)
	}
}

// requestLine says who is asked to give way.
func requestLine(asked lease.YieldStatus, url string) string {
	if asked.Grant == "" { // readers, or holders of slots
		return fmt.Sprintf("asked all holders of lock %q on %s to release the lock", asked.Name, url)
	}
	return fmt.Sprintf("asked %s to release lock %q on %s (token %d)", asked.Holder, asked.Name, url, asked.Token)
}

// heardText says that the holders have heard of an ask, by whom, and why.
func heardText(asked lease.YieldStatus) string {
	who := "the holder has"
	if asked.Grant == "" {
		who = "all holders have"
	}
	text := fmt.Sprintf("%s read the request of %s", who, asked.By)
	if asked.Reason != "" {
		text += fmt.Sprintf(" (%q)", asked.Reason)
	}
	return text
}

// How a grant ended that was asked to give way.
const (
	endReleased   = "released"
	endBroken     = "broken"
	endDead       = "dead"        // its holder is dead
	endHandedOver = "handed_over" // another holder has the lock
	endRemoved    = "removed"     // its record was removed
)

// endOfGrant returns how the grant ended; nothing if it is not over.
func endOfGrant(asked lease.YieldStatus) string {
	switch now := asked.Current; {
	case !asked.GrantEnded:
		return ""
	case now.State == "":
		return endRemoved
	case now.State == lease.Free:
		return endReleased
	case now.State == lease.Broken:
		return endBroken
	case now.State == lease.Held && now.Grant == asked.Grant, slices.ContainsFunc(now.Holders, func(m lease.Member) bool { return slices.Contains(asked.Grants, m.Grant) }):
		return endDead
	}
	return endHandedOver
}

// overText says how the grant ended that was asked to give way.
func overText(asked lease.YieldStatus, url string) string {
	holder, has, is := asked.Holder, "has", "is"
	if asked.Grant == "" {
		holder, has, is = "the holders", "have", "are"
	}
	lock := fmt.Sprintf("lock %q on %s", asked.Name, url)
	switch endOfGrant(asked) {
	case endBroken:
		return fmt.Sprintf("%s was broken, and %s must stop; the token is now %d", lock, holder, asked.Current.Token)
	case endDead:
		return fmt.Sprintf("%s: %s %s dead, and the next client can take the lock", lock, holder, is)
	case endHandedOver:
		next := asked.Current.Holder
		if next == "" || asked.Current.State == lease.Shared { // Holder names only the member that entered last
			next = "another client"
		}
		return fmt.Sprintf("%s %s released %s, and %s has taken it (token %d)", holder, has, lock, next, asked.Current.Token)
	case endRemoved:
		return fmt.Sprintf("the record of %s was removed: %s no longer %s the lock", lock, holder, has)
	}
	return fmt.Sprintf("%s %s released %s: the lock is free", holder, has, lock)
}

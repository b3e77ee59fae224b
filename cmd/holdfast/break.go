package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/lease"
)

func (a *app) breakCommand() *cobra.Command {
	var (
		token    uint64
		now, yes bool
	)
	cmd := &cobra.Command{
		Use:     "break NAME --token N",
		Short:   "Free a lock that somebody else holds",
		GroupID: groupLocks,
		Long: `Free a lock that somebody else holds, and raise its token.

The holder hears of it with its next renewal. Others take the lock when the holder has
stopped its work or is known to be dead, and at the latest a TTL after they saw its last
renewal, or the break, because it may not have heard before. With --now they take it at
once, although a holder that lives may go on until its deadline: use it when you know
that the holder is dead, or that its work is fenced.

The token, which ls and show print, makes sure that you break the grant you saw. It is
not taken from HOLDFAST_TOKEN, which is that of the lock around a command.`,
		Example: `  holdfast show nightly
  holdfast break nightly --token 1795220270042317
  holdfast break nightly --token 1795220270042317 --now   # its holder is dead for certain`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if token == 0 {
				return usagef("say which grant: --token N, as ls and show print it")
			}
			return a.breakLock(cmd.Context(), args[0], token, now, yes)
		},
	}
	cmd.Flags().Uint64Var(&token, "token", 0, "token of the grant to break")
	cmd.Flags().BoolVar(&now, "now", false, "let others take the lock at once, though its holder may live")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) breakLock(ctx context.Context, name string, token uint64, now, yes bool) error {
	client, st, err := a.client(ctx, a.storeURL, &leaseFlags{})
	if err != nil {
		return err
	}
	defer clients{{client, st}}.close(ctx)
	if !yes {
		if err := a.confirmBreak(ctx, client, name, now); err != nil {
			return err
		}
	}
	rec, err := client.Break(ctx, name, token, &lease.BreakOptions{Now: now})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(viewOf(lease.Info{Record: rec}, st.url))
	}
	when := fmt.Sprintf("others can take it %v after they see this", rec.TTL)
	if now {
		when = "others can take it now"
	}
	a.notef("lock %q on %s is broken: it was held by %s; its token is %d; %s", name, st.url, rec.Holder, rec.Token, when)
	return nil
}

// confirmBreak asks on a terminal. Elsewhere the token is enough.
func (a *app) confirmBreak(ctx context.Context, client *lease.Client, name string, now bool) error {
	if !a.interactive() {
		return nil
	}
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	warning := ""
	if now {
		warning = " Its work may go on beside the next holder's."
	}
	if !a.ask(fmt.Sprintf("Break lock %q, held by %s (token %d, process %s)?%s", name, info.Record.Holder, info.Record.Token, info.Liveness, warning)) {
		return &statusError{statusFailed, fmt.Errorf("lock %q was not broken", name)}
	}
	return nil
}

// interactive reports whether somebody can be asked.
func (a *app) interactive() bool {
	in, ok := a.stdin.(*os.File)
	return ok && term.IsTerminal(int(in.Fd()))
}

// ask asks on the terminal. No answer is no.
func (a *app) ask(question string) bool {
	fmt.Fprintf(a.stderr, "%s [y/N] ", printable.Text(question))
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n') // an error leaves it empty
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}

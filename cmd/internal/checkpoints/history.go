package checkpoints

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
)

// pastView is what history prints with --json for each entry. Its fields are stable.
type pastView struct {
	Key      string    `json:"key"`
	Write    uint64    `json:"write"`
	Time     time.Time `json:"time"` // by the clock of the client that wrote the entry
	Kind     string    `json:"kind"`
	Exists   bool      `json:"exists"`
	Sequence uint64    `json:"sequence"`
	Token    uint64    `json:"token,omitempty"`
}

func viewPast(key string, e checkpoint.HistoryEntry) pastView {
	return pastView{Key: key, Write: e.Write, Time: e.Time, Kind: strings.ReplaceAll(string(e.Kind), " ", "_"), Exists: e.Exists, Sequence: e.Sequence, Token: e.Token}
}

func (a *access) checkpointHistory(f *checkpointFlags) *cobra.Command {
	since := ""
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Print what happened to a checkpoint",
		Long: `Print what happened to a checkpoint: positions that were saved, new tokens, resets and deletions.
A new token means a new worker. "holdfast history" prints which holder of the lock has this token.

The programs that change a checkpoint keep its history if HOLDFAST_HISTORY is 1 for them, or with
--history. The history keeps some of the positions: the older they are, the fewer. The times are
from the clocks of these programs. A state file has no history.`,
		Example: `  holdfast checkpoint history orders
  holdfast checkpoint history orders --since "2026-11-24 01:00"`,
		ValidArgsFunction: a.completeKey(f),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := cmdline.Since(since, time.Now())
			if err != nil {
				return err
			}
			if f.file != "" {
				return exit.Usagef("a state file has no history: remove %s to use the store", cmdline.AsGiven(f.flags.Lookup("file")))
			}
			return a.withCheckpoints(cmd.Context(), f, func(ctx context.Context, k checkpoint.Store) error {
				all, err := k.(*checkpoint.RegisterStore).History(ctx, args[0])
				if err != nil {
					return err
				}
				none := len(all) == 0
				all = slices.DeleteFunc(all, func(e checkpoint.HistoryEntry) bool { return e.Time.Before(from) })
				return a.printPast(args[0], all, none)
			})
		},
	}
	cmdline.AddSince(cmd, &since)
	return cmd
}

// printPast prints entries. none says that there is no history.
func (a *access) printPast(key string, all []checkpoint.HistoryEntry, none bool) error {
	views := make([]pastView, len(all))
	for i, e := range all {
		views[i] = viewPast(key, e)
	}
	if a.JSON {
		return a.PrintJSON(views)
	}
	if none {
		a.Notef("checkpoint %q has no history: programs keep one with --history, or if HOLDFAST_HISTORY is 1", key)
	}
	w := output.Columns(a.Stdout)
	for i, v := range views {
		sequence, token := "-", ""
		if v.Exists {
			sequence = fmt.Sprint(v.Sequence)
		}
		if v.Token > 0 {
			token = fmt.Sprintf("\ttoken %d", v.Token)
		}
		fmt.Fprintf(w, "%s\t%s\t%s%s\n", v.Time.Local().Format(time.DateTime), printable.Line(string(all[i].Kind)), sequence, token)
	}
	return w.Flush()
}

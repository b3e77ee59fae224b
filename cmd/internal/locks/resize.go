package locks

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/lease"
)

func (a *access) resizeCommand() *cobra.Command {
	slots := 0
	cmd := &cobra.Command{
		Use:     "resize NAME --slots N",
		Short:   "Change the number of slots of a semaphore",
		GroupID: cmdline.GroupLocks,
		Long: `Change the number of slots of a semaphore that "holdfast run --slots" has created.

Runs that hold a slot keep their slots. The new number is also valid for runs that already wait.
If you add slots, waiting runs with --fair get the new slots at once. If a later run gives --slots
with another number, that run ends with status 73.

If there is no such lock, the status is 66. If the lock is not a semaphore, the status is 73.`,
		Example:           `  holdfast resize downloads --slots 8`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if slots == 0 {
				return exit.Usagef("--slots N is missing: %s", cmd.UseLine())
			}
			return a.WithClient(cmd.Context(), &leases.Flags{}, args, func(client *lease.Client, st stores.Opened) error {
				rec, err := client.Resize(cmd.Context(), args[0], slots)
				if err != nil {
					return err
				}
				view := leases.ViewOf(client, lease.Info{Record: rec}, st.URL)
				return a.PrintOrNote(view, "lock %q on %s has %d slots, of which %s held", args[0], st.URL, rec.Slots, leases.AreOf(len(rec.Holders)))
			})
		},
	}
	cmd.Flags().Var(cmdline.Whole(&slots, 1, lease.MaxMembers), "slots", "new number of slots, at least 1")
	return cmd
}

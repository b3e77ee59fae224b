package locks

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
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
			return a.resize(cmd.Context(), args[0], slots)
		},
	}
	cmd.Flags().Var(cmdline.Whole(&slots, 1, lease.MaxMembers), "slots", "new number of slots, at least 1")
	return cmd
}

func (a *access) resize(ctx context.Context, name string, slots int) error {
	if err := leases.CheckLockName(name); err != nil {
		return err
	}
	client, st, err := a.Client(ctx, a.StoreURL, &leases.Flags{})
	if err != nil {
		return err
	}
	defer st.Close()
	rec, err := client.Resize(ctx, name, slots)
	if err != nil {
		return err
	}
	view := leases.ViewOf(client, lease.Info{Record: rec}, st.URL)
	return a.PrintOrNote(view, "lock %q on %s has %d slots, of which %s held", name, st.URL, rec.Slots, leases.AreOf(len(rec.Holders)))
}

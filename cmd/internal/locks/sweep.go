package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/leases"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/trial"
	"github.com/holdfast-go/holdfast/lease"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/filestore"
)

// deletedSweeper is a store that keeps traces of deleted registers for a time.
type deletedSweeper interface {
	SweepDeleted(ctx context.Context, age time.Duration) (removed int, err error)
}

var _ deletedSweeper = (*filestore.Store)(nil)

func (a *access) sweepCommand() *cobra.Command {
	var (
		olderThan time.Duration
		dryRun    bool
	)
	cmd := &cobra.Command{
		Use:     "sweep [PREFIX] --older-than DURATION",
		Short:   "Remove the records of locks that have been free for a long time",
		GroupID: cmdline.GroupLocks,
		Long: `Remove the records of locks that have been free for longer than --older-than. Without PREFIX,
sweep also removes the records of sessions that ended longer ago than --older-than. sweep keeps
locks that are held, broken, unreadable or blocked by --min-interval. sweep keeps a lock with
--once-per until the period of its last run has ended.

Tokens never decrease: sweep saves the highest removed token, and later locks get higher tokens.
Usually tokens are lower than the time of the clock. sweep keeps a lock whose token is higher:
if sweep removed it, all later locks would get tokens above that token.

For each removed lock, a small tombstone of about 256 bytes remains. In a directory, a later
sweep removes tombstones. Other stores keep them, because no version may be used twice. sweep
also removes the test data of a "bench" or "doctor" that was killed.`,
		Example: `  holdfast sweep --older-than 720h --dry-run
  holdfast sweep build --older-than 24h`,
		ValidArgsFunction: cmdline.CompleteFirst(a.CompleteLocks()),
		Args:              cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := strings.Join(args, "") // at most one
			switch {
			case stores.IsURL(prefix):
				return exit.Usagef("sweep removes records of locks: to remove what interrupted uploads left, use holdfast object sweep URL")
			case olderThan == 0:
				return exit.Usagef("--older-than is missing: for example --older-than 720h")
			case olderThan < lease.MinSweepAge:
				return exit.Usagef("%s must be at least %v, not %v", cmdline.AsGiven(cmd.Flags().Lookup("older-than")), lease.MinSweepAge, olderThan)
			}
			return a.WithClient(cmd.Context(), &leases.Flags{}, nil, func(client *lease.Client, st stores.Opened) error {
				return a.sweepLocks(cmd.Context(), client, st, strings.TrimSuffix(prefix, "/"), olderThan, dryRun)
			})
		},
	}
	cmd.Flags().DurationVar(&olderThan, "older-than", 0, "remove only locks that have been free for longer than this, at least 1h")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	return cmd
}

func (a *access) sweepLocks(ctx context.Context, client *lease.Client, st stores.Opened, prefix string, olderThan time.Duration, dryRun bool) error {
	progress := a.Progress()
	looked, gone := 0, []string{}
	removed, err := client.Sweep(ctx, &lease.SweepOptions{
		OlderThan: olderThan, Prefix: prefix, DryRun: dryRun,
		OnLock: func(name string, removed bool, err error) {
			looked++
			if removed {
				gone = append(gone, name)
			}
			progress(fmt.Sprintf("%d locks read, %d to remove", looked, len(gone)))
			if errors.Is(err, store.ErrCorrupt) || errors.Is(err, lease.ErrTokenInFuture) {
				progress("")
				a.Notef("%s", output.OneLine(err))
			}
		},
	})
	progress("")
	slices.Sort(gone)
	if a.JSON {
		if printErr := a.PrintJSON(map[string]any{"removed": gone, "dry_run": dryRun, "store": st.URL}); printErr != nil {
			return printErr
		}
	} else {
		for _, name := range gone {
			a.Printf("%s\n", printable.Text(name))
		}
	}
	if err != nil {
		return err
	}
	if swept, ok := store.As[deletedSweeper](st.Store); ok && prefix == "" && !dryRun {
		if _, err := swept.SweepDeleted(ctx, olderThan); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if prefix == "" {
		left, err := a.sweepTrials(ctx, st.Store, time.Now().Add(-olderThan), dryRun)
		if errors.Is(err, store.ErrDenied) { // locks need fewer rights
			a.Notef("sweep could not look for the data of a killed bench or doctor: %s", output.OneLine(err))
			err = nil
		}
		if err != nil {
			return err
		}
		if left > 0 {
			a.Notef("%d records of a killed bench or doctor are on %s%s", left, st.URL, map[bool]string{false: ", and removed"}[dryRun])
		}
	}
	a.Notef("%d locks %s from %s", removed, output.Done(dryRun, "removed"), st.URL)
	return nil
}

// sweepTrials removes what killed commands have left that tried or measured the store, and
// that began before a given time. It returns how many things that were.
func (a *access) sweepTrials(ctx context.Context, st store.Store, before time.Time, dryRun bool) (n int, err error) {
	for _, dir := range []string{trial.BenchDir, doctor.Dir} {
		left, err := trial.Sweep(ctx, st, dir, before, dryRun)
		if n += left; err != nil {
			return n, err
		}
	}
	u, err := a.ParseStore(a.StoreURL)
	if err != nil {
		return n, err
	}
	target, leave, err := a.DoctorTarget(ctx, u)
	if err != nil {
		return n, err
	}
	defer leave()
	if target.Killed == nil {
		return n, nil
	}
	left, err := target.Killed(ctx, before, dryRun)
	return n + left, err
}

package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/doctor"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/store"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Test whether leases are safe on a store",
		GroupID: cmdline.GroupStore,
		Long: `Test whether leases are safe on a store. doctor tries each operation that Holdfast needs: requests
that must succeed, requests that the store must refuse, and requests of many clients at a time.
doctor then reads the data again, because some servers accept a condition and ignore it.

doctor writes test data below a random prefix, .holdfast/doctor/... doctor removes this data at the
end, even after an interrupt. doctor sends a few hundred requests. If the URL names a table of
reservations, doctor also tests that table. If the server is not Amazon's, one row of the test
remains in the table until its TTL.

If leases are safe, the status is 0. If leases or reservations are not safe, it is 78. If rights
for the test are missing, it is 77. If the store does not answer, it is 69. docs/json.md describes
the output of --json.`,
		Example: `  holdfast doctor
  holdfast --store 's3://bucket/app?endpoint=http://localhost:9000' doctor
  holdfast --store file:/shared/locks doctor --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
	helper := &cobra.Command{
		Use:    stores.HelperName,
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE:   func(_ *cobra.Command, args []string) error { return doctor.Help(args, a.Stdin, a.Stdout) },
	}
	cmd.AddCommand(helper)
	return cmd
}

func (a *app) doctor(ctx context.Context) error {
	// Refused credentials are not the same as missing rights: report them as every command
	// does.
	u, err := a.ParseStore(a.StoreURL)
	if err != nil {
		return err
	}
	if u.Host != "" { // only a server asks for credentials
		if _, err := a.Usable(ctx, a.StoreURL, false); errors.Is(err, store.ErrCredentials) {
			return err
		}
	}
	target, leave, err := a.DoctorTarget(ctx, u)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := cmdline.UntilInterrupted(ctx)
	defer stop()
	show := a.Steps()
	report, err := doctor.Run(ctx, target, &doctor.Options{Progress: show})
	show("")
	if err != nil {
		for _, left := range report.NotRemoved {
			a.Notef("could not be removed: %s", left)
		}
		var by cmdline.Interrupted
		if errors.As(context.Cause(ctx), &by) {
			return exit.With(by.Status(), by)
		}
		return err
	}
	a.NoteVerdict(u, report.Verdict)
	if a.JSON {
		err = a.PrintJSON(report)
	} else {
		err = report.WriteText(a.Stdout)
	}
	if err != nil || report.Verdict == doctor.Safe {
		return err
	}
	statuses := map[doctor.Verdict]int{doctor.Denied: exit.Denied, doctor.NotProven: exit.Unreachable, doctor.NotSafe: exit.Unsafe}
	return exit.With(statuses[report.Verdict], nil)
}

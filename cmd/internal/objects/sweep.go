package objects

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
	"github.com/holdfast-go/holdfast/object/indexbucket"
)

// sweptView is what sweep has done, as it is printed with --json. Its fields are stable.
type sweptView struct {
	Bucket  string       `json:"bucket"`
	DryRun  bool         `json:"dry_run"`
	Uploads []uploadView `json:"uploads"`     // removed, or to be removed
	Young   int          `json:"in_progress"` // uploads that may be
	Failed  int          `json:"failed"`      // uploads whose state is unknown, or that could not be removed
	Bodies  int          `json:"removed_bodies"`
}

type uploadView struct {
	Key     string    `json:"key"`
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
}

// sweeper is a bucket in which a crash can leave bodies that no name refers to.
type sweeper interface {
	Sweep(ctx context.Context) (removed int, err error)
}

var (
	_ sweeper = (*dirbucket.Bucket)(nil)
	_ sweeper = (*indexbucket.Bucket)(nil)
)

func (a *access) objectSweep() *cobra.Command {
	var (
		age         time.Duration
		dryRun, all bool
	)
	cmd := &cobra.Command{
		Use:   "sweep URL",
		Short: "Remove the remains of interrupted uploads and writes",
		Long: `Remove the remains of interrupted uploads and writes, because they cost money. sweep does not
remove objects.

On S3, sweep removes an upload below the prefix if the upload got no part for a day (--older-than).
The interrupted put cannot continue then. In a directory, or in a bucket with an index, sweep
removes bodies that are older than a day and belong to no object. In a directory, sweep also
removes the records of objects that were deleted more than a day ago.

The server does not say which program began an upload. Other programs may use the bucket, so
sweep refuses a whole bucket without --all.`,
		Example: `  holdfast object sweep s3://bucket/backups/ --dry-run
  holdfast object sweep s3://bucket/backups/ --older-than 6h
  holdfast object sweep file:/srv/shared`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("older-than") && age < object.MinUploadAge {
				return exit.Usagef("--older-than is %v; it must be at least %v, because a program may still be working on a younger upload", age, object.MinUploadAge)
			}
			at, err := a.ParseObject(args[0], false)
			if err != nil {
				return err
			}
			return a.withBucket(cmd.Context(), at, func(ctx context.Context, b stores.Bucket) error {
				return a.sweepObjects(ctx, b, at.Key, object.SweepOptions{MinAge: age, DryRun: dryRun}, all)
			})
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&age, "older-than", 0, "remove only uploads that got no part for this time, at least 1h (default 24h)")
	flags.BoolVar(&dryRun, "dry-run", false, "print the uploads that would be removed, and remove nothing")
	flags.BoolVar(&all, "all", false, "sweep the whole bucket")
	return cmd
}

func (a *access) sweepObjects(ctx context.Context, b stores.Bucket, prefix string, o object.SweepOptions, all bool) error {
	bodies, hasBodies := object.As[sweeper](b.Bucket())
	uploads := b.Bucket()
	if hasBodies {
		// Everything below the prefix of its bodies belongs to this bucket.
		uploads, prefix, all = b.Bodies, b.BodiesPrefix, true
		switch {
		case o.DryRun && uploads == nil:
			return exit.Usagef("--dry-run lists only uploads, and %s has no uploads: remove the flag", b.URL)
		case o.MinAge != 0 && uploads == nil:
			return exit.Usagef("--older-than is for uploads, and %s has no uploads: remove the flag (sweep removes bodies after one day)", b.URL)
		}
	}
	view := sweptView{Bucket: b.URL, DryRun: o.DryRun, Uploads: []uploadView{}}
	o.Report = func(u object.Upload, err error) {
		if err != nil {
			a.Notef("upload %s of %s: %s", u.ID, u.Key, output.OneLine(err))
			return
		}
		view.Uploads = append(view.Uploads, uploadView{u.Key, u.ID, u.Started})
		if !a.JSON {
			a.Printf("%s\n", printable.Text(u.Key))
		}
	}
	var err error
	if uploads != nil {
		if prefix == "" && !all {
			return exit.Usagef("%s may have uploads of other programs: name a prefix, or add --all", b.URL)
		}
		if prefix == "" {
			o.Filter = func(object.Upload) bool { return true }
		}
		var swept object.SweepStats
		swept, err = object.SweepUploads(ctx, uploads, prefix, &o)
		view.Young, view.Failed = swept.TooYoung, swept.Failed
	}
	if hasBodies && !o.DryRun {
		n, sweepErr := bodies.Sweep(ctx)
		view.Bodies, err = n, errors.Join(err, sweepErr)
	}
	if a.JSON {
		err = errors.Join(a.PrintJSON(view), err)
	}
	if err != nil {
		return err
	}
	a.Notef("%d uploads and %d bodies %s %s; %d uploads may be in progress", len(view.Uploads), view.Bodies, output.Done(o.DryRun, "removed from"), b.URL, view.Young)
	return nil
}

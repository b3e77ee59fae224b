package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/compat/avisofile"
)

func (a *access) checkpointRestore(f *checkpointFlags) *cobra.Command {
	opts := &avisofile.RestoreOptions{}
	cmd := &cobra.Command{
		Use:   "restore --file FILE",
		Short: "Replace a damaged state file by its last good copy",
		Long: `Replace a damaged state file by its last good copy. holdfast makes this copy before each change.
So restore loses all changes that are newer than the copy. Checkpoints then move back, and
workers process some events again.

Before you call restore, stop other programs that use the file. restore prints how far the
checkpoints move back, if restore can read the damaged file. With --dry-run, restore does no more.
restore keeps the damaged file next to the state file. To replace a file that is not damaged,
move the file away first.`,
		Example: `  holdfast checkpoint restore --file state.json --dry-run
  holdfast checkpoint restore --file state.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.file == "" {
				return exit.Usagef("--file FILE is missing: name the state file")
			}
			opts.AllowNetwork, opts.Unsafe, opts.Logger = f.network, f.unsafe, a.Log()
			var r avisofile.RestoreResult
			err := a.waitingForFile(cmd.Context(), f, func(ctx context.Context) (err error) {
				r, err = avisofile.Restore(ctx, f.file, opts)
				return err
			})
			if errors.Is(err, os.ErrNotExist) {
				return exit.With(exit.NotFound, err)
			}
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(viewRestored(f.file, r, opts.DryRun))
			}
			verb, kept := "is restored", "is now"
			if opts.DryRun {
				verb, kept = "would be restored", "would become"
			}
			a.Notef("%s %s from %s: %d keys, written at %s (%s ago)", f.file, verb, filepath.Base(r.Backup.Path), r.Backup.Keys, r.Backup.Written.Local().Format(time.RFC3339), output.Ago(time.Since(r.Backup.Written)))
			if r.ReplacedPath != "" {
				a.Notef("the damaged file %s %s", kept, r.ReplacedPath)
				a.Notef("%s", goesBack(r))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&opts.DryRun, "dry-run", false, "print what would be restored, and change nothing")
	return cmd
}

// goesBack says how far checkpoints go back in a restore, as far as that can be known.
func goesBack(r avisofile.RestoreResult) string {
	gap := "holdfast does not know which changes programs have made after that"
	if d := r.Changed.Sub(r.Backup.Written); d > 0 {
		gap = fmt.Sprintf("all changes of the last %s before %s are lost", max(d, time.Second).Round(time.Second), r.Changed.Local().Format(time.RFC3339))
	}
	text := fmt.Sprintf("%s; %d of the %d keys can be compared", gap, r.Compared, r.Backup.Keys)
	var gone int
	var furthest avisofile.MovedBackKey
	for _, s := range r.MovedBack {
		if s.Missing {
			gone++
		} else if s.From-s.To > furthest.From-furthest.To {
			furthest = s
		}
	}
	if n := len(r.MovedBack) - gone; n > 0 {
		text += fmt.Sprintf(", and %d of them move back, at most by %d, from %d to %d (key %s)", n, furthest.From-furthest.To, furthest.From, furthest.To, furthest.Key)
	}
	if gone > 0 {
		text += fmt.Sprintf("; %d keys of the old file are not in the copy", gone)
	}
	return text
}

// restoredView is a restore as it is printed with --json.
type restoredView struct {
	File     string     `json:"file"`
	Copy     string     `json:"copy"`
	Keys     int        `json:"keys"`
	Written  time.Time  `json:"written"`
	Kept     string     `json:"damaged_copy"`
	DryRun   bool       `json:"dry_run"`
	Changed  *time.Time `json:"changed,omitempty"`
	Compared int        `json:"compared"`
	Back     []stepView `json:"moved_back"`
}

// stepView is a checkpoint that goes back.
type stepView struct {
	Key  string  `json:"key"`
	From uint64  `json:"from"`
	To   *uint64 `json:"to"` // null: it is not in the copy
}

func viewRestored(file string, r avisofile.RestoreResult, dryRun bool) restoredView {
	v := restoredView{
		File: file, Copy: r.Backup.Path, Keys: r.Backup.Keys, Written: r.Backup.Written, Kept: r.ReplacedPath, DryRun: dryRun,
		Compared: r.Compared, Back: []stepView{}, Changed: printable.Time(r.Changed),
	}
	for _, s := range r.MovedBack {
		step := stepView{Key: s.Key, From: s.From}
		if !s.Missing {
			step.To = &s.To
		}
		v.Back = append(v.Back, step)
	}
	return v
}

package items

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/internal/drivers/storeurl"
	"github.com/holdfast-go/holdfast/items/largeitem"
)

// tableURL takes the URL of the table of items apart.
func (f *itemFlags) tableURL(cmd *cobra.Command, a *access) (*url.URL, error) {
	if cmdline.EmptyFlag(cmd.Flags(), "table") {
		return nil, exit.Usagef("--table, or %s, is empty: name the table of the items", cmdline.VariableOf("table"))
	}
	if f.table == "" {
		return nil, exit.Usagef("name the table of the items: --table %s, or %s", stores.TableForms(), cmdline.VariableOf("table"))
	}
	raw, err := a.Named(f.table)
	if err != nil {
		return nil, err
	}
	u, err := a.ParseTable(raw)
	if err != nil {
		return nil, fmt.Errorf("--table: %w", err)
	}
	return u, nil
}

// withTable opens the table that the flags name, calls do with a context that a signal ends,
// and closes the table.
func (a *access) withTable(cmd *cobra.Command, f *itemFlags, do func(context.Context, largeitem.Table) error) error {
	u, err := f.tableURL(cmd, a)
	if err != nil {
		return err
	}
	a.WarnUntrustedState(u.Scheme)
	ctx, stop := cmdline.UntilInterrupted(cmd.Context())
	defer stop()
	t, err := a.OpenTable(ctx, u)
	if err != nil {
		return err
	}
	defer t.Close()
	return cmdline.StoppedBy(ctx, do(ctx, t.Table))
}

func (a *access) itemInit() *cobra.Command {
	f := &itemFlags{}
	var partition, sort string
	var change bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Create a table of items",
		Long: `Create a table of items in DynamoDB (billed per request), in a database of SQLite, PostgreSQL or
MySQL, or in a directory. If the table exists with the same key, init does not change it.

By default the key is a text attribute with the name pk. --partition and --sort name other
attributes: NAME for a text, NAME:number for a number. For these databases, the URL can
name the table and its key columns: table=NAME (default items), partition=NAME, sort=NAME.

With --bucket, init marks the prefix of the bucket as a part of this table. The first put does the
same. init refuses the prefix of another table. With --adopt, init takes over this prefix, and
later sweeps remove the objects of the other table. So use --adopt after a move or a restore of a
table, never for a copy. Set --orphan-age to twice the longest time of a put, or more.`,
		Example: `  holdfast item init --table 'dynamodb://pages?region=eu-central-1'
  holdfast item init --table 'sqlite:/srv/app.db?table=photos&partition=user&sort=taken' --partition user --sort taken:number
  holdfast item init --table file:/srv/items --bucket file:/srv/objects`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := keyAttribute(cmd, "partition", partition)
			if err != nil {
				return err
			}
			s, err := keyAttribute(cmd, "sort", sort)
			if err != nil {
				return err
			}
			if f.adopt && f.bucket == "" {
				return exit.Usagef("--adopt needs --bucket: name the prefix that init takes over")
			}
			if change && (f.bucket == "" || f.orphanAge == 0) {
				return exit.Usagef("--change-orphan-age needs --bucket and --orphan-age")
			}
			return a.itemsMake(cmd, f, p, s, change)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&partition, "partition", "pk", "partition key: `NAME` for a text, NAME:number for a number")
	cmd.Flags().StringVar(&sort, "sort", "", "sort key: `NAME` for a text, NAME:number for a number (default: no sort key)")
	cmd.Flags().BoolVar(&change, "change-orphan-age", false, "change the orphan age of an existing table to --orphan-age")
	cmd.Flags().BoolVar(&f.adopt, "adopt", false, "take over the prefix of the bucket from another table")
	return cmd
}

func keyAttribute(cmd *cobra.Command, flag, text string) (largeitem.KeyAttribute, error) {
	if cmdline.EmptyFlag(cmd.Flags(), flag) {
		return largeitem.KeyAttribute{}, exit.Usagef("--%s is empty: give NAME or NAME:number", flag)
	}
	name, number := strings.CutSuffix(text, ":number")
	return largeitem.KeyAttribute{Name: name, Number: number}, nil
}

func (a *access) itemsMake(cmd *cobra.Command, f *itemFlags, partition, sort largeitem.KeyAttribute, change bool) error {
	if _, err := f.options(cmd.Flags(), a); err != nil {
		return err
	}
	if f.bucket != "" || cmdline.EmptyFlag(cmd.Flags(), "bucket") {
		if _, err := f.bucketURL(cmd.Flags(), a, true); err != nil {
			return err
		}
	}
	u, err := f.tableURL(cmd, a)
	if err != nil {
		return err
	}
	ctx, stop := cmdline.UntilInterrupted(cmd.Context())
	defer stop()
	if err := a.CreateTable(ctx, u, partition, sort); err != nil {
		return cmdline.StoppedBy(ctx, err)
	}
	result := map[string]any{"usable": true}
	done := func(s largeitem.Schema) error {
		result["table"] = s.Name
		return a.PrintOrNote(result, "%s can be used", s.Name)
	}
	if f.bucket == "" {
		return a.withTable(cmd, f, func(ctx context.Context, t largeitem.Table) error {
			s, err := t.Schema(ctx)
			if err != nil {
				return err
			}
			return done(s)
		})
	}
	return a.withItems(cmd, f, true, func(ctx context.Context, s items) error {
		age, err := markOrphanAge(ctx, s, f.orphanAge, change)
		if err != nil {
			return err
		}
		result["orphan_age"] = age.String()
		at, _, err := storeurl.Parse(f.bucket)
		if err != nil {
			return err
		}
		at.RawQuery = ""
		result["bucket"] = at.String()
		return done(s.schema)
	})
}

// markOrphanAge marks the prefix as the table's, and returns the orphan age of the table. An age that
// is asked for must be that one, or change must be true.
func markOrphanAge(ctx context.Context, s items, asked time.Duration, change bool) (time.Duration, error) {
	err := s.ClaimPrefix(ctx)
	if errors.As(err, new(*largeitem.OrphanAgeError)) {
		err = nil // it is another one: see below
	}
	if err != nil {
		return 0, err
	}
	age, err := s.OrphanAge(ctx)
	switch {
	case err != nil || asked == 0 || asked == age:
		return age, err
	case change:
		return asked, s.ChangeOrphanAge(ctx, asked)
	}
	return age, exit.With(exit.Unsafe, fmt.Errorf("the orphan age of this table is %v, and not %v: add --change-orphan-age to change it", age, asked))
}

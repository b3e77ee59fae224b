// Package items has the commands about items of tables, whose large attributes are objects.
package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/items/largeitem"
	"github.com/holdfast-go/holdfast/store"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ *cmdline.Invocation }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	return cmdline.Commands{"item": (&access{in}).itemCommand}
}

// itemFlags are the flags of every command of items.
type itemFlags struct {
	table, bucket, layout, base string
	orphanAge                   time.Duration
	adopt, remove, young        bool
}

func (f *itemFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.table, "table", "", "table of the items: "+stores.TableForms())
	flags.StringVar(&f.bucket, "bucket", "", "bucket of the large attributes: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, azblob://ACCOUNT/CONTAINER/PREFIX or file:DIR")
	flags.StringVar(&f.layout, "layout", layoutOwn, "format of object names and references: holdfast or pynamodb_mate")
	cmdline.CompleteFlag(cmd, "layout", layoutOwn, layoutMate)
	flags.StringVar(&f.base, "reference-base", "", "name of the bucket in references (default: the URL of the bucket); give the same name to all programs")
	flags.DurationVar(&f.orphanAge, "orphan-age", 0, "age at which an unreferenced object may be removed, at least 1h (default: the value that item init stored in the table, or 24h)")
}

const (
	layoutOwn  = "holdfast"
	layoutMate = "pynamodb_mate"
)

// items is a store of items, with what is known of its table.
type items struct {
	*largeitem.Store
	schema largeitem.Schema
}

// withItems opens the table and the bucket that the flags name, calls do with a context
// that a signal ends, and closes them. With makes, the bucket may be made if it is a
// directory.
func (a *access) withItems(cmd *cobra.Command, f *itemFlags, makes bool, do func(context.Context, items) error) error {
	opts, err := f.options(cmd.Flags(), a)
	if err != nil {
		return err
	}
	at, err := f.bucketURL(cmd.Flags(), a, makes)
	if err != nil {
		return err
	}
	opts.Prefix = at.Key
	return a.withTable(cmd, f, func(ctx context.Context, t largeitem.Table) error {
		schema, err := t.Schema(ctx)
		if err != nil {
			return err
		}
		if at.IsNew() && !makes {
			return exit.With(exit.Unsafe, fmt.Errorf("there is no bucket %s: check the name, or create the bucket with holdfast item init", at))
		}
		b, err := at.Open(ctx, &a.Access)
		if err != nil {
			return err
		}
		defer b.Close()
		s, err := largeitem.New(t, b.Bucket(), opts)
		if err != nil {
			return err
		}
		return inWords(do(ctx, items{s, schema}))
	})
}

// withItem is withItems for a command that reads or writes the item of one key.
func (a *access) withItem(cmd *cobra.Command, f *itemFlags, keyText string, do func(context.Context, items, largeitem.Key) error) error {
	return a.withItems(cmd, f, false, func(ctx context.Context, s items) error {
		key, err := parseKey(s.schema, keyText)
		if err != nil {
			return err
		}
		return do(ctx, s, key)
	})
}

// inWords says which command or flag helps where the marker of a prefix refuses a call.
func inWords(err error) error {
	var other *largeitem.OtherTableError
	var age *largeitem.OrphanAgeError
	switch {
	case errors.As(err, &other):
		help := "name another prefix, --bucket URL/PREFIX; or, if that table was deleted and you do not need its objects, take over the prefix with item init --adopt"
		if other.Copied() {
			help = "if one table is a copy of the other, name another prefix, --bucket URL/PREFIX; if you moved the table and no program uses the old place, take over the prefix with item init --adopt"
		}
		return exit.With(exit.Unsafe, fmt.Errorf("the objects next to %s belong to the table %s (%s), and not to %s (%s): %s",
			other.Object, other.Table, other.ID, other.Store, other.StoreID, help))
	case errors.As(err, &age):
		why, until := "longer, so another program's sweep could remove objects that this command writes", ""
		help := fmt.Sprintf("change the age of the table with item init --orphan-age %v --change-orphan-age", age.Given)
		if age.Sweep {
			why = "shorter, so this sweep could remove an object that another program has just written"
		}
		if !age.Until.IsZero() {
			until = fmt.Sprintf(" until %s, because a program made the orphan age shorter", age.Until.Local().Format(time.DateTime))
			help = "wait"
		}
		return exit.With(exit.Unsafe, fmt.Errorf("the orphan age of this table is %v%s, and --orphan-age %v is %s: remove --orphan-age, or %s", age.Table, until, age.Given, why, help))
	}
	return err
}

func (f *itemFlags) options(flags *pflag.FlagSet, a *access) (*largeitem.Options, error) {
	o := &largeitem.Options{BaseURI: f.base, OrphanAge: f.orphanAge, AdoptPrefix: f.adopt, RemoveSuperseded: f.remove, RemoveYoung: f.young, Logger: a.Log()}
	switch {
	case cmdline.EmptyFlag(flags, "reference-base"):
		return nil, exit.Usagef("--reference-base is empty: remove the flag to use the URL of the bucket")
	case f.young && !f.remove:
		return nil, exit.Usagef("--any-age needs --remove-superseded")
	case flags.Changed("orphan-age") && f.orphanAge < largeitem.MinOrphanAge:
		return nil, exit.Usagef("--orphan-age is %v; it must be at least %v, because another program may just have written a younger object", f.orphanAge, largeitem.MinOrphanAge)
	}
	switch f.layout {
	case layoutOwn:
	case layoutMate:
		o.Layout = largeitem.PynamoDBMateLayout()
	default:
		return nil, exit.Usagef("--layout must be %[2]s or %[3]s, not %[1]s", printable.Text(f.layout), layoutOwn, layoutMate)
	}
	return o, nil
}

// bucketURL takes the URL of the bucket apart: its key is the prefix.
func (f *itemFlags) bucketURL(flags *pflag.FlagSet, a *access, makes bool) (*stores.ObjectURL, error) {
	if cmdline.EmptyFlag(flags, "bucket") {
		return nil, exit.Usagef("--bucket, or %s, is empty: name the bucket of the large attributes", cmdline.VariableOf("bucket"))
	}
	if f.bucket == "" {
		return nil, exit.Usagef("name the bucket of the large attributes: --bucket s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, azblob://ACCOUNT/CONTAINER/PREFIX or file:DIR, or %s", cmdline.VariableOf("bucket"))
	}
	at, err := a.parseBucket(f.bucket, makes)
	if err != nil {
		err = fmt.Errorf("--bucket: %w", err)
	}
	return at, err
}

// parseBucket takes the URL of a bucket, with a prefix if need be, apart. Where no bucket
// is above a directory, the whole path is the bucket.
func (a *access) parseBucket(raw string, makes bool) (*stores.ObjectURL, error) {
	u, err := a.ParseURL(raw)
	if err != nil || u.Scheme != "file" {
		return a.ParseObject(raw, makes)
	}
	path, _, err := stores.DirectoryOf(u)
	if err != nil {
		return nil, err
	}
	if strings.Contains(path[1:], "//") {
		return a.ParseObject(raw, makes)
	}
	dir, _, err := stores.NearestBucket(path)
	if err != nil || dir != "" {
		return a.ParseObject(raw, makes)
	}
	switch empty, err := stores.IsEmpty(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !empty:
		return nil, exit.Usagef("the directory %s is not a bucket, and contains other files: name a new or empty directory; or turn it into a bucket with file:%[1]s//", path)
	}
	if dir, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return &stores.ObjectURL{Given: u, Makes: makes, Bucket: &url.URL{Scheme: "file", Path: filepath.ToSlash(dir), RawQuery: u.RawQuery}}, nil
}

func (a *access) itemCommand() *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:     "item",
		Short:   "Read and write items of a table, with large attributes in a bucket",
		GroupID: cmdline.GroupObjects,
		Long: `Read and write items of a table. Large attributes of an item are objects in a bucket. The item
stores a reference to each object, with the size and the SHA-256 of the content. An item never
refers to an object that does not exist, even after a crash. get checks size and hash.

KEY is the partition key, or PARTITION/SORT if the table has a sort key. If a key value has a
slash, or begins with a bracket, write KEY as JSON: ["a/b","c"] or {"pk":"a/b","sk":"c"}.

The variables HOLDFAST_TABLE and HOLDFAST_BUCKET can replace --table and --bucket.`,
		Example: `  holdfast item init --table 'dynamodb://pages?region=eu-central-1'
  holdfast item put example.org --attr html=@page.html --set '{"status":200}' --table dynamodb://pages --bucket s3://bucket/pages
  holdfast item get example.org --attr html --table dynamodb://pages --bucket s3://bucket/pages > page.html`,
	}, a.itemInit(), a.itemPut(), a.itemGet(), a.itemRm(), a.itemLs(), a.itemSweep(), a.itemVerify())
}

// writes adds the flags of commands that write.
func (f *itemFlags) writes(flags *pflag.FlagSet) {
	flags.BoolVar(&f.remove, "remove-superseded", false, "remove at once the objects of replaced or removed attributes, if they are older than --orphan-age")
	flags.BoolVar(&f.young, "any-age", false, "with --remove-superseded: remove objects of any age; safe only if no proxy repeats requests")
}

func (a *access) itemGet() *cobra.Command {
	f := &itemFlags{}
	var attr, output string
	var typed bool
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Print an item, or read one of its large attributes",
		Long: `Print an item as JSON: its key, its attributes, and the references of its large attributes.

With --attr, get prints the content of one large attribute. With --output, get writes the content
to a file, but only if its size and hash are right. If the hash is wrong, the status is 78.
Without --output, get has then already printed the wrong content.

If there is no such item or attribute, the status is 66. If the item refers to an object that
does not exist, the status is 78.`,
		Example: `  holdfast item get example.org
  holdfast item get example.org --attr html --output page.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmdline.EmptyFlag(cmd.Flags(), "attr"):
				return exit.Usagef("--attr is empty: name a large attribute")
			case attr == "" && cmd.Flags().Changed("output"):
				return exit.Usagef("--output is for one large attribute: name it with --attr")
			case attr != "" && typed:
				return exit.Usagef("--dynamodb-json is for a whole item: remove it, or remove --attr")
			case attr != "" && a.JSON && (output == "" || output == "-"):
				return exit.Usagef("--json and the attribute would both go to standard output: name a file with --output")
			}
			return a.withItem(cmd, f, args[0], func(ctx context.Context, s items, key largeitem.Key) error {
				if attr != "" {
					return a.itemAttribute(ctx, s, key, attr, output, cmd.Flags().Changed("output"))
				}
				i, err := s.GetMeta(ctx, key)
				if err != nil {
					return err
				}
				v, err := viewItem(i, typed)
				if err != nil {
					return err
				}
				return a.PrintJSON(v)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&attr, "attr", "", "read the large attribute `NAME`")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write the large attribute to `FILE` (default: standard output)")
	cmd.Flags().BoolVar(&typed, "dynamodb-json", false, `print attributes with DynamoDB's types: {"n":{"N":"7"}}`)
	return cmd
}

// itemAttribute reads one large attribute.
func (a *access) itemAttribute(ctx context.Context, s items, key largeitem.Key, attr, output string, given bool) error {
	to, err := transfer.OpenTarget(a.Stdout, output, given)
	if err != nil {
		return err
	}
	defer to.Discard()
	i, err := s.Get(ctx, key, &largeitem.ReadOptions{Attributes: []string{attr}})
	if err != nil {
		return err
	}
	defer i.Close()
	body := i.Body(attr)
	if body == nil {
		if why := i.Foreign[attr]; why != nil {
			return why
		}
		if _, small := i.Attributes[attr]; small {
			return exit.With(exit.NotFound, fmt.Errorf("the attribute %s of the item %v is not a large attribute: item get without --attr prints it", attr, key))
		}
		return exit.With(exit.NotFound, fmt.Errorf("the item %v has no attribute %s", key, attr))
	}
	bar := a.Bar(attr, body.Reference.Size)
	_, err = io.Copy(to, io.TeeReader(body, bar))
	bar.End()
	if err := to.Commit(err); err != nil {
		return fmt.Errorf("attribute %s of the item %v: %w", attr, key, err)
	}
	return a.PrintIfJSON(viewReference(body.Reference))
}

func (a *access) itemRm() *cobra.Command {
	f := &itemFlags{}
	var ifExists bool
	cmd := &cobra.Command{
		Use:        "rm KEY",
		SuggestFor: []string{"delete"},
		Short:      "Remove an item",
		Long: `Remove an item. rm keeps the objects of the item, because other programs may read them. "item
sweep" removes the objects later. --remove-superseded removes them at once.

If the item does not exist, the status is 0. With --if-exists it is 66.`,
		Example: `  holdfast item rm example.org`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withItem(cmd, f, args[0], func(ctx context.Context, s items, key largeitem.Key) error {
				opts := &largeitem.DeleteOptions{}
				if ifExists {
					// After a refused delete it is not certain who has deleted the item; a read shows
					// at least that there is none to begin with.
					if _, err := s.GetMeta(ctx, key); err != nil {
						return err
					}
					opts.If.Exists = true
				}
				r, err := s.Delete(ctx, key, opts)
				if err != nil {
					return err
				}
				v := viewWrote(key, r)
				existed := r.Item != nil
				v.Existed = &existed
				return a.PrintIfJSON(v)
			})
		},
	}
	f.add(cmd)
	f.writes(cmd.Flags())
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "end with status 66 if the item does not exist")
	return cmd
}

func (a *access) itemLs() *cobra.Command {
	f := &itemFlags{}
	var typed bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the items of a table",
		Long: `List the items of a table, in no fixed order. Each line has the key as JSON, and the large
attributes with their sizes in bytes, separated by tabs. With --json each item is one line.

PREFIX selects items by the beginning of PARTITION or PARTITION/SORT. So user-7/ selects one
partition. ls always reads the whole table.

If items are damaged, ls prints their keys at the end, and the status is 78.`,
		Example: `  holdfast item ls
  holdfast item ls user-7/
  holdfast item ls --json | jq -c '.key'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := strings.Join(args, "")
			return a.withItems(cmd, f, false, func(ctx context.Context, s items) error {
				var bad []error
				for i, err := range s.List(ctx, nil) {
					switch {
					case errors.Is(err, store.ErrCorrupt):
						bad = append(bad, err)
					case err != nil:
						return errors.Join(append(bad, err)...)
					case strings.HasPrefix(writtenKey(i.Key), prefix):
						if err := a.printItem(i, typed); err != nil {
							return err
						}
					}
				}
				return errors.Join(bad...)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&typed, "dynamodb-json", false, `print attributes with DynamoDB's types: {"n":{"N":"7"}}`)
	return cmd
}

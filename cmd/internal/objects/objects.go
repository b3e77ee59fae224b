// Package objects has the commands about objects in buckets, and about commit logs.
package objects

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// access is the invocation of the command, as the commands of this package use it.
type access struct{ *cmdline.Invocation }

// Commands returns the commands of this package.
func Commands(in *cmdline.Invocation) cmdline.Commands {
	a := &access{in}
	return cmdline.Commands{"put": a.putCommand, "get": a.getCommand, "object": a.objectCommand, "commit-log": a.commitLogCommand}
}

// objectCommand is the group of the commands on objects. The two that are used most, put and get,
// are commands of their own, too.
func (a *access) objectCommand() *cobra.Command {
	put, get := a.putCommand(), a.getCommand()
	put.GroupID, get.GroupID = "", "" // they are groups of the root command
	return cmdline.Group(&cobra.Command{
		Use:        "object",
		SuggestFor: []string{"cp", "mv", "rm", "stat"},
		Short:      "Write, read, list, copy and remove objects",
		GroupID:    cmdline.GroupObjects,
		Long: `Read and change objects in a bucket of S3 or Google Cloud Storage, in a container of Azure, or in a
directory that is used as a bucket. The URL of an object is the URL of the bucket and the key of the
object: s3://BUCKET/KEY, gs://BUCKET/KEY, azblob://ACCOUNT/CONTAINER/KEY or file:DIR/KEY.`,
		Example: `  holdfast object ls s3://bucket/reports/
  holdfast object stat s3://bucket/reports/today.pdf
  holdfast object cp report.pdf s3://bucket/reports/`,
	}, put, get, a.objectLs(), a.objectStat(), a.objectCp(), a.objectMv(), a.objectRm(), a.objectFence(), a.objectSweep(), a.objectReservations())
}

// objectURLs offers the beginnings of the URLs of objects.
func objectURLs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return stores.Beginnings(true), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// withObject opens the bucket of a URL that must name an object, calls do, and closes the
// bucket.
func (a *access) withObject(ctx context.Context, raw string, makes bool, do func(context.Context, stores.Bucket, string) error) (err error) {
	at, err := a.ParseObject(raw, makes)
	if err == nil {
		err = at.Object()
	}
	if err != nil {
		return err
	}
	return a.withBucket(ctx, at, func(ctx context.Context, b stores.Bucket) error { return do(ctx, b, at.Key) })
}

// withBucket opens the bucket of a URL, calls do with a context that a signal ends, and
// closes the bucket.
func (a *access) withBucket(ctx context.Context, at *stores.ObjectURL, do func(context.Context, stores.Bucket) error) error {
	a.WarnUntrustedState(at.Bucket.Scheme)
	ctx, stop := cmdline.UntilInterrupted(ctx)
	defer stop()
	a.Again = at.Bucket.String()
	b, err := at.Open(ctx, &a.Access)
	if err != nil {
		return err
	}
	defer b.Close()
	a.Opened = b.URL
	return cmdline.StoppedBy(ctx, do(ctx, b))
}

func (a *access) putCommand() *cobra.Command {
	f := &writeFlags{}
	var size int64
	cmd := &cobra.Command{
		Use:     "put SOURCE URL",
		Short:   "Write an object from a file, or from standard input",
		GroupID: cmdline.GroupObjects,
		Long: `Write an object from a file, or from standard input if SOURCE is "-". put prints the version
of the new object. Readers see the old object or the complete new object. put refuses a file that
changes while put reads it, and an input that does not have --size bytes.

With --if-absent or --if-match, put writes only if the condition is true. If several programs
write at the same time, one succeeds. The others end with status 73. With --fence, put writes
only if the object carries no higher token. Otherwise the status is 76. After the write, the
object carries the token of --fence.

Status 74: the reply of the store was lost. put may have written the object, or not. Look with
"holdfast object stat". For URLs see holdfast help object-urls.`,
		Example: `  holdfast put report.pdf s3://bucket/reports/today.pdf
  version=$(holdfast put state.json file:/srv/shared/state.json --if-absent)
  holdfast put state.json file:/srv/shared/state.json --if-match "$version"
  pg_dump shop | holdfast put - s3://bucket/dumps/shop.sql
  holdfast run deploy -- sh -c 'holdfast put m.json s3://bucket/m.json --fence $HOLDFAST_TOKEN'`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 1),
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("size") && size < 1 {
				return exit.Usagef("--size must be a number of bytes, at least 1")
			}
			return a.put(cmd, args[0], args[1], "", size, f)
		},
	}
	f.conditions(cmd.Flags(), true)
	f.content(cmd.Flags(), "application/octet-stream")
	cmd.Flags().Int64Var(&size, "size", -1, "refuse an input that does not have this many bytes, for example the output of a program that failed")
	cmd.Flags().Lookup("size").DefValue = "-1: any size"
	return cmd
}

// put writes a file, or standard input, to an object; see [app.target] for what is named.
func (a *access) put(cmd *cobra.Command, name, to, named string, size int64, f *writeFlags) error {
	opts, err := f.options(cmd.Flags())
	if err != nil {
		return err
	}
	at, err := a.target(to, f, true, named)
	if err != nil {
		return err
	}
	// Open the source first: if it cannot be read, the command makes nothing.
	ctx, stop := cmdline.UntilInterrupted(cmd.Context())
	defer stop()
	src, err := transfer.OpenSource(ctx, a.Stdin, name, size)
	if err != nil {
		return cmdline.StoppedBy(ctx, err)
	}
	defer src.Close()
	return a.withBucket(ctx, at, func(ctx context.Context, b stores.Bucket) error {
		if err := f.checkVersions(b, b); err != nil {
			return err
		}
		var done int64
		bar := a.Bar(name, src.Size)
		opts.Progress = func(n, _ int64) {
			done = n
			bar.Set(n)
		}
		opts.Length = max(src.Size, 0)
		info, err := a.upload(ctx, b, at.Key, src, opts, bar)
		bar.End()
		if err != nil {
			return a.cut(refusedWrite(b, err, at.Key, opts), done, src.Size)
		}
		return a.printObject(b, info, nil)
	})
}

// cut adds to the error of a transfer how much was transferred, and how the user can
// continue.
func (a *access) cut(err error, done, size int64) error {
	of, goOn := "", "the object did not change, and the store has no data of this put: start the put again"
	if size >= 0 {
		of = " of " + output.Bytes(size)
	}
	var unfinished *unfinishedError
	switch {
	case errors.As(err, &unfinished):
		goOn = unfinished.goOn
	case done < output.BarFrom, exit.Status(err) == exit.Condition, store.Permanent(err):
		return err
	case store.InDoubt(err):
		goOn = "put may have written the object: look with holdfast object stat before you start the put again"
	}
	return fmt.Errorf("%w (after %s%s: %s)", err, output.Bytes(done), of, goOn)
}

func (a *access) getCommand() *cobra.Command {
	var opts object.GetOptions
	cmd := &cobra.Command{
		Use:     "get URL [FILE]",
		Short:   "Read an object into a file, or to standard output",
		GroupID: cmdline.GroupObjects,
		Long: `Read an object into a file, or to standard output if FILE is "-" or missing.

get replaces FILE when it has read the whole object. Other programs see the old file or the
complete new file. get refuses a FILE that is a link. On some file systems get needs a temporary
file, .holdfast-get-RANDOM. If get is killed, you can remove this file.

If the connection breaks, get reads the rest of the same version. If get fails or is interrupted
after 4 MiB or more, it keeps the first part in a file next to FILE. If the object has not changed,
the same command then continues from there. If there is no such object, the status is 66.`,
		Example: `  holdfast get s3://bucket/reports/today.pdf today.pdf
  holdfast get file:/srv/shared/state.json | jq .
  holdfast get s3://bucket/log --offset 1000000 --length 1000 -`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 1 {
				name = args[1]
			}
			switch {
			case cmdline.EmptyFlag(cmd.Flags(), "if-match"):
				return exit.Usagef("--if-match is empty: name a version")
			case opts.Offset < 0, opts.Length < 0:
				return exit.Usagef("--offset and --length must be numbers of bytes, at least 0")
			case a.JSON && (name == "" || name == "-"):
				return exit.Usagef("--json and the object would both go to standard output: name a file")
			}
			return a.withObject(cmd.Context(), args[0], false, func(ctx context.Context, b stores.Bucket, key string) error {
				if err := checkVersion(b, "if-match", opts.IfMatch); err != nil {
					return err
				}
				return a.get(ctx, b, key, opts, name, len(args) > 1)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar((*string)(&opts.IfMatch), "if-match", "", "read only if the object has this version")
	flags.Int64Var(&opts.Offset, "offset", 0, "position of the first byte to read; 0 is the beginning of the object")
	flags.Int64Var(&opts.Length, "length", 0, "read at most this many bytes (default: all)")
	return cmd
}

func (a *access) get(ctx context.Context, b stores.Bucket, key string, opts object.GetOptions, name string, given bool) error {
	to, err := transfer.OpenTarget(a.Stdout, name, given)
	if err != nil {
		return err
	}
	defer to.Discard()
	info, err := a.download(ctx, b, key, opts, to)
	if err := to.Commit(err); err != nil {
		return err
	}
	return a.PrintIfJSON(objectViewOf(b, info))
}

func (a *access) objectStat() *cobra.Command {
	var versionOnly bool
	cmd := &cobra.Command{
		Use:   "stat URL",
		Short: "Print the version, metadata and fence of an object",
		Long: `Print the version, size, time, metadata and fence of an object. stat also prints how Holdfast
checks each condition in this bucket: by a condition of the store, by another request, by a
reservation, or not at all.

On a server that is not Amazon's, stat tests the conditions once a week, with objects below
.holdfast/probe in the bucket. If there is no such object, the status is 66.`,
		Example: `  holdfast object stat s3://bucket/reports/today.pdf
  version=$(holdfast object stat --version-only file:/srv/shared/state.json)`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withObject(cmd.Context(), args[0], false, func(ctx context.Context, b stores.Bucket, key string) error {
				info, err := b.Stat(ctx, key)
				if err != nil || versionOnly {
					return a.printObject(b, info, err)
				}
				view := objectViewOf(b, info)
				view.strategies(ctx, b)
				return a.printStat(view)
			})
		},
	}
	cmd.Flags().BoolVar(&versionOnly, "version-only", false, "print the version and nothing else")
	return cmd
}

func (a *access) objectFence() *cobra.Command {
	f := &writeFlags{}
	cmd := &cobra.Command{
		Use:   "fence URL --fence TOKEN --lock NAME",
		Short: "Block writes of earlier lock holders to an object",
		Long: `Store the token of a lock in an object, and print the new version of the object. The content does
not change. After that, holders with a lower token cannot write the object. So a new holder first
calls fence, and then reads. If the object does not exist, fence stores the token in a mark.
Readers do not see the mark.

fence needs a store that never uses a version twice: a directory, gs://, azblob://, or a bucket
with an index (index=self). For other buckets the status is 78. If the object carries a higher
token, the status is 76.`,
		Example:           `  holdfast run deploy -- sh -c 'holdfast object fence file:/srv/shared/state.json --fence $HOLDFAST_TOKEN && ./deploy.sh'`,
		ValidArgsFunction: cmdline.CompleteFirst(objectURLs),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.options(cmd.Flags())
			if err != nil {
				return err
			}
			if opts.Fence == nil {
				return exit.Usagef("--fence TOKEN and --lock NAME are missing")
			}
			return a.withObject(cmd.Context(), args[0], true, func(ctx context.Context, b stores.Bucket, key string) error {
				info, err := b.RaiseFence(ctx, key, *opts.Fence)
				return a.printObject(b, info, err)
			})
		},
	}
	f.token(cmd.Flags())
	return cmd
}

func (a *access) objectLs() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "ls URL",
		Short: "List the objects of a bucket, or those below a prefix",
		Long: `List the objects below a prefix, in no fixed order. Each line has the size, the time, the version
and the key, separated by tabs. With --json each object is one line.

Without --recursive, ls lists one level. A key that ends with a slash, such as reports/2024/,
represents all objects below it.`,
		Example: `  holdfast object ls s3://bucket/reports/
  holdfast object ls --recursive file:/srv/shared --json | jq -r .version`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := a.parsePrefix(args[0], false)
			if err != nil {
				return err
			}
			return a.withBucket(cmd.Context(), at, func(ctx context.Context, b stores.Bucket) error {
				listing := b.ListDir(ctx, at.Key)
				if recursive {
					listing = b.List(ctx, at.Key, nil)
				}
				n := 0
				for info, err := range listing {
					if err != nil {
						return err
					}
					n++
					if !recursive && info.Version == "" {
						err = a.PrintLine(prefixView{urlOf(b, info.Key), info.Key}, "-\t-\t-\t"+printable.Text(info.Key))
					} else {
						err = a.printListed(objectViewOf(b, info))
					}
					if err != nil {
						return err
					}
				}
				if n == 0 {
					a.Notef("no objects below %s", at)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list all levels")
	return cmd
}

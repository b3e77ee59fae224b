package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
)

func (a *access) objectMv() *cobra.Command {
	f := &writeFlags{}
	cmd := &cobra.Command{
		Use:   "mv URL URL",
		Short: "Rename an object within its bucket",
		Long: `Rename an object within its bucket, and print the version of the new object. Conditions, such as
--if-absent, apply to the new name. Between two buckets use cp, and then rm --if-match.

A rename has two steps. mv copies the object, and then removes the source if the source has not
changed. After a crash both objects may exist. The same command then finishes the rename.

If several programs rename one object to different names, at most one succeeds. The others end
with status 73. A small object below .holdfast/rename/ names the winner. If mv is killed during a
rename, only a rename to the same new name can continue it. Renames to other names are refused for
one minute, plus one second for each MiB of the object.`,
		Example:           `  holdfast object mv s3://bucket/upload.tmp s3://bucket/upload --if-absent`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0, 1),
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withTwo(cmd, args, false, f, func(ctx context.Context, src, dst *stores.ObjectURL, from, to stores.Bucket, opts *object.WriteOptions) error {
				if from.ID() != to.ID() {
					return exit.Usagef("%s and %s are not in the same bucket: use cp, and then rm --if-match", src, dst)
				}
				done, err := to.Rename(ctx, src.Key, dst.Key, a.showing(opts, src.Key))
				if err == nil && done.Resumed {
					a.Notef("an earlier rename has already copied %s", src)
				}
				return a.printObject(to, done.Info, refusedWrite(to, err, dst.Key, opts))
			})
		},
	}
	f.conditions(cmd.Flags(), true)
	f.source(cmd.Flags())
	return cmd
}

// withTwo opens the buckets of a source and a destination, which must be two objects, calls
// do, and closes the buckets. With makes, it makes the bucket of the destination if the
// source exists.
func (a *access) withTwo(cmd *cobra.Command, args []string, makes bool, f *writeFlags, do func(ctx context.Context, src, dst *stores.ObjectURL, from, to stores.Bucket, opts *object.WriteOptions) error) error {
	opts, err := f.options(cmd.Flags())
	if err != nil {
		return err
	}
	src, err := a.ParseObject(args[0], false)
	if err == nil {
		err = src.Object()
	}
	if err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	name := ""
	if makes {
		name = path.Base(src.Key)
	}
	dst, err := a.target(args[1], f, makes, name)
	if err != nil {
		return fmt.Errorf("the destination: %w", err)
	}
	return a.withBucket(cmd.Context(), src, func(ctx context.Context, from stores.Bucket) error {
		if dst.IsNew() {
			if _, err := from.Stat(ctx, src.Key); err != nil {
				return fmt.Errorf("the source: %w", err)
			}
		}
		to, err := dst.Open(ctx, &a.Access)
		if err != nil {
			return err
		}
		defer to.Close()
		if src.Key == dst.Key && from.ID() == to.ID() {
			return exit.Usagef("the source and the destination are one object: %s", dst)
		}
		if err := f.checkVersions(from, to); err != nil {
			return err
		}
		return do(ctx, src, dst, from, to, opts)
	})
}

// copyObject copies an object within a bucket, or between two.
func (a *access) copyObject(ctx context.Context, from stores.Bucket, source string, to stores.Bucket, destination string, opts *object.WriteOptions) (object.Info, error) {
	if from.ID() == to.ID() {
		return to.Copy(ctx, source, destination, a.showing(opts, source))
	}
	var info object.Info
	in, out := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun := make(chan error, 2) // the source was opened and described, or that failed
	read := make(chan struct{})
	d := &reading{b: from, key: source, opts: object.GetOptions{IfMatch: opts.SourceIfMatch}, to: out}
	d.begun = func(i object.Info) {
		info = i
		begun <- nil
	}
	go func() {
		defer close(read)
		err := d.run(ctx)
		begun <- err
		out.CloseWithError(err)
	}()
	if err := <-begun; err != nil {
		return object.Info{}, fmt.Errorf("the source: %w", err)
	}
	put := *opts
	put.SourceIfMatch = ""
	put.ContentType, put.Headers = cmp.Or(put.ContentType, info.ContentType), put.Headers.Or(info.Headers)
	if put.Metadata == nil {
		put.Metadata = info.Metadata
	}
	bar := a.Bar(source, info.Size)
	put.Length, put.Progress = info.Size, func(n, _ int64) { bar.Set(n) }
	result, err := to.Put(ctx, destination, in, &put)
	bar.End()
	in.CloseWithError(errors.New("the copy has ended"))
	cancel()
	<-read
	return result, err
}

// showing returns the options of a copy inside the store, with its progress shown on a
// terminal.
func (a *access) showing(o *object.WriteOptions, what string) *object.WriteOptions {
	with := *o
	var line *output.Bar
	with.Progress = func(done, total int64) {
		if line == nil {
			line = a.Bar(what, total)
		}
		line.Set(done)
		if done == total {
			line.End()
		}
	}
	return &with
}

package objects

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// cpTree copies recursively. from or to is the name of a directory, or empty for a URL.
func (a *access) cpTree(cmd *cobra.Command, args []string, from, to string, f *writeFlags, dryRun bool) error {
	opts, err := f.options(cmd.Flags())
	if err != nil {
		return err
	}
	var src, dst *stores.ObjectURL
	if from == "" {
		if src, err = a.parsePrefix(args[0], false); err != nil {
			return fmt.Errorf("the source: %w", err)
		}
	}
	if to == "" {
		if dst, err = a.parsePrefix(args[1], true); err != nil {
			return fmt.Errorf("the destination: %w", err)
		}
	}
	switch {
	case from != "":
		if info, err := os.Stat(from); err == nil && !info.IsDir() {
			return exit.Usagef("%s is not a directory: remove --recursive", from)
		}
		err = checkApart(from, dst)
	case to != "":
		err = checkApart(to, src)
	}
	if err != nil {
		return err
	}
	ctx, stop := cmdline.UntilInterrupted(cmd.Context())
	defer stop()
	if from != "" {
		return a.cpFiles(ctx, from, dst, opts, dryRun)
	}
	return a.withBucket(ctx, src, func(ctx context.Context, b stores.Bucket) error {
		if to != "" {
			return a.cpObjectsToFiles(ctx, src, b, to, dryRun)
		}
		return a.cpObjects(ctx, src, b, dst, opts, dryRun)
	})
}

// cpFiles copies the files in a directory to objects.
func (a *access) cpFiles(ctx context.Context, from string, dst *stores.ObjectURL, opts *object.WriteOptions, dryRun bool) error {
	root, err := os.OpenRoot(from)
	if errors.Is(err, fs.ErrNotExist) {
		err = exit.With(exit.NotFound, err)
	}
	if err != nil {
		return err
	}
	defer root.Close()
	t := a.newTree("copied")
	empty := true
	for range filesIn(root) {
		empty = false
		break
	}
	if dryRun || empty { // else an empty directory creates a bucket
		return t.run(ctx, from, filesIn(root), func(_ context.Context, e treeEntry) (string, any, error) {
			return urlBelow(dst, e.name), removedView{urlBelow(dst, e.name), dst.Key + e.name}, nil
		})
	}
	t.bodies = true
	return a.withBucket(ctx, dst, func(ctx context.Context, b stores.Bucket) error {
		return t.run(ctx, from, filesIn(root), func(ctx context.Context, e treeEntry) (string, any, error) {
			name := filepath.FromSlash(e.name)
			src, err := transfer.SourceOf(ctx, filepath.Join(from, name), -1, func() (*os.File, error) { return root.Open(name) })
			if err != nil {
				return "", nil, err
			}
			defer src.Close()
			with := *opts
			with.Length = max(src.Size, 0)
			info, err := a.upload(ctx, b, dst.Key+e.name, src, &with, nil)
			return urlOf(b, dst.Key+e.name), objectViewOf(b, info), refusedWrite(b, err, dst.Key+e.name, &with)
		})
	})
}

// cpObjectsToFiles copies the objects below a prefix to files in a directory, and none to a
// place outside of it.
func (a *access) cpObjectsToFiles(ctx context.Context, src *stores.ObjectURL, b stores.Bucket, to string, dryRun bool) error {
	var root *os.Root
	defer func() {
		if root != nil {
			root.Close()
		}
	}()
	t := a.newTree("copied")
	return t.run(ctx, src.String(), objectsBelow(ctx, b, src.Key, false), func(ctx context.Context, e treeEntry) (string, any, error) {
		name, err := filepath.Localize(e.name)
		if err != nil {
			return "", nil, exit.Usagef("%q cannot be the name of a file in a directory", e.name)
		}
		shown := filepath.Join(to, name)
		if dryRun {
			return shown, objectViewOf(b, e.info), nil
		}
		t.mu.Lock()
		if root == nil { // the first object makes the directory
			if err = os.MkdirAll(to, 0o777); err == nil {
				root, err = os.OpenRoot(to)
			}
		}
		t.mu.Unlock()
		if err == nil {
			err = root.MkdirAll(filepath.Dir(name), 0o777)
		}
		if err != nil {
			return "", nil, err
		}
		dir, err := root.OpenRoot(filepath.Dir(name))
		if err != nil {
			return "", nil, err
		}
		file, err := transfer.TargetIn(dir, shown)
		if err != nil {
			return "", nil, err
		}
		defer file.Discard()
		info, err := a.downloadFile(ctx, b, src.Key+e.name, "", file)
		return shown, objectViewOf(b, info), file.Commit(err)
	})
}

// cpObjects copies the objects below a prefix to another prefix.
func (a *access) cpObjects(ctx context.Context, src *stores.ObjectURL, from stores.Bucket, dst *stores.ObjectURL, opts *object.WriteOptions, dryRun bool) error {
	t := a.newTree("copied")
	if dryRun {
		return t.run(ctx, src.String(), objectsBelow(ctx, from, src.Key, false), func(_ context.Context, e treeEntry) (string, any, error) {
			return urlBelow(dst, e.name), removedView{urlBelow(dst, e.name), dst.Key + e.name}, nil
		})
	}
	to, err := dst.Open(ctx, &a.Access)
	if err != nil {
		return err
	}
	defer to.Close()
	if from.ID() == to.ID() && (strings.HasPrefix(src.Key, dst.Key) || strings.HasPrefix(dst.Key, src.Key)) {
		return exit.Usagef("%s and %s overlap: one of them is inside the other", src, dst)
	}
	t.bodies = from.ID() != to.ID()
	return t.run(ctx, src.String(), objectsBelow(ctx, from, src.Key, false), func(ctx context.Context, e treeEntry) (string, any, error) {
		key := dst.Key + e.name
		info, err := a.copyObject(ctx, from, src.Key+e.name, to, key, opts)
		return urlOf(to, key), objectViewOf(to, info), refusedWrite(to, err, key, opts)
	})
}

func (a *access) objectRm() *cobra.Command {
	f := &writeFlags{}
	var recursive, all, dryRun, yes bool
	cmd := &cobra.Command{
		Use:        "rm URL",
		SuggestFor: []string{"delete"},
		Short:      "Remove an object, or all objects below a prefix",
		Long: `Remove an object. If there is no such object, the status is 66. If the object does not have the
version of --if-match, the status is 73.

--recursive removes all objects below a prefix, and prints the name of each. If the prefix does
not end with a slash, rm adds a slash. On a terminal rm counts the objects, and asks for
confirmation. If rm cannot remove an object, rm continues with the others. rm then ends with the
status of the failures, or with 1 if these have different statuses.

For a whole bucket add --all. If the bucket also contains locks, rm removes the locks, too.`,
		Example: `  holdfast object rm s3://bucket/reports/today.pdf
  holdfast object rm file:/srv/shared/state.json --if-match "$version"
  holdfast object rm --recursive s3://bucket/reports/2024 --dry-run`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := f.options(cmd.Flags())
			switch {
			case err != nil:
				return err
			case !recursive && (all || dryRun || yes):
				return exit.Usagef("--all, --dry-run and --yes need --recursive")
			case recursive:
				if err := refuse(cmd.Flags(), []string{"if-match"}, true); err != nil {
					return err
				}
				return a.rmTree(cmd.Context(), args[0], opts, all, dryRun, yes)
			}
			at, err := a.target(args[0], f, false, "")
			if err != nil {
				return err
			}
			return a.withBucket(cmd.Context(), at, func(ctx context.Context, b stores.Bucket) error {
				if err := f.checkVersions(b, b); err != nil {
					return err
				}
				return a.rm(ctx, b, at.Key, opts)
			})
		},
	}
	f.conditions(cmd.Flags(), false)
	flags := cmd.Flags()
	flags.BoolVarP(&recursive, "recursive", "r", false, "remove all objects below a prefix")
	flags.BoolVar(&all, "all", false, "remove all objects of the bucket")
	flags.BoolVar(&dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (a *access) rm(ctx context.Context, b stores.Bucket, key string, opts *object.WriteOptions) error {
	nothing := false
	if opts.IfMatch == "" {
		_, err := b.Stat(ctx, key)
		nothing = errors.Is(err, store.ErrNotFound) // one who may not read may still delete
	}
	// Also where there is nothing: a fence leaves its mark, and --force removes one.
	if err := b.Delete(ctx, key, opts); err != nil {
		return refusedWrite(b, err, key, opts)
	}
	switch {
	case nothing && opts.Fence != nil:
		return exit.With(exit.NotFound, fmt.Errorf("there was no object %s; the mark of its fence still refuses lower tokens", urlOf(b, key)))
	case nothing:
		return exit.With(exit.NotFound, fmt.Errorf("there was no object %s", urlOf(b, key)))
	}
	return a.PrintIfJSON(removedView{urlOf(b, key), key})
}

func (a *access) rmTree(ctx context.Context, raw string, opts *object.WriteOptions, all, dryRun, yes bool) error {
	at, err := a.parsePrefix(raw, false)
	if err != nil {
		return err
	}
	if at.Key == "" && !all {
		return exit.Usagef("%s is a whole bucket: name a prefix, or add --all", at)
	}
	return a.withBucket(ctx, at, func(ctx context.Context, b stores.Bucket) error {
		t := a.newTree(output.Done(dryRun, "removed"))
		if !dryRun && !yes && a.Interactive() {
			if err := a.confirmTree(ctx, t, b, at); err != nil {
				return err
			}
		}
		return t.run(ctx, at.String(), objectsBelow(ctx, b, at.Key, true), func(ctx context.Context, e treeEntry) (string, any, error) {
			key := at.Key + e.name
			var err error
			if !dryRun {
				err = refusedWrite(b, b.Delete(ctx, key, opts), key, opts)
			}
			return urlOf(b, key), removedView{urlOf(b, key), key}, err
		})
	})
}

// confirmTree counts the objects below a prefix, and asks whether they may be removed.
func (a *access) confirmTree(ctx context.Context, t *tree, b stores.Bucket, at *stores.ObjectURL) error {
	n, size := 0, int64(0)
	for info, err := range b.List(ctx, at.Key, nil) {
		if err != nil {
			return err
		}
		n, size = n+1, size+info.Size
		t.progress(fmt.Sprintf("%d objects counted", n))
	}
	t.progress("")
	if n == 0 {
		return nil
	}
	answer := make(chan error, 1)
	go func() {
		answer <- a.Confirm(fmt.Sprintf("Remove %d objects (%s) below %s?", n, output.Bytes(size), at), fmt.Sprintf("nothing was removed below %s", at))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-answer:
		return err
	}
}

// prefixView is a level of keys, as it is printed with --json. Its fields are stable.
type prefixView struct {
	URL    string `json:"url"`
	Prefix string `json:"prefix"`
}

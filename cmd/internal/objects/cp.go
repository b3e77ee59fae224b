package objects

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/object/dirbucket"
)

func (a *access) objectCp() *cobra.Command {
	f := &writeFlags{}
	var recursive, dryRun bool
	cmd := &cobra.Command{
		Use:   "cp SOURCE DESTINATION",
		Short: "Copy an object or a file",
		Long: `Copy an object to a URL or a file, or a file to a URL. "-" is standard input or output. If the
destination is a bucket, a directory, or ends with a slash, the copy keeps the name of the
source. If cp writes an object, cp prints its version. Within one bucket the server makes the
copy, if the server can do this. Conditions, such as --if-absent, apply to the destination.

--recursive copies all objects below a prefix, or all files of a directory. Each copy keeps the
part of its name after the prefix. cp writes no file outside of the destination. If a copy fails,
cp continues with the others. cp then ends with the status of the failed copies, or with 1 if these
have different statuses. cp does not copy symbolic links, pipes and devices, and ends with status 1
if it finds one.`,
		Example: `  holdfast object cp report.pdf s3://bucket/reports/
  holdfast object cp s3://bucket/reports/report.pdf .
  holdfast object cp s3://bucket/a s3://bucket/b --if-absent
  holdfast object cp --recursive site s3://bucket/www --cache-control max-age=3600
  holdfast object cp --recursive s3://bucket/reports file:/srv/backup/reports`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0, 1),
		Args:              cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := localName(args[0])
			if err != nil {
				return fmt.Errorf("the source: %w", err)
			}
			to, err := localName(args[1])
			if err != nil {
				return fmt.Errorf("the destination: %w", err)
			}
			if from == "" && a.isFileOutside(args[0]) {
				from = a.pathOf(args[0])
			}
			if to == "" && !recursive && a.pathOf(args[1]) != "" {
				if _, err := a.ParseObject(args[1], true); err != nil {
					return fmt.Errorf("the destination: %w; if you mean a file, write %s", err, a.pathOf(args[1]))
				}
			}
			switch {
			case from != "" && to != "":
				return exit.Usagef("%s and %s are both files: use the system's cp command; for an object write s3://BUCKET/KEY or file:DIR/KEY", args[0], args[1])
			case dryRun && !recursive:
				return exit.Usagef("--dry-run needs --recursive")
			}
			var refused []string
			if to != "" {
				refused = []string{"if-absent", "if-match", "fence", "force", "content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "metadata"}
			}
			if from != "" {
				refused = append(refused, "source-if-match")
			}
			if recursive {
				refused = append(refused, "if-match", "source-if-match")
			}
			if err := refuse(cmd.Flags(), refused, recursive); err != nil {
				return err
			}
			switch {
			case recursive:
				return a.cpTree(cmd, args, from, to, f, dryRun)
			case from != "":
				return a.put(cmd, from, args[1], filepath.Base(from), -1, f)
			case to != "":
				return a.cpToFile(cmd, args[0], to, f)
			}
			return a.withTwo(cmd, args, true, f, func(ctx context.Context, src, dst *stores.ObjectURL, from, to stores.Bucket, opts *object.WriteOptions) error {
				info, err := a.copyObject(ctx, from, src.Key, to, dst.Key, opts)
				return a.printObject(to, info, refusedWrite(to, err, dst.Key, opts))
			})
		},
	}
	f.conditions(cmd.Flags(), true)
	f.source(cmd.Flags())
	f.content(cmd.Flags(), "that of the source")
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy all objects below a prefix, or all files in a directory")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be copied, and copy nothing")
	return cmd
}

// refuse refuses flags that make no sense for a command line.
func refuse(flags *pflag.FlagSet, names []string, recursive bool) error {
	for _, name := range names {
		if flags.Changed(name) {
			if recursive && strings.HasSuffix(name, "-match") {
				return exit.Usagef("--%s names one version, but --recursive copies many objects: remove one of the flags", name)
			}
			return exit.Usagef("--%s is for an object, but the destination is a file: remove the flag", name)
		}
	}
	return nil
}

// localName returns the name of a file; empty for the URL of an object. What looks like a URL,
// and names no file that exists, is one: it may hold a secret, and the parser of URLs says what
// is wrong with it.
func localName(arg string) (string, error) {
	scheme, _, found := strings.Cut(arg, ":")
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-"
	switch {
	case arg == "":
		return "", exit.Usagef("the name is empty")
	case stores.IsURL(arg):
		return "", nil
	case found && len(scheme) > 1 && strings.Trim(scheme, letters) == "":
		if _, err := os.Lstat(arg); err != nil {
			return "", nil
		}
	}
	return arg, nil
}

// isFileOutside reports whether file:PATH names a regular file that is in no bucket, so
// that it can mean nothing but that file.
func (a *access) isFileOutside(raw string) bool {
	name := a.pathOf(raw) // of another URL it is empty, and names no file
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	dir, _, err := stores.NearestBucket(name)
	return err == nil && dir == ""
}

// pathOf returns the path of file:PATH; empty if the URL has anything else.
func (a *access) pathOf(raw string) string {
	u, err := a.ParseURL(raw)
	if err != nil || u.Scheme != "file" || u.RawQuery != "" {
		return ""
	}
	name, _ := stores.PathOf(u) // a wrong one is empty
	return name
}

// cpToFile copies an object to a file, or to standard output.
func (a *access) cpToFile(cmd *cobra.Command, raw, name string, f *writeFlags) error {
	opts, err := f.options(cmd.Flags())
	if err != nil {
		return err
	}
	if a.JSON && name == "-" {
		return exit.Usagef("--json and the object would both go to standard output: name a file")
	}
	return a.withObject(cmd.Context(), raw, false, func(ctx context.Context, b stores.Bucket, key string) error {
		if err := checkVersion(b, "source-if-match", f.SourceIfMatch); err != nil {
			return err
		}
		info, err := os.Stat(name)
		if err == nil && info.IsDir() || os.IsPathSeparator(name[len(name)-1]) {
			base, err := filepath.Localize(path.Base(key))
			if err != nil || base == "." {
				return exit.Usagef("the last part of the key %q cannot be the name of a file: name the destination file", key)
			}
			name = filepath.Join(name, base)
		}
		return a.get(ctx, b, key, object.GetOptions{IfMatch: opts.SourceIfMatch}, name, true)
	})
}

// checkApart refuses to copy between a directory and a bucket of which one is in the other:
// the files of the bucket would be taken for files of the user.
func checkApart(dir string, at *stores.ObjectURL) error {
	if at.Bucket.Scheme != "file" {
		return nil
	}
	bucketDir, _, err := stores.DirectoryOf(at.Bucket)
	if err != nil {
		return err
	}
	inside, err := stores.IsWithin(bucketDir, dir)
	outside, outsideErr := stores.IsWithin(dir, bucketDir)
	if err := cmp.Or(err, outsideErr); err != nil {
		return err
	}
	if is, err := dirbucket.Exists(bucketDir); inside || outside && is || err != nil {
		return cmp.Or(err, exit.Usagef("the bucket %s and the directory %s overlap: one of them is inside the other", at, dir))
	}
	return nil
}

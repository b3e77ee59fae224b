package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/internal/cmdline"
	"github.com/holdfast-go/holdfast/cmd/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/internal/output"
	"github.com/holdfast-go/holdfast/cmd/internal/printable"
	"github.com/holdfast-go/holdfast/cmd/internal/stores"
	"github.com/holdfast-go/holdfast/cmd/internal/transfer"
	"github.com/holdfast-go/holdfast/object"
	"github.com/holdfast-go/holdfast/store"
)

// objectView is an object as it is printed with --json. Its fields are stable.
type objectView struct {
	URL         string     `json:"url"`
	Key         string     `json:"key"`
	Version     string     `json:"version"`
	Size        int64      `json:"size"`
	Modified    *time.Time `json:"modified,omitempty"`
	ContentType string     `json:"content_type,omitempty"`
	object.Headers
	Metadata map[string]string `json:"metadata,omitempty"`
	WriteID  string            `json:"write_id,omitempty"`
	Fence    *fenceView        `json:"fence,omitempty"`

	// Only in the output of stat: how each kind of conditional write is made safe, or why
	// that is not known.
	Conditions        []conditionView `json:"conditions,omitempty"`
	ConditionsUnknown string          `json:"conditions_unknown,omitempty"`
	Reservations      string          `json:"reservations,omitempty"` // the table of [object.StrategyReservation]
	Index             string          `json:"index,omitempty"`        // whose registers have the conditions
}

// removedView is an object that rm has removed, as it is printed with --json. Its fields are
// stable.
type removedView struct {
	URL string `json:"url"`
	Key string `json:"key"`
}

// conditionView is how one kind of conditional write is made safe.
type conditionView struct {
	Ability  string `json:"ability"`          // an [object.Ability], with underscores
	Strategy string `json:"strategy"`         // an [object.Strategy]; native is the store's own condition
	Native   bool   `json:"native_check"`     // the store itself also checks the condition
	Reason   string `json:"reason,omitempty"` // why the write is impossible
}

// strategies adds how conditional writes are made safe. It tests once what the server does.
func (v *objectView) strategies(ctx context.Context, b stores.Bucket) {
	steps, err := b.Strategies(ctx)
	if err != nil {
		v.ConditionsUnknown = output.OneLine(err)
	}
	for _, s := range steps {
		c := conditionView{Ability: strings.ReplaceAll(string(s.Ability), "-", "_"), Strategy: string(s.Strategy), Native: s.Native}
		if s.Err != nil {
			c.Reason = output.OneLine(s.Err)
		}
		v.Conditions = append(v.Conditions, c)
	}
	if b.Reservations != nil {
		v.Reservations = b.Reservations.Name
	}
	v.Index = b.Index
}

// strategyTexts are the rungs of the ladder for people.
var strategyTexts = map[object.Strategy]string{
	object.StrategyCondition:      "the store's own condition",
	object.StrategyMultipart:      "an upload in parts, with the condition on its completion",
	object.StrategyDownloadUpload: "a read and a put of the object, with the condition",
	object.StrategyReservation:    "a reservation",
	object.StrategyNone:           "not possible",
}

// text formats the condition for people.
func (c conditionView) text(reservations, index string) string {
	text := strategyTexts[object.Strategy(c.Strategy)]
	switch {
	case c.Strategy == string(object.StrategyCondition) && index != "":
		text = "the condition of a register in the index " + index
	case c.Strategy == string(object.StrategyReservation) && c.Native:
		text += " in " + reservations + ", and the store's own condition"
	case c.Strategy == string(object.StrategyReservation):
		text += " in " + reservations
	case c.Reason != "":
		text += ": " + c.Reason
	}
	return text
}

// fenceView is the fence of an object.
type fenceView struct {
	Lock  string `json:"lock"`
	Token uint64 `json:"token"`
}

func objectViewOf(b stores.Bucket, info object.Info) objectView {
	v := objectView{
		URL: urlOf(b, info.Key), Key: info.Key, Version: string(info.Version), Size: info.Size,
		ContentType: info.ContentType, Headers: info.Headers, Metadata: info.Metadata, WriteID: info.WriteInfo.ID,
	}
	if !info.Modified.IsZero() {
		v.Modified = &info.Modified
	}
	if f := info.WriteInfo.Fence; f != nil {
		v.Fence = &fenceView{f.Lock, f.Token}
	}
	return v
}

// urlOf returns the URL of an object in the bucket, without parameters.
func urlOf(b stores.Bucket, key string) string {
	return stores.Escaped(b.URL) + "/" + (&url.URL{Path: key}).EscapedPath()
}

// writeFlags are the flags of every command that writes an object.
type writeFlags struct {
	ifAbsent, force      bool
	ifMatch, sourceMatch string
	fence                uint64
	lock                 string
	contentType          string
	headers              object.Headers
	metadata             []string
}

// conditions adds the flags that decide whether the command may write the object.
func (f *writeFlags) conditions(flags *pflag.FlagSet, absent bool) {
	if absent {
		flags.BoolVar(&f.ifAbsent, "if-absent", false, "write only if the object does not exist yet")
	}
	flags.StringVar(&f.ifMatch, "if-match", "", "replace or remove the object only if it has this version")
	f.token(flags)
	flags.BoolVar(&f.force, "force", false, "change the object without a check of the fencing token that it carries")
}

// token adds the flag for the token of a lock.
func (f *writeFlags) token(flags *pflag.FlagSet) {
	flags.Uint64Var(&f.fence, "fence", 0, "fencing token of your grant of the lock; if the object carries a higher token, the status is 76")
	flags.StringVar(&f.lock, "lock", "", "with --fence: name of the lock that the token belongs to (default: HOLDFAST_LOCK)")
}

// source adds the flag for the condition on the source of a copy.
func (f *writeFlags) source(flags *pflag.FlagSet) {
	flags.StringVar(&f.sourceMatch, "source-if-match", "", "copy or rename the source only if it has this version")
}

// content adds the flags for what is kept with the object. standard says what it gets
// without them.
func (f *writeFlags) content(flags *pflag.FlagSet, standard string) {
	flags.StringVar(&f.contentType, "content-type", "", "MIME type of the object (default: "+standard+")")
	flags.StringVar(&f.headers.CacheControl, "cache-control", "", "Cache-Control header of the object, such as max-age=3600")
	flags.StringVar(&f.headers.ContentDisposition, "content-disposition", "", "Content-Disposition header of the object, such as attachment")
	flags.StringVar(&f.headers.ContentEncoding, "content-encoding", "", "Content-Encoding header of the object, such as gzip; holdfast does not encode the content")
	flags.StringVar(&f.headers.ContentLanguage, "content-language", "", "Content-Language header of the object, such as en")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "add metadata to the object, as `NAME=VALUE`; repeat the flag for more")
}

// options returns the options of the write. It refuses a condition that is given but empty
// (by an unset variable, say): the write would have no condition. A command asks for the
// options before it opens a bucket, which it may make.
func (f *writeFlags) options(flags *pflag.FlagSet) (*object.WriteOptions, error) {
	o := &object.WriteOptions{IfAbsent: f.ifAbsent, Force: f.force, ContentType: f.contentType, Headers: f.headers}
	for _, name := range []string{"if-match", "source-if-match"} {
		if cmdline.EmptyFlag(flags, name) {
			return nil, exit.Usagef("--%s is empty: name a version, or use --if-absent for an object that must not exist", name)
		}
	}
	o.IfMatch, o.SourceIfMatch = object.Version(f.ifMatch), object.Version(f.sourceMatch)
	if o.IfAbsent && o.IfMatch != "" {
		return nil, exit.Usagef("--if-absent and --if-match exclude each other: give one of them")
	}
	fenced := flags.Changed("fence")
	switch {
	case cmdline.EmptyFlag(flags, "fence"), fenced && f.fence == 0:
		return nil, exit.Usagef("--fence needs a token of at least 1")
	case fenced && f.lock == "":
		return nil, exit.Usagef("--fence needs --lock NAME, the lock that issued the token")
	case !fenced && f.lock != "" && os.Getenv(cmdline.VariableOf("lock")) != f.lock:
		return nil, exit.Usagef("--lock needs --fence TOKEN, the token of that lock")
	case fenced:
		o.Fence = &object.Fence{Lock: f.lock, Token: f.fence}
	}
	for _, pair := range f.metadata {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, exit.Usagef("--metadata needs NAME=VALUE")
		}
		if o.Metadata == nil {
			o.Metadata = map[string]string{}
		}
		if _, twice := o.Metadata[name]; twice {
			return nil, exit.Usagef("--metadata %s is given twice", printable.Text(name))
		}
		o.Metadata[name] = value
	}
	return o, nil
}

// target takes the URL of the object that is to be written apart. A write that names the
// version which it replaces makes no bucket: there is no such version in a new one.
// If it names a bucket, or ends with a slash, the object gets this name there; an empty name
// refuses that.
func (a *access) target(raw string, f *writeFlags, makes bool, name string) (*stores.ObjectURL, error) {
	at, err := a.ParseObject(raw, makes && f.ifMatch == "")
	if err == nil {
		if at.Key == "" || strings.HasSuffix(at.Key, "/") {
			at.Key += name
		}
		err = at.Object()
	}
	if at != nil {
		at.Replaces = f.ifMatch != ""
	}
	return at, at.Absent(err)
}

// checkVersions refuses conditions that are no versions of these buckets.
func (f *writeFlags) checkVersions(from, to stores.Bucket) error {
	if err := checkVersion(to, "if-match", f.ifMatch); err != nil {
		return err
	}
	return checkVersion(from, "source-if-match", f.sourceMatch)
}

// checkVersion refuses a text that cannot be a version of this bucket. An ETag without its
// quotes, for one, would make every object look changed.
func checkVersion(b stores.Bucket, flag, version string) error {
	if version == "" || !b.ETags || strings.HasPrefix(strings.TrimPrefix(version, "W/"), `"`) && strings.HasSuffix(version, `"`) {
		return nil
	}
	return exit.Usagef(`--%s: a version of an object on S3 is its ETag with the double quotes, as put prints it: '"..."'`, flag)
}

// refusedWrite explains an error of a write of key whose condition did not hold: it says what is
// there now.
func refusedWrite(b stores.Bucket, err error, key string, o *object.WriteOptions) error {
	var conflict *object.ConflictError
	if !errors.As(err, &conflict) || store.OutcomeOf(err) != store.NotApplied {
		return err
	}
	switch {
	case conflict.RenamedTo != "":
		err = fmt.Errorf("another program has renamed the object to %s", urlOf(b, conflict.RenamedTo))
	case conflict.Key != key: // the source of a copy
		err = fmt.Errorf("the source %q does not have the version that you named", conflict.Key)
	case conflict.HasCurrent && conflict.Version == "":
		err = fmt.Errorf("%s does not exist", urlOf(b, key))
	case conflict.HasCurrent && o.IfAbsent:
		err = fmt.Errorf("%s already exists, with version %s", urlOf(b, key), conflict.Version)
	case conflict.HasCurrent:
		err = fmt.Errorf("%s has changed: its version is %s", urlOf(b, key), conflict.Version)
	case o.IfAbsent:
		err = fmt.Errorf("the store refuses to create %s, although the object does not exist: try again; if that does not help, the store treats deleted versions as objects: remove the versions, or write without --if-absent", urlOf(b, key))
	default:
		err = fmt.Errorf("%s has changed", urlOf(b, key))
	}
	return exit.With(exit.Condition, err)
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
	a.WarnUntrustedState()
	ctx, stop := cmdline.UntilInterrupted(ctx)
	defer stop()
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
		return a.printObject(objectViewOf(b, info))
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

// printObject prints what was written: its version, or the whole view with --json.
func (a *access) printObject(v objectView) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	_, err := fmt.Fprintln(a.Stdout, printable.Text(v.Version))
	return err
}

func (a *access) getCommand() *cobra.Command {
	var opts object.GetOptions
	var ifMatch string
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
			opts.IfMatch = object.Version(ifMatch)
			switch {
			case cmdline.EmptyFlag(cmd.Flags(), "if-match"):
				return exit.Usagef("--if-match is empty: name a version")
			case opts.Offset < 0, opts.Length < 0:
				return exit.Usagef("--offset and --length must be numbers of bytes, at least 0")
			case a.JSON && (name == "" || name == "-"):
				return exit.Usagef("--json and the object would both go to standard output: name a file")
			}
			return a.withObject(cmd.Context(), args[0], false, func(ctx context.Context, b stores.Bucket, key string) error {
				if err := checkVersion(b, "if-match", ifMatch); err != nil {
					return err
				}
				return a.get(ctx, b, key, opts, name, len(args) > 1)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&ifMatch, "if-match", "", "read only if the object has this version")
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
	if err == nil {
		err = to.Commit()
	}
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(objectViewOf(b, info))
	}
	return nil
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
				if err != nil {
					return err
				}
				view := objectViewOf(b, info)
				if versionOnly {
					return a.printObject(view)
				}
				view.strategies(ctx, b)
				return a.printStat(view)
			})
		},
	}
	cmd.Flags().BoolVar(&versionOnly, "version-only", false, "print the version and nothing else")
	return cmd
}

func (a *access) printStat(v objectView) error {
	if a.JSON {
		return a.PrintJSON(v)
	}
	to := a.Table()
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, printable.Text(value))
		}
	}
	line("url", v.URL)
	line("version", v.Version)
	line("size", fmt.Sprint(v.Size))
	if v.Modified != nil {
		line("modified", v.Modified.Local().Format(time.RFC3339))
	}
	line("content-type", v.ContentType)
	line("cache-control", v.CacheControl)
	line("content-disposition", v.ContentDisposition)
	line("content-encoding", v.ContentEncoding)
	line("content-language", v.ContentLanguage)
	if v.Fence != nil {
		line("fence", fmt.Sprintf("token %d of the lock %s", v.Fence.Token, v.Fence.Lock))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Metadata)) {
		line("metadata", name+"="+v.Metadata[name])
	}
	for _, c := range v.Conditions {
		line(c.Ability, c.text(v.Reservations, v.Index))
	}
	line("conditions", v.ConditionsUnknown)
	return errors.Join(w.Flush(), to.Close())
}

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
				if err != nil {
					return refusedWrite(to, err, dst.Key, opts)
				}
				if done.Resumed {
					a.Notef("an earlier rename has already copied %s", src)
				}
				return a.printObject(objectViewOf(to, done.Info))
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

// copyBetween copies an object from one bucket to another.
func (a *access) copyBetween(ctx context.Context, from stores.Bucket, source string, to stores.Bucket, destination string, opts *object.WriteOptions) (object.Info, error) {
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

func (a *access) objectFence() *cobra.Command {
	f := &writeFlags{}
	cmd := &cobra.Command{
		Use:   "fence URL --fence TOKEN --lock NAME",
		Short: "Block writes of earlier lock holders to an object",
		Long: `Store the token of a lock in an object, and print the new version of the object. The content does
not change. After that, holders with a lower token cannot write the object. So a new holder first
calls fence, and then reads. If the object does not exist, fence stores the token in a mark.
Readers do not see the mark.

fence needs a store that never uses a version twice: a directory, or a bucket with an index
(index=self). For other buckets the status is 78. If the object carries a higher token, the status
is 76.`,
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
				if err != nil {
					return err
				}
				return a.printObject(objectViewOf(b, info))
			})
		},
	}
	f.token(cmd.Flags())
	return cmd
}

func (a *access) objectLs() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:        "ls URL",
		SuggestFor: []string{"list"},
		Short:      "List the objects of a bucket, or those below a prefix",
		Long: `List the objects below a prefix, in no fixed order. Each line has the size, the time, the version
and the key, separated by tabs. With --json each object is one line.

Without --recursive, ls lists one level. A key that ends with a slash, such as reports/2024/,
represents all objects below it.`,
		Example: `  holdfast object ls s3://bucket/reports/
  holdfast object ls --recursive file:/srv/shared --json | jq -r .version`,
		ValidArgsFunction: cmdline.CompleteAt(objectURLs, 0),
		Args:              cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.lsObjects(cmd.Context(), args[0], recursive)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "list all levels")
	return cmd
}

// printListed prints one object of a listing. A listing can be long.
func (a *access) printListed(v objectView) error {
	if a.JSON {
		return printable.JSON(a.Stdout).Encode(v)
	}
	modified := "-"
	if v.Modified != nil {
		modified = v.Modified.UTC().Format(time.RFC3339)
	}
	_, err := fmt.Fprintf(a.Stdout, "%d\t%s\t%s\t%s\n", v.Size, modified, printable.Text(v.Version), printable.Text(v.Key))
	return err
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
